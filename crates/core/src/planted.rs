//! Bugs planted on purpose, to grade the checkers: a checker that finds none of them proves nothing.
//!
//! Compiled in only with the feature `planted`, which no crate of the workspace turns on by default; in
//! every other build `planted!` is `false` and the compiler drops what it guards.

#[cfg(feature = "planted")]
use std::cell::Cell;

/// Whether this build can be made to misbehave. A shipped command refuses to compile if so.
pub const COMPILED_IN: bool = cfg!(feature = "planted");

/// Declares the bugs, each with the sentence that says what is then wrong.
macro_rules! bugs {
    ($($(#[doc = $text:literal])* $bug:ident,)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $text])* $bug,)*
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => stringify!($bug),)*
                }
            }

            /// What is wrong when it is planted.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$bug => concat!($($text),*).trim_ascii(),)*
                }
            }
        }
    };
}

bugs! {
    /// The holder believes in its lease until the end itself, without the clock margin.
    NoClockMargin,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in every actor that this thread drives, or weeds it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted on this thread.
#[cfg(feature = "planted")]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether a bug is planted; `false`, known when compiling, without the feature.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_planted($crate::planted::Bug::$bug)
    };
}

/// Whether a bug is planted; `false`, known when compiling, without the feature.
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($bug:ident) => {{
        const _: $crate::planted::Bug = $crate::planted::Bug::$bug;
        false
    }};
}
pub(crate) use planted;
