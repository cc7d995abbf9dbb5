//! Peers' clocks, compared with one's own by signed questions and answers.
//!
//! Terms rest on clocks that differ by no more than the margin. Every now and then an actor sends its peers
//! a `ping`, and each signs in a `pong` what its clock shows. The answer was given between sending and
//! receiving, so however slow the network is, a peer that is found ahead or behind is at least that far.
//! What is found beyond the margin is a fact, with the signed answer as proof; it decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Base;
use crate::actor::effect::Output;
use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::wire::message::{Envelope, Header, Message};

/// A peer's clock that is apart from one's own by more than the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockApart {
    /// How far it is ahead at least; negative if it is behind.
    pub ahead: Span,
    /// Since when it has been known, by one's own clock.
    pub since: Time,
}

/// The peers whose clocks are apart, as the journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClocksApart(BTreeMap<ActorId, ClockApart>);

impl ClocksApart {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (ActorId, ClockApart)> {
        self.0.iter().map(|(&peer, &apart)| (peer, apart))
    }

    /// What is to be journaled of a clock that is found `ahead`: that it is apart, is so on the other side,
    /// or twice as far, or keeps to half the margin again. So a clock on the brink makes few facts.
    fn news(&self, peer: ActorId, ahead: Span, margin: Span) -> Option<Span> {
        let is_apart = ahead.abs() > margin;
        match self.0.get(&peer).map(|apart| apart.ahead) {
            None => is_apart.then_some(ahead),
            Some(_) if ahead.abs().times(2) <= margin => Some(Span::ZERO),
            Some(known) => {
                let other_side = known.is_positive() != ahead.is_positive();
                let further = ahead.abs() >= known.abs().times(2);
                (is_apart && (other_side || further)).then_some(ahead)
            }
        }
    }

    /// A peer's clock was found `ahead`; by nothing, if it keeps to the margin again.
    pub(crate) fn found(&mut self, at: Time, peer: ActorId, ahead: Span) {
        if ahead == Span::ZERO {
            self.0.remove(&peer);
        } else {
            let since = self.0.get(&peer).map_or(at, |known| known.since);
            self.0.insert(peer, ClockApart { ahead, since });
        }
    }
}

impl Base {
    /// Questions to all other actors that it deals with for their clocks.
    pub(crate) fn pings(&self, now: Time) -> impl Iterator<Item = Envelope> {
        let others = self.peers.keys().filter(|&&peer| peer != self.id());
        others.map(move |&peer| self.volatile(peer, now, Message::Ping))
    }

    /// Signs what one's own clock shows, as the answer to a question.
    pub(crate) fn state_clock<F>(&self, now: Time, ping: &Header, out: &mut Output<F>) {
        let pong = Message::Pong { asked: ping.at };
        out.replies.push(self.volatile(ping.from, now, pong));
    }

    /// What an answer shows of the clock of a peer, if that is news: how far it is ahead at least.
    pub(crate) fn compare_clock(&self, now: Time, pong: &Header, asked: Time) -> Option<Span> {
        // Of an answer to what is yet to be asked, one's own clock is to blame, or a liar.
        if asked > now || !self.peers.contains_key(&pong.from) {
            return None;
        }
        let (ahead, behind) = (pong.at.since(now), asked.since(pong.at));
        let ahead = if mutant!(DelayIsSkew) {
            pong.at.since(now)
        } else if ahead.is_positive() {
            ahead
        } else if behind.is_positive() {
            behind.times(-1)
        } else {
            Span::ZERO
        };
        self.common.clocks.news(pong.from, ahead, self.margin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::{Scheme, Signer};

    const MARGIN: Span = Span::from_secs(10);

    #[test]
    fn a_clock_on_the_brink_makes_few_facts() {
        let peer = Signer::from_seed(Scheme::None, [1; 32]).id();
        let mut apart = ClocksApart::default();
        let mut facts = Vec::new();
        for secs in [0, 10, 11, 9, 12, 6, 15, 22, -12, -23, -24, -5, 8, 11] {
            if let Some(news) = apart.news(peer, Span::from_secs(secs), MARGIN) {
                apart.found(Time::ZERO, peer, news);
                facts.push(news.as_secs_f64());
            }
        }
        assert_eq!(facts, [11.0, 22.0, -12.0, -24.0, 0.0, 11.0]);
    }
}
