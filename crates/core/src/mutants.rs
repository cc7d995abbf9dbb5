//! A switch for bugs planted on purpose, to grade the checkers; `tests/src/mutants.rs` lists them.
//!
//! Compiled in only with the feature `mutants`, which no crate of the workspace turns on by default; in
//! every other build `mutant!` is `false` and the compiler drops what it guards.

/// Whether this build can be made to misbehave. A shipped command refuses to compile if so.
pub const COMPILED_IN: bool = cfg!(feature = "mutants");

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug by its name in every actor that this thread drives, or weeds it out.
#[cfg(feature = "mutants")]
pub fn activate(name: Option<&'static str>) {
    ACTIVE.set(name);
}

/// Whether a bug is planted on this thread.
#[cfg(feature = "mutants")]
pub(crate) fn is_active(name: &str) -> bool {
    ACTIVE.get() == Some(name)
}

/// Whether a bug is planted.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_active(stringify!($name))
    };
}

/// Whether a bug is planted: never.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}
pub(crate) use mutant;
