//! The network of a script, with its rules for losing, delaying and cutting messages.

use std::collections::BTreeSet;

use tenure_core::wire::message::{Sealed, Sequence};

use super::script::Bad;

/// A message on its way.
#[derive(Clone)]
pub struct Packet {
    pub from: String,
    pub to: String,
    pub kind: &'static str,
    pub sequence: Sequence,
    pub sealed: Sealed,
    /// Whether the same bytes were sent before.
    pub again: bool,
}

/// Which messages are meant: `*` is anybody and any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    pub from: String,
    pub to: String,
    pub kind: String,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    Held,
}

/// A network that delivers at once, except where a rule applies.
#[derive(Default)]
pub struct Network {
    rules: Vec<Rule>,
    cuts: BTreeSet<(String, String)>,
    held: Vec<Packet>,
    /// Everything that was ever sent, once.
    sent: Vec<Packet>,
}

struct Rule {
    which: Which,
    fate: Fate,
    /// How many more messages it applies to; without a number, all of them.
    left: Option<u32>,
}

impl Which {
    fn fits(&self, packet: &Packet) -> bool {
        let fits = |wanted: &str, is: &str| wanted == "*" || wanted == is;
        fits(&self.from, &packet.from)
            && fits(&self.to, &packet.to)
            && fits(&self.kind, packet.kind)
    }
}

impl Network {
    pub fn rule(&mut self, which: Which, fate: Fate, left: Option<u32>) {
        self.rules.push(Rule { which, fate, left });
    }

    pub fn cut(&mut self, from: &str, to: &str) {
        self.cuts.insert((from.to_owned(), to.to_owned()));
    }

    /// Everything gets through again; what is held stays held.
    pub fn heal(&mut self) {
        self.rules.clear();
        self.cuts.clear();
    }

    /// Accepts a message and returns its fate.
    pub fn send(&mut self, packet: &mut Packet) -> Fate {
        packet.again = self.sent.iter().any(|sent| sent.sealed == packet.sealed);
        if !packet.again {
            self.sent.push(packet.clone());
        }
        let fate = self.fate(packet);
        if fate == Fate::Held {
            self.held.push(packet.clone());
        }
        fate
    }

    fn fate(&mut self, packet: &Packet) -> Fate {
        if self.cuts.contains(&(packet.from.clone(), packet.to.clone())) {
            return Fate::Lost;
        }
        let mut rules = self.rules.iter_mut();
        let Some(rule) = rules.find(|rule| rule.left != Some(0) && rule.which.fits(packet)) else {
            return Fate::Arrives;
        };
        rule.left = rule.left.map(|left| left - 1);
        rule.fate
    }

    /// Lets go of what was held back, the first first.
    pub fn release(&mut self, which: &Which) -> Vec<Packet> {
        let (out, kept) = std::mem::take(&mut self.held).into_iter().partition(|p| which.fits(p));
        self.held = kept;
        out
    }

    /// A message that was sent before: the newest that fits, or the oldest.
    pub fn old(&self, which: &Which, oldest: bool) -> Result<Packet, Bad> {
        let mut fitting = self.sent.iter().filter(|packet| which.fits(packet));
        let found = if oldest { fitting.next() } else { fitting.next_back() };
        found.cloned().ok_or_else(|| "no such message was ever sent".to_owned())
    }

    /// All that was ever sent.
    pub fn sent(&self) -> &[Packet] {
        &self.sent
    }
}
