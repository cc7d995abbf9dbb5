//! Validates requests before an actor is asked, with errors in the user's terms.

use tenure_core::model::time::Span;

use super::view::LeaseView;
use super::{ApiError, Code};

/// Checks that a duration is positive.
pub(super) fn lasts(duration: Span) -> Result<(), ApiError> {
    if duration.is_positive() {
        return Ok(());
    }
    let message = format!("the duration must be positive, not {duration}");
    Err(ApiError::new(Code::Usage, message).help("say for how long: `--for 10m`"))
}

/// A lease can be extended while its guest has its units, or is about to.
pub(super) fn goes_on(leases: &[LeaseView]) -> Result<(), ApiError> {
    let held = |lease: &LeaseView| matches!(lease.state.as_str(), "joining" | "active");
    let Some(lease) = leases.first().filter(|_| !leases.iter().any(held)) else { return Ok(()) };
    let message =
        format!("{} is {}; what can be extended is an active lease", lease.lease, lease.state);
    Err(ApiError::new(Code::Usage, message)
        .help("ask for a new one with `tenure lease request`, or look with `tenure lease why`"))
}

/// A lease of which a part is to be given back is in use, and one alone.
pub(super) fn changes(leases: &[LeaseView]) -> Result<(), ApiError> {
    let Some(lease) = leases.first() else { return Ok(()) };
    if leases.len() > 1 {
        let message = format!("{} leases have this name", leases.len());
        return Err(ApiError::new(Code::Usage, message)
            .help(format!("name one of them, such as {}", lease.lease)));
    }
    if matches!(lease.state.as_str(), "joining" | "active") {
        return Ok(());
    }
    let message =
        format!("{} is {}; what can be flexed is an active lease", lease.lease, lease.state);
    Err(ApiError::new(Code::Usage, message).help("look with `tenure lease why`"))
}

/// A lease of which units are to be given back; a ticket that is kept can do without some as well.
pub(super) fn shrinks(leases: &[LeaseView]) -> Result<(), ApiError> {
    match leases {
        [lease] if lease.state == "ticketed" => Ok(()),
        leases => changes(leases),
    }
}
