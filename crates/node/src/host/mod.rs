//! Hosts: one actix actor around the loop of each leasing actor.
