//! Takeover: a second instance of an actor starts on its journal while the first still runs, or is thought dead, and
//! one from an older copy of the journal starts beside it.
//!
//! Of two instances on one journal the first to write goes on. The other finds out when it next has something to let
//! out, and gives up; until then it may repeat what it has said. One from an older copy asks its peers before it does anything, as each
//! instance does at its start, and gives up if one of them shows it a later message of its own.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::Problem;
use tenure_core::actor::watermark::Watermarks;
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::journal::Journal as _;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::wire::message::{Sealed, Sequence};

use super::fault::{Family, Fault};
use super::violation::Violation;
use super::world::{Event, World};

/// How often watermarks of peers are stored.
const KEPT_EVERY: Span = Span::SECOND;

/// What participants know of the journals of others.
#[derive(Default)]
pub(super) struct Heard {
    /// Of each participant, who told it of how many facts, in numbers.
    known: BTreeMap<usize, Known>,
}

#[derive(Default)]
struct Known {
    /// By the instances, each of which knows what it was told itself.
    lens: BTreeMap<u32, BTreeMap<ActorId, u64>>,
    stored: BTreeMap<ActorId, u64>,
    watermarks: Watermarks,
    stored_at: Option<Time>,
}

impl Known {
    /// An instance stores all its watermarks, if it is long enough ago.
    fn store(&mut self, now: Time, (life, actor): (u32, &AnyActor)) {
        if self.stored_at.is_some_and(|at| now.since(at) < KEPT_EVERY) {
            return;
        }
        for (peer, word) in actor.watermarks().iter() {
            self.watermarks.record(peer, word.clone());
        }
        for (&peer, &len) in self.lens.get(&life).into_iter().flatten() {
            let stored = self.stored.entry(peer).or_default();
            *stored = len.max(*stored);
        }
        self.stored_at = Some(now);
    }

    /// Of how many facts of another participant an instance knows.
    fn len_of(&self, life: u32, id: ActorId) -> Option<u64> {
        let own = self.lens.get(&life).and_then(|lens| lens.get(&id));
        own.into_iter().chain(self.stored.get(&id)).copied().max()
    }
}

/// Who sent a message, as it says, and how many facts it held at least.
pub(super) fn sender(input: &Input) -> Option<(ActorId, u64)> {
    let Input::Message(sealed) = input else { return None };
    let header = sealed.peek().ok()?.header;
    let because = u64::from(header.sequence.index != Sequence::VOLATILE);
    Some((header.from, header.sequence.position.saturating_add(because)))
}

impl World {
    /// An input arrives: if there are two instances, at one of them, or at both.
    pub(super) fn reach(&mut self, who: usize, input: Input) -> Result<(), Violation> {
        if self.participants[who].rival.is_none() {
            return self.hand_in(who, input);
        }
        match self.sampler(Family::Takeover).below(5) {
            0 | 1 => self.as_rival(who, |world| world.hand_in(who, input)),
            2 => {
                let again = input.clone();
                self.as_rival(who, |world| world.hand_in(who, again))?;
                self.hand_in(who, input)
            }
            _ => self.hand_in(who, input),
        }
    }

    /// Does something with the other instance in the place of the one that has written last. If it writes, it stays
    /// there.
    pub(super) fn as_rival(
        &mut self,
        who: usize,
        act: impl FnOnce(&mut Self) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let before = self.participants[who].journal.len();
        self.participants[who].swap();
        act(self)?;
        let participant = &mut self.participants[who];
        if participant.rival.is_some() {
            let wrote = participant.journal.len() > before && participant.run.host.is_some();
            if wrote {
                self.watch.fault(Fault::FirstGoesOn);
            } else {
                participant.swap();
            }
        }
        participant.rival.take_if(|rival| rival.host.is_none());
        Ok(())
    }

    /// The other instance does what is due, and sends again what was not answered.
    pub(super) fn rival_looks(&mut self, who: usize) -> Result<(), Violation> {
        if self.participants[who].rival.is_none() {
            return Ok(());
        }
        self.as_rival(who, |world| {
            world.hand_in(who, Input::Tick)?;
            if world.participants[who].listens() { world.resend(who) } else { Ok(()) }
        })?;
        self.look_again(who);
        Ok(())
    }

    fn look_again(&mut self, who: usize) {
        let term = self.setting.term;
        let after = self.sampler(Family::Takeover).scaled(Span::SECOND, term);
        self.later(self.now.plus(after), Event::Rival { who });
    }

