//! Tickets of which something came back before anything was entered under them.

use super::{Ledger, Overdrawn};
use crate::model::calendar::Calendar;
use crate::ticket::link::SignedLink;

impl Ledger {
    /// What is still charged of an entered ticket of which something came back. That is all that its children can
    /// have: whoever has forgotten that the ticket was used, as a site may whose clock was set back, still knows this.
    pub(super) fn out_of(&self, parent: &SignedLink) -> Option<Calendar> {
        let entry = self.entries.get(&parent.hash()).filter(|entry| !entry.returns.is_empty())?;
        let mut out = Calendar::new();
        out.add(entry.link.term, i64::from(entry.link.units.get()));
        for back in &entry.returns {
            out.add(back.term, -i64::from(back.units.get()));
        }
        Some(out)
    }

    /// Whether the first child of a ticket fits into what did not come back of it.
    pub(super) fn fits_what_is_out(
        &self,
        parent: &SignedLink,
        child: &SignedLink,
    ) -> Result<(), Overdrawn> {
        let short = self
            .out_of(parent)
            .and_then(|out| out.first_short(child.term, i64::from(child.units.get())));
        let overdrawn = |at| Overdrawn { at, links: vec![child.clone()], shown: false };
        short.map_or(Ok(()), |at| Err(overdrawn(at)))
    }
}
