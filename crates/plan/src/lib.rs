//! Plans: which part goes on which place, and which path each link between parts takes.
//!
//! A [`Problem`] says what places have and what parts need; [`solve`] answers with a plan, with what is
//! proven of it, or with why there is none; [`check`] checks a plan against its problem without trusting
//! what made it.
//!
//! ```
//! use tenure_plan::{Problem, Settings, Status, check, solve};
//!
//! let problem: Problem = toml::from_str(r#"
//!     name = "web"
//!     objective = ["nodes"]
//!     [[place]]
//!     name = "node"
//!     count = 3
//!     capacity = { memory = "16GiB" }
//!     [[part]]
//!     name = "server"
//!     count = 4
//!     needs = { memory = "6GiB" }
//! "#)?;
//! let answer = solve(&problem, &Settings::default())?;
//! assert_eq!(answer.status, Status::Optimal);
//! assert_eq!(answer.plan.placement["server"], ["node/1", "node/1", "node/2", "node/2"]);
//! assert_eq!(check(&problem, &answer.plan)?.to_string(), "nodes 2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate knows nothing of leases. It reads no file, clock or random number: a problem, a solver and a
//! number of steps give the same answer everywhere.

mod amount;
mod answer;
mod bits;
mod check;
mod domains;
mod draw;
mod error;
mod exact;
mod first_fit;
mod model;
mod names;
mod pack;
mod package;
mod plain;
mod problem;
mod render;
mod score;
mod search;
mod solve;
mod state;
mod why;

pub mod export;

pub use amount::{Amount, Price};
pub use answer::{Alternative, Answer, Objective, Offer, Plan, Status, Why};
pub use check::{CheckError, Violation, check};
pub use domains::{Coordinated, Shown, coordinate, show};
pub use error::BadProblem;
pub use package::{Package, Software};
pub use problem::{Edge, Library, Link, Part, Place, Problem, Properties, UnitPrice, Uses};
pub use score::Term;
pub use solve::{Settings, Solver, solve, solve_until};