    /// A second instance starts on the journal of one that runs, which may have been paused.
    pub(super) fn take_over(&mut self) -> Result<(), Violation> {
        let who = self.somebody(Family::Takeover);
        let participant = &self.participants[who];
        if participant.run.host.is_none() || participant.rival.is_some() || participant.doubled {
            return Ok(());
        }
        if self.sampler(Family::Takeover).percent(50) {
            let takes = self.spell(Family::Takeover);
            self.hold(who, takes)?;
        }
        self.watch.fault(Fault::TakenOver);
        self.participants[who].make_room();
        self.look_again(who);
        self.bring_up(who)
    }

    /// An instance starts from a copy of a journal that lacks the last facts.
    pub(super) fn roll_back(&mut self) -> Result<(), Violation> {
        let who = self.somebody(Family::Takeover);
        let len = self.participants[who].journal.len();
        let lacks = self.sampler(Family::Takeover).count(1, 60).into();
        let holds = len.saturating_sub(lacks);
        let copy = self.participants[who].read_up_to(holds);
        let mut copy =
            copy.map_err(|cause| self.stuck(format!("a copy does not fold: {cause}")))?;
        let told = self.greet(who, &mut copy);
        let found_out = told.is_some_and(|told| told > holds);
        self.watch.fault(if found_out { Fault::RolledBack } else { Fault::Untold });
        let known = self.told_in_numbers(who);
        if self.participants[who].honest && found_out != (known > holds) {
            let name = &self.participants[who].name;
            return Err(self.stuck(format!(
                "a copy of the journal of {name} with {holds} of {len} facts is told of {told:?}, where its \
                 peers have heard of {known}"
            )));
        }
        Ok(())
    }

    /// One that has come back with its whole journal is not told of more.
    pub(super) fn is_not_stopped(&mut self, who: usize) -> Result<(), Violation> {
        if !self.setting.has(Family::Takeover) || !self.participants[who].honest {
            return Ok(());
        }
        let mut actor = self.participants[who].folded();
        let told = self.greet(who, &mut actor);
        if told.is_some_and(|told| told > self.participants[who].journal.len()) {
            let name = &self.participants[who].name;
            return Err(
                self.stuck(format!("{name} has its whole journal, and is stopped by its peers"))
            );
        }
        Ok(())
    }

    /// Who is up and in reach of one.
    fn in_reach(&self, who: usize) -> impl Iterator<Item = usize> {
        (0..self.participants.len()).filter(move |&peer| {
            let up = self.participants[peer].run.host.is_some();
            peer != who && up && self.wire.joins(who, peer, self.now)
        })
    }

    /// The most facts that a message proves which its peers have of an actor's own.
    fn greet(&self, who: usize, actor: &mut AnyActor) -> Option<u64> {
        let id = self.participants[who].id;
        let peers = self
            .in_reach(who)
            .filter(|&peer| actor.peers().contains_key(&self.participants[peer].id));
        let words = peers.filter_map(|peer| self.word_of(peer, id)).collect::<Vec<Sealed>>();
        words.iter().filter_map(|word| actor.witnessed_len(word)).max()
    }

    /// The message that a participant keeps of another one.
    fn word_of(&self, peer: usize, id: ActorId) -> Option<Sealed> {
        let now = self.participants[peer].actor().and_then(|actor| actor.watermarks().of(id));
        let stored = self.heard.known.get(&peer).and_then(|known| known.watermarks.of(id));
        let longest = now.into_iter().chain(stored).max_by_key(|word| word.len)?;
        Some(longest.sealed.clone())
    }

    /// The most facts of one that those in reach of it have heard of, as it was noted in numbers.
    fn told_in_numbers(&self, who: usize) -> u64 {
        let id = self.participants[who].id;
        let peers = self.in_reach(who);
        let known = peers.filter_map(|peer| {
            let life = self.participants[peer].run.life;
            self.heard.known.get(&peer)?.len_of(life, id)
        });
        known.max().unwrap_or(0)
    }

    /// A participant was given a message, and opened it if nothing is said of that.
    pub(super) fn hear(&mut self, who: usize, (from, len): (ActorId, u64), problems: &[Problem]) {
        if !self.setting.has(Family::Takeover) {
            return;
        }
        let opened = !problems.iter().any(|problem| matches!(problem, Problem::Unopened(_)));
        let participant = &self.participants[who];
        let life = participant.run.life;
        let Some(actor) = participant.actor() else { return };
        let known = self.heard.known.entry(who).or_default();
        if opened && actor.peers().contains_key(&from) {
            let most = known.lens.entry(life).or_default().entry(from).or_default();
            *most = len.max(*most);
        }
        known.store(self.now, (life, actor));
    }
}
