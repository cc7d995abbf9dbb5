//! Values that every other room is made of: time, names, properties, encodings, identities.

pub mod calendar;
pub mod codec;
pub mod identity;
pub mod keys;
pub mod name;
pub mod percent;
pub mod price;
pub mod property;
pub mod resource;
pub mod signed;
pub mod slice;
pub mod time;
pub mod verifier;
