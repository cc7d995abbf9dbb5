//! The checkers, graded: whatever is planted, they find.

#[path = "planted/guards.rs"]
mod guards;
#[path = "model/mod.rs"]
#[allow(dead_code, reason = "what the model check itself is has a test of its own")]
mod model;
#[path = "planted/simulator.rs"]
mod simulator;
