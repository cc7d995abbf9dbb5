//! The live shell: the actors of the core on actix mailboxes and SQLite journals.

#[path = "live/equivalence.rs"]
mod equivalence;

#[path = "live/mappers.rs"]
mod mappers;
