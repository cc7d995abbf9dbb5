//! The auditor of a script: shown everything that happens, it holds the actors to the laws of leasing.

use tenure_core::actor::Actor as _;
use tenure_core::model::identity::Scheme;
use tenure_core::model::time::{Span, Time};
use tenure_laws::{Auditor, Bounds, Observation, Participant as Member, Participants};

use super::participant::Participant;
use super::script::Bad;

pub struct Audit {
    auditor: Auditor,
    /// The first law that was broken, in words.
    broken: Option<String>,
}

impl Audit {
    pub fn new(participants: &[Participant], margin: Span, clocks_hold: bool) -> Self {
        let member = |participant: &Participant| {
            let (name, role, honest) =
                (participant.name.clone(), participant.role, participant.honest);
            (participant.id, Member { name, role, honest })
        };
        let members = participants.iter().map(member).collect();
        let participants = Participants { members, scheme: Scheme::Ed25519, margin, clocks_hold };
        Self { auditor: Auditor::new(participants), broken: None }
    }

    pub fn see(&mut self, now: Time, seen: &Observation<'_>) {
        if let (None, Err(violation)) = (&self.broken, self.auditor.observe(now, seen)) {
            self.broken = Some(violation.to_string());
        }
    }

    /// Everything works again: what is under way must come to its end.
    pub fn healed(&mut self, now: Time, bounds: Bounds) {
        self.auditor.healed(now, bounds);
    }

    /// The end of the script is reached.
    pub fn settle(&mut self, now: Time) {
        if let (None, Err(violation)) = (&self.broken, self.auditor.settle(now)) {
            self.broken = Some(violation.to_string());
        }
    }

    /// The laws that were asked at least once.
    pub fn asked(&self) -> impl Iterator<Item = &'static str> {
        self.auditor.checked().filter(|(_, count)| *count > 0).map(|(law, _)| law.id)
    }

    /// Whether all laws were kept so far.
    pub fn verdict(&self) -> Result<(), Bad> {
        match &self.broken {
            Some(broken) => Err(format!("a law is broken: {broken}")),
            None => Ok(()),
        }
    }
}

#[test]
fn a_broken_law_stops_a_script() {
    let world = super::deployment::deploy(super::script::Args::of_line("at=09:00"));
    let mut world = world.unwrap_or_else(|bad| panic!("{bad}"));
    assert_eq!(world.run(), Ok(()));
    let (actor, position) = (world.id(0), world.participants[0].actor().position());
    let seen = Observation::Recovered { actor, position, same: Some(false) };
    world.audit.see(world.now, &seen);
    let bad = world.run().unwrap_err();
    assert!(bad.starts_with("a law is broken: S11 (replay determinism)"), "{bad}");
}
