//! Tickets by their hashes, or the beginnings of these.

use std::collections::BTreeMap;

use tenure_core::actor::{Actor as _, Role};
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::machine::State;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::Ledger;
use tenure_core::ticket::link::{LinkHash, SignedLink};

use super::proof::{self, TicketView};
use super::server::{ApiResult, AppState};
use super::view;
use super::{ApiError, Code};

/// How many digits a hash has.
const DIGITS: usize = 64;

/// How many of the tickets that may be meant are named, and how many digits of each.
const NAMED: usize = 5;
const SHOWN: usize = 16;

/// The beginning of a ticket's hash.
#[derive(Clone, Debug)]
pub(super) struct HashPrefix {
    digits: String,
    /// The whole hash, if that is what was written.
    whole: Option<LinkHash>,
}

impl HashPrefix {
    /// What a user wrote; nothing if that begins no hash.
    pub(super) fn new(text: &str) -> Option<Self> {
        let digits = text.to_ascii_lowercase();
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if digits.is_empty() || digits.len() > DIGITS || !is_hex {
            return None;
        }
        let whole = serde_json::from_value(serde_json::Value::from(digits.as_str())).ok();
        Some(Self { digits, whole })
    }

    /// How many digits it has.
    pub(super) fn len(&self) -> usize {
        self.digits.len()
    }

    /// Whether a hash begins so.
    pub(super) fn begins(&self, hash: LinkHash) -> bool {
        self.whole.map_or_else(|| hash.to_hex().starts_with(&self.digits), |whole| whole == hash)
    }

    /// The links in a ledger whose hashes begin so. One that is named in full is found by its hash.
    pub(super) fn in_ledger<'a>(&self, ledger: &'a Ledger) -> Vec<&'a SignedLink> {
        match self.whole {
            Some(whole) => ledger.entered(whole).map(|(_, link)| link).into_iter().collect(),
            None => links(ledger).filter(|link| self.begins(link.hash())).collect(),
        }
    }

    /// The leases that hold tickets whose hashes begin so. One that is named in full is found by its hash.
    pub(super) fn leases_of(&self, guest: &ServiceManager) -> Vec<(LinkHash, LeaseId)> {
        if let Some(whole) = self.whole {
            return guest.lease_of(whole).map(|lease| (whole, lease)).into_iter().collect();
        }
        let of = |(lease, state)| tickets_of(state).into_iter().map(move |t| (t.hash(), lease));
        guest.leases().flat_map(of).filter(|(hash, _)| self.begins(*hash)).collect()
    }

    /// The only one of several tickets, each with what it is known by.
    ///
    /// # Errors
    /// If there are several.
    pub(super) fn only<T>(
        &self,
        mut found: BTreeMap<LinkHash, (String, T)>,
    ) -> ApiResult<Option<(LinkHash, T)>> {
        if found.len() < 2 {
            return Ok(found.pop_first().map(|(hash, (_, what))| (hash, what)));
        }
        let shown = found.iter().take(NAMED).map(|(hash, (name, _))| {
            format!("{} ({name})", hash.to_hex().split_at(SHOWN.max(self.len() + 1).min(DIGITS)).0)
        });
        let mut shown: Vec<String> = shown.collect();
        if let Some(more @ 1..) = found.len().checked_sub(NAMED) {
            shown.push(format!("and {more} more"));
        }
        let message = format!("{} tickets begin with {}", found.len(), self.digits);
        let help = format!("write more digits, of one of {}", shown.join(", "));
        Err(ApiError::new(Code::Usage, message).help(help))
    }
}

fn links(ledger: &Ledger) -> impl Iterator<Item = &SignedLink> {
    let children = ledger.accounts().flat_map(|(account, _)| ledger.children(account));
    children.map(|(link, _)| link)
}

/// The tickets that a lease holds.
fn tickets_of(state: &State) -> Vec<&Ticket> {
    match (state.held(), state) {
        (Some(held), _) => held.tickets.iter().collect(),
        (None, State::Closing { tickets, .. }) => tickets.iter().collect(),
        (None, state) => state.ticket().into_iter().collect(),
    }
}

