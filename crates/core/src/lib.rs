//! The leasing protocol of Tenure.

pub mod calendar;
pub mod codec;
pub mod identity;
pub mod name;
pub mod notary;
pub mod property;
pub mod resource;
pub mod slice;
pub mod ticket;
pub mod time;
