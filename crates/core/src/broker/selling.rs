//! Downtime: a broker that is drained sells nothing, has what it lent given back, and gives back what it borrowed.
//! What was sold stays.

use super::{Broker, Output};
use crate::actor::Emit as _;
use crate::broker::facts::SellingSet;
use crate::broker::machine::State;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::wire::refusal::Refusal;

impl Broker {
    /// Whether it sells.
    pub fn sells(&self) -> bool {
        !self.state.is_drained
    }

    /// How many of its tickets are out, and when the last of them ends.
    pub fn tickets_out(&self, now: Time) -> (u32, Option<Time>) {
        let out = self.state.issued.iter().filter(|(hash, issued)| {
            !issued.returned && now < issued.until && self.sold(**hash).is_some()
        });
        let ends = out.map(|(_, issued)| issued.until);
        ends.fold((0, None), |(count, last), end| (count + 1, last.max(Some(end))))
    }

    pub(super) fn sell(&mut self, now: Time, sells: bool, out: &mut Output) {
        if sells != self.sells() {
            self.emit(now, SellingSet { sells }, out);
        }
        if !sells {
            self.refuse_open(now, out);
        }
        self.review_sharings(now, out);
        self.give_back_all_unsold(now, out);
    }

    /// What waits for a decision gets none.
    fn refuse_open(&mut self, now: Time, out: &mut Output) {
        let open: Vec<RequestId> = self.state.open.values().copied().collect();
        for id in open {
            if matches!(self.request(id), Some(State::Open { .. })) {
                let reason = "the broker is drained".to_owned();
                self.refuse(now, id, Refusal::Drained, reason, out);
            }
        }
    }

    pub(super) fn selling_set(&mut self, at: Time, fact: &SellingSet) {
        self.state.is_drained = !fact.sells;
        self.call_for_sharing(at);
    }
}
