//! Services: software of a guest that runs on units, what is measured of it, and what it is worth to it.
//!
//! A service is a slice of a service manager. *KPIs* are measured of it, *SLOs* are rules over them, and each
//! SLO says how many units the service wants and how urgently. From that follow the *steps* of its demand:
//! what its units are worth to it one after the other, and what more it claims. A service manager tells them
//! to its brokers, which compare services by them. An *SLA* says for which share of time SLOs are to be met.

pub mod adapter;
pub mod definition;
pub mod kpi;
pub mod label_map;
pub mod member;
pub mod sla;
pub mod slo;
pub mod state;
pub mod steps;
pub mod unit_state;
