//! Drivers in separate processes.
//!
//! Two components use `proto/millwright/driver/v1/driver.proto`: [`RemoteDriver`] is a [`driver::Driver`] that forwards
//! its calls, and [`serve`](fn@serve) exposes any [`driver::Driver`]. Drivers in other languages use the same protocol
//! and pass the same conformance suite over the wire.
//!
//! A connection can be lost after the request was sent and before the response was read. The call is then `Unavailable`
//! and its effect is unknown. This crate does not retry; the controller first requests the status.
//!
//! The crate does not use tonic's transport: the operator needs an error that names the failed step, the driver must
//! describe itself on every new connection, and the protocol must run over any byte stream under a paused clock.

pub mod messages;

mod client;
mod connection;
mod dial;
mod endpoint;
mod link_error;
mod listener;
mod serve;
mod service;
mod tls;

pub use client::RemoteDriver;
pub use connection::Caller;
pub use dial::{Dial, Io};
pub use endpoint::{Endpoint, EndpointError};
pub use link_error::LinkError;
pub use listener::{ListenError, Listener};
pub use serve::{About, PROBE, attend, serve};
pub use tls::{TlsError, TlsFiles};
