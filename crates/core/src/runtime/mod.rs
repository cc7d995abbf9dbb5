//! What a shell hosts: an actor of any role with its mapper, its journal and its outbox.

pub mod hosted;
pub mod journal;
pub mod outbox;