/// Where a ticket is that a service manager knows.
#[derive(Clone, Debug)]
struct Known {
    manager: Name,
    lease: LeaseId,
}

impl AppState {
    /// The ticket in a service manager's hands, or handed on by one, whose hash begins so.
    pub(super) async fn ticket(&self, text: &str) -> ApiResult<TicketView> {
        let none = || {
            ApiError::new(Code::NoSuch, format!("no ticket held here begins with {text}"))
                .help("`tenure lease show` names the tickets of a lease")
        };
        let prefix = HashPrefix::new(text).ok_or_else(none)?;
        let (hash, Known { manager, lease }) =
            prefix.only(self.known(&prefix).await?)?.ok_or_else(none)?;
        let names = self.names();
        let name = view::lease_name(manager.as_str(), lease);
        let view = move |guest: &ServiceManager| {
            let state = guest.lease(lease)?;
            let context = (&names, guest.keys());
            let own = tickets_of(state).into_iter().find(|ticket| ticket.hash() == hash);
            if let Some(own) = own {
                let told = guest.survey_of(lease)?.recalled;
                return Some(proof::ticket(own, Some(name), context).recalled(told));
            }
            let (ticket, (_, part)) = (state.ticket()?, guest.splits().entered(hash)?);
            let mut found = proof::ticket(&ticket.with(part.clone()), Some(name), context);
            let bottom = found.links.last_mut();
            bottom.into_iter().for_each(|link| link.stay = super::tickets::stays(guest, part));
            Some(found)
        };
        self.guest(&manager, view).await?.ok_or_else(none)
    }

    /// The tickets that service managers hold, or have handed on parts as, whose hashes begin so. One that two
    /// of them know is shown as its holder has it.
    async fn known(&self, prefix: &HashPrefix) -> ApiResult<BTreeMap<LinkHash, (String, Known)>> {
        let (mut held, mut parts) = (BTreeMap::new(), BTreeMap::new());
        for handle in self.of_role(Role::ServiceManager) {
            let (manager, prefix) = (handle.info().name.clone(), prefix.clone());
            let found = self.guest(&handle.info().name, move |guest| {
                let held = prefix.leases_of(guest);
                let parts = prefix.in_ledger(guest.splits()).into_iter();
                let parts = parts.filter_map(|l| Some((l.hash(), guest.lease_of(l.parent?)?)));
                Some((held, parts.collect::<Vec<_>>()))
            });
            let known = |(hash, lease)| {
                let name = view::lease_name(manager.as_str(), lease);
                (hash, (name, Known { manager: manager.clone(), lease }))
            };
            let (of_leases, of_parts) = found.await?.unwrap_or_default();
            held.extend(of_leases.into_iter().map(known));
            parts.extend(of_parts.into_iter().map(known));
        }
        parts.append(&mut held);
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::model::codec::Hash;

    #[test]
    fn what_begins_no_hash_is_not_taken_for_one() {
        for text in ["", "xyz", "guest/3", &"a".repeat(65)] {
            assert!(HashPrefix::new(text).is_none(), "{text}");
        }
        assert!(HashPrefix::new(&"A".repeat(64)).is_some_and(|prefix| prefix.whole.is_some()));
        assert!(HashPrefix::new("ab").is_some_and(|prefix| prefix.whole.is_none()));
    }

    #[test]
    fn of_several_candidates_each_is_named() {
        let hash = |nth: u8| {
            let bytes = std::array::from_fn(|at| if at == 31 { nth } else { 0xab });
            let hex = Hash::from_bytes(bytes).to_hex();
            HashPrefix::new(&hex).unwrap().whole.unwrap()
        };
        let prefix = HashPrefix::new("abab").unwrap();
        let found = |count| (0..count).map(|nth| (hash(nth), (format!("guest/{nth}.0"), nth)));
        assert_eq!(prefix.only(found(0).collect()).unwrap(), None);
        assert_eq!(prefix.only(found(1).collect()).unwrap(), Some((hash(0), 0)));
        let error = prefix.only(found(7).collect()).unwrap_err();
        assert_eq!(error.message, "7 tickets begin with abab");
        let help = error.help.unwrap();
        assert!(help.contains("abababababababab (guest/4.0), and 2 more"), "{help}");
    }
}
