//! Driver for OpenStack.
//!
//! It handles MachineClasses with provider `OpenStack` as the reference's driver does: the same wrapped `providerSpec`,
//! the same Secret and the same provider ids. Pure functions build the requests and interpret the responses
//! ([`keystone`], [`bodies`], [`answer`], [`codes`]). [`session`], [`create`], [`delete`] and [`provider`] send the
//! requests.
//!
//! Requests are plain JSON over HTTPS (ADR 0073): some twenty requests do not need an SDK.

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
