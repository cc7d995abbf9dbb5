//! What a shell hosts: an actor of any role with its mapper, its journal and its outbox.

pub mod actor;
pub mod fact;
pub mod mapper;
pub mod hosted;
pub mod host;
pub mod journal;
pub mod outbox;

pub use self::actor::{AnyActor, Command, Decision, Input, Output};
pub use self::fact::{Entry, Fact};
pub use self::mapper::{AnyMapper, AnyView};
