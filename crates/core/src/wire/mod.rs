//! What travels between actors: messages, refusals, signed envelopes, and the credentials that sign and check them.

pub mod admission;
pub mod advert;
pub mod batch;
pub mod credentials;
pub mod endorsement;
pub mod handover;
pub mod heartbeat;
pub mod hosts;
pub mod inquiry;
pub mod invitation;
pub mod message;
pub mod need;
pub mod offer;
pub mod part;
pub mod portion;
pub mod proviso;
pub mod recall;
pub mod refusal;
pub mod request;
