//! What can go wrong, by family: a seed may leave whole families off, and shrinking tries to.

use std::fmt;
use std::str::FromStr;

/// Declares the families with the kinds of faults in each.
macro_rules! faults {
    ($($(#[doc = $text:literal])* $family:ident = $name:literal { $($fault:ident = $word:literal,)* })*) => {
        /// A family of faults, on or off as a whole.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Family {
            $($(#[doc = $text])* $family,)*
        }

        impl Family {
            /// Every family.
            pub const ALL: &'static [Self] = &[$(Self::$family,)*];

            /// The family in a word.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$family => $name,)*
                }
            }
        }

        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[doc = concat!("`", $word, "`")] $fault,)*)*
        }

        impl Fault {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$($(Self::$fault,)*)*];

            /// The kind in words.
            pub fn word(self) -> &'static str {
                match self {
                    $($(Self::$fault => $word,)*)*
                }
            }

            /// The family it belongs to.
            pub fn family(self) -> Family {
                match self {
                    $($(Self::$fault => Family::$family,)*)*
                }
            }
        }
    };
}

faults! {
    /// Messages vanish.
    Loss = "loss" {
        Lost = "message lost",
    }
    /// Messages arrive twice.
    Duplication = "duplication" {
        Doubled = "message doubled",
    }
    /// Messages arrive much later than others, some by hours.
    Delay = "delay" {
        Late = "message late",
    }
    /// Messages of the past, up to a term old, arrive once more.
    Replay = "replay" {
        Replayed = "message replayed",
    }
    /// Actors cannot reach each other for a while, in one direction or both.
    Partition = "partition" {
        CutOff = "actor cut off",
        CutBoth = "cut both ways",
        CutOne = "cut one way",
    }
    /// Clocks differ, by no more than the margin.
    Skew = "skew" {
        Skewed = "clock off within the margin",
        Stepped = "clock stepped within the margin",
        Drifts = "clock drifts",
    }
    /// Clocks differ by more than the margin, jump and stand still.
    WildClock = "wild clock" {
        FarOff = "clock off beyond the margin",
        JumpedAhead = "clock jumped ahead",
        JumpedBack = "clock jumped back",
        Frozen = "clock stood still",
    }
    /// Timers go off late.
    LateTimer = "late timer" {
        TimerLate = "timer late",
    }
    /// Actors die and come back.
    Crash = "crash" {
        BeforeAppend = "crash before append",
        AfterAppend = "crash after append",
        AfterSync = "crash after sync",
        AmidSends = "crash amid sends",
        AfterSends = "crash after sends",
        BeforeCall = "crash before driver call",
        AfterCall = "crash after driver call",
        InRecovery = "crash in recovery",
        InLoop = "crash loop",
    }
    /// Actors stand still for a while, some for longer than a term.
    Pause = "pause" {
        Paused = "paused",
        PausedLong = "paused beyond a term",
    }
    /// Journals fail, are slow, lose what was not yet synced.
    Storage = "storage" {
        UnknownKept = "append unknown, kept",
        UnknownLost = "append unknown, lost",
        TailLost = "unsynced facts lost",
        SlowSync = "sync slow",
    }
    /// Two instances of one actor.
    Twin = "twin" {
        Fenced = "second instance fenced",
    }
    /// Drivers fail to act, or report falsely.
    Driver = "driver" {
        Fails = "driver fails",
        Refuses = "driver refuses a join",
        Hangs = "driver hangs",
        Outlasts = "driver outlasts the term",
        AtTheEnd = "driver answers as the term ends",
        SaysFailed = "driver says failed, though done",
        SaysDone = "driver says done, though not",
        Twice = "driver answers twice",
        OldEpoch = "driver answers in an old epoch",
    }
    /// Mappers do not answer in time, or not sensibly.
    Mapper = "mapper" {
        MapperLate = "mapper late",
        MapperDead = "mapper dead",
        Nonsense = "mapper talks nonsense",
        Greedy = "mapper sells the same units to every request",
        OldRound = "mapper answers an old round",
    }
    /// One broker breaks the rules.
    DishonestBroker = "dishonest broker" {
        OverIssue = "broker over-issues",
        FromClosed = "broker cuts from an old delegation",
        Equivocates = "broker equivocates",
        Forges = "broker forges",
        BrokerGarbage = "broker sends garbage",
        Silent = "broker goes silent",
        Conditions = "broker adds conditions",
    }
    /// One guest breaks the rules.
    DishonestGuest = "dishonest guest" {
        RedeemsTwice = "guest redeems twice",
        Stolen = "guest shows a stolen ticket",
        Intercepts = "guest shows a ticket before its holder",
        Poaches = "guest extends what it may not",
        ClosesOthers = "guest closes another's lease",
        Betrays = "guest closes its own lease unheard",
        Falsifies = "guest forges",
        Regroups = "guest closes leases together and apart",
        Alters = "guest sends altered bytes",
        Floods = "guest floods",
        Splits = "guest splits a used ticket",
        FalseReceipt = "guest shows a false receipt",
        OddAsks = "guest asks what makes no sense",
    }
    /// Connections break with what is on them, hold only so much, and come about late where a card is missing.
    Connection = "connection" {
        Broken = "connection broken",
        Full = "queue of a connection full",
        NoCard = "site not found before its card came",
    }
    /// An actor is started again while it still runs, or from an older copy of its journal.
    Takeover = "takeover" {
        TakenOver = "second instance takes over",
        FirstGoesOn = "first instance writes before the second",
        GivesUp = "fenced instance gives up",
        Stale = "instance behind its journal repeats itself",
        RolledBack = "older copy of a journal found out",
        Untold = "older copy of a journal that nobody could tell",
    }
    /// Guests are no peers of sites, which have few places for such, hear what they are let in for, and not much at
    /// once.
    Stranger = "stranger" {
        NotLetIn = "stranger not let in",
        NoPlace = "no place for another stranger",
        MayNotSay = "stranger says what it may not",
        Slowed = "strangers say more than they may at once",
    }
    /// Where guests have services, somebody else works on their software, and reports come twice.
    Foreign = "foreign hand" {
        TakenOut = "unit taken out of a service by somebody else",
        FoundDown = "unit of a service found down",
        ReportedTwice = "report of a service comes twice",
    }
    /// Where guests have services, one of them or a broker is down for longer than a term.
    Absence = "absence" {
        Absent = "down beyond a term",
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Family {
    type Err = String;

    /// The family of that name; the error lists them all.
    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|family| family.word() == word);
        named.ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|family| family.word()).collect();
            format!("no such family of faults; known: {}", known.join(", "))
        })
    }
}
