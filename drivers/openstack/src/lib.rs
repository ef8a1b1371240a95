//! OpenStack as a cloud of Millwright.
//!
//! Classes of provider `OpenStack` are served as the reference's driver serves them: the same wrapped `providerSpec`, the same Secret, the
//! same provider ids. What is sent and what an answer means is decided in pure functions ([`keystone`], [`bodies`], [`answer`],
//! [`codes`]); what asks is thin ([`session`], [`create`], [`delete`], [`provider`]).
//!
//! Requests are plain JSON over HTTPS (ADR 0073): some twenty of them do not need an SDK.

mod answer;
mod bodies;
mod catalogue;
mod codes;
mod create;
mod delete;
mod find;
mod identity;
mod ids;
mod initialization;
mod keystone;
mod ports;
mod provider;
mod request;
mod secret;
mod session;
mod spec;
mod volumes;
mod wire;

pub use provider::OpenStackDriver;
pub use session::Transports;
pub use spec::PROVIDER;
