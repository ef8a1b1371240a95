//! Requests over HTTPS, sent once.
//!
//! A request is sent at most once: whether to ask again is decided by whoever knows what it does (ADR 0005). It ends with the
//! [`Call`] it belongs to, and by itself after a minute, because a cloud that has not answered one request by then will not. What
//! matters about a failure is told apart: a server that was never reached has done nothing; one that was may have done everything.

mod client;
mod failure;
mod tls;

use async_trait::async_trait;
use bytes::Bytes;
use driver::Call;
use http::{Request, Response};

pub use client::Client;
pub use failure::{Effect, HttpError};
pub use tls::{Servers, Tls, TlsError};

/// Whatever carries requests to a cloud: the [`Client`], or a test that answers from memory.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads its answer, within the limits of the call.
    async fn send(&self, call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>;
}
