//! The model check: stateright explores small deployments of the production actors.

pub(crate) mod fact_index;
pub(crate) mod cases;
pub(crate) mod commands;
pub(crate) mod participants;
pub(crate) mod ends;
pub(crate) mod explore;
pub(crate) mod identity;
pub(crate) mod joint;
pub(crate) mod node;
pub(crate) mod summary;
pub(crate) mod world;
