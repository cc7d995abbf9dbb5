//! The checkers, graded: whatever is planted, they find.

#[path = "mutants/guards.rs"]
mod guards;
#[path = "model/mod.rs"]
#[allow(dead_code, reason = "what the model check itself is has a test of its own")]
mod model;
#[path = "mutants/simulator.rs"]
mod simulator;
