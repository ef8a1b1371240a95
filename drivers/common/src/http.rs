//! Sends HTTPS requests, each at most once.
//!
//! The caller decides whether to retry, because it knows the effect of the request (ADR 0005). A request ends with its
//! [`Call`], and after one minute at the latest. Errors distinguish a server that was not reached, where the request
//! had no effect, from one that may have executed the request.

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

/// Sends requests to a cloud: the [`Client`], or a fake in tests.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads its response, within the limits of the call.
    async fn send(&self, call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>;
}
