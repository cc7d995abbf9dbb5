//! What a request waits for.

use tenure_core::model::name::Name;
use tenure_core::service_manager::sequence::On;
use tenure_node::api::LeaseName;

/// Which item waits, and for what.
#[derive(Clone, Debug)]
pub(crate) struct WaitFor {
    /// The item; all of them unless set.
    pub(in crate::live) item: Option<u16>,
    /// What it waits for.
    pub(in crate::live) on: On,
    /// The service manager of that request, if it is named.
    pub(in crate::live) manager: Option<Name>,
}

/// `guest/3`, `3`, `1:item0`, `1:guest/3`
pub(super) fn wait_for(text: &str) -> Result<WaitFor, String> {
    let bad = || "write a request, such as guest/3, or an item of the demand: 1:item0".to_owned();
    let (item, what) = text.split_once(':').map_or((None, text), |(item, what)| (Some(item), what));
    let item = item.map(str::parse).transpose().map_err(|_| bad())?;
    if let Some(other) = what.strip_prefix("item") {
        let on = On::Item(other.parse().map_err(|_| bad())?);
        return Ok(WaitFor { item, on, manager: None });
    }
    let request: LeaseName = what.parse().map_err(|_| bad())?;
    if request.part.is_some() {
        return Err(bad());
    }
    Ok(WaitFor { item, on: On::Request(request.number), manager: request.manager })
}
