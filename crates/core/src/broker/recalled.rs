//! Notices of recalled delegations: the broker sells no more units than the recall leaves.

use super::{Broker, Output};
use crate::actor::{Cause, Emit as _, dropped};
use crate::broker::facts::RecallTold;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::wire::message::Message;
use crate::wire::recall::{Level, Notice};

impl Broker {
    /// What the site said last of the recall of a delegation.
    pub fn recall_told_of(&self, delegation: DelegationId) -> Option<&Notice> {
        let holding = self.state.holdings.get(&AccountId::Delegation(delegation))?;
        holding.recalled.as_ref().map(|(told, _)| told)
    }

    /// The site says that units of a delegation are recalled.
    pub(super) fn told_of_recall(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: LinkHash,
        told: Notice,
        out: &mut Output,
    ) {
        let Some(delegation) = self.held_as(from, told.link) else {
            return out.problems.push(dropped("recall-notice", "it has no such delegation"));
        };
        let (link, number) = (told.link, told.number);
        let known = self.recall_told_of(delegation);
        if known.is_some_and(|known| number < known.number) {
            return;
        }
        if known.is_none_or(|known| known.number < number) {
            self.emit(now, RecallTold { delegation, told }, out);
            self.give_back_unsold(now, AccountId::Delegation(delegation), out);
        }
        let holding = self.state.holdings.get(&AccountId::Delegation(delegation));
        let Some((_, cause)) = holding.and_then(|holding| holding.recalled.as_ref()) else {
            return;
        };
        let noted =
            Message::RecallNoted { ticket, link, number, victims: Vec::new(), unclaimed: true };
        out.replies.push(self.base.answer(from, *cause, noted));
    }

    /// The delegation of a site, or of a broker below it, that a link is a generation of.
    fn held_as(&self, site: ActorId, link: LinkHash) -> Option<DelegationId> {
        let holdings = self.state.holdings.iter();
        let mut there = holdings.filter(|(_, holding)| holding.ticket.site() == site);
        there.find_map(|(account, holding)| {
            let AccountId::Delegation(id) = *account else { return None };
            // Ledgers forget generations that are long over.
            let told = holding.recalled.as_ref().is_some_and(|(told, _)| told.link == link);
            let heads = self.state.ledger.account(*account)?.heads();
            (told || heads.iter().any(|head| head.hash() == link)).then_some(id)
        })
    }

    pub(super) fn recall_told(&mut self, at: Time, fact: &RecallTold) {
        let RecallTold { delegation, told } = fact;
        let (id, cause) = (AccountId::Delegation(*delegation), self.cause(at));
        let Some(holding) = self.state.holdings.get_mut(&id) else { return };
        holding.recalled = Some((told.clone(), cause));
        let resource = holding.ticket.bottom().resource.clone();
        let limit = Some((told.units, told.at)).filter(|_| told.units < Level::ALL);
        if mutant!(SellsRecalled) {
            return;
        }
        let changes = self.state.ledger.limit(id, limit);
        self.change_total(&resource, &changes, 1);
        self.call_for_open();
    }

    fn cause(&self, at: Time) -> Cause {
        Cause { position: self.base.position, at }
    }
}
