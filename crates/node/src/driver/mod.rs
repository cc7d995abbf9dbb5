//! Drivers: what really happens to a unit, at the site and at the guest.
