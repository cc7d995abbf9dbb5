//! What the keeper of a ledger has signed.

use super::{Ledger, PartReturned};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::ticket::link::SignedLink;
use crate::ticket::receipt::Return;

impl Ledger {
    /// The links of an issuer, by their hashes, each with the end of its term.
    pub(crate) fn signed_by(&self, issuer: ActorId) -> Vec<(Time, Hash)> {
        let own = self.links().filter(|link| link.issuer == issuer);
        own.map(|link| (link.term.end(), link.hash().hash())).collect()
    }

    /// As [`signed_by`](Self::signed_by), with the receipts of a site.
    pub(crate) fn signed_by_site(&self, site: ActorId) -> Vec<(Time, Hash)> {
        let receipt = |link: &SignedLink, part: &PartReturned| {
            let PartReturned { number, units, term } = *part;
            let (issuer, link) = (link.issuer, link.hash());
            (term.end(), Return { site, link, issuer, units, term, number }.hash())
        };
        let entries = self
            .entries
            .values()
            .flat_map(|entry| entry.returns.iter().map(|part| receipt(&entry.link, part)));
        let accounts = self.accounts.values().flat_map(|account| {
            account.generations().iter().flat_map(|link| {
                let parts = account.returned.get(&link.hash()).into_iter().flatten();
                parts.map(|part| receipt(link, part))
            })
        });
        self.signed_by(site).into_iter().chain(entries).chain(accounts).collect()
    }

    /// All links: generations of delegations, and what was cut.
    fn links(&self) -> impl Iterator<Item = &SignedLink> {
        let heads = self.accounts.values().flat_map(|account| account.generations());
        heads.chain(self.entries.values().map(|entry| &entry.link))
    }
}
