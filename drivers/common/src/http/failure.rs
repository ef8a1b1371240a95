//! Errors of requests without a response, and whether the request may have taken effect.

use std::error::Error;
use std::io;
use std::time::Duration;

use driver::{Code, DriverError};

/// A request without a response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection was refused, the name is unknown, or the network blocks it.
    #[error("failed to connect to {host}: {reason}")]
    Connect {
        /// The server.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The server's certificate is not trusted, or it does not speak TLS.
    #[error("failed to establish a TLS connection to {host}: {reason}")]
    Tls {
        /// The server.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The connection was lost after the request was sent.
    #[error(
        "lost the connection to {host} before the response was read: {reason}; whether the request took effect is unknown"
    )]
    Broken {
        /// The server.
        host: String,
        /// The cause.
        reason: String,
    },
    /// No response within the request timeout.
    #[error("{host} did not respond within {} s; whether the request took effect is unknown", after.as_secs())]
    TimedOut {
        /// The server.
        host: String,
        /// The timeout.
        after: Duration,
    },
    /// The response exceeds the maximum size.
    #[error("the response of {host} exceeds {limit} bytes; whether the request took effect is unknown")]
    TooLarge {
        /// The server.
        host: String,
        /// The maximum size in bytes.
        limit: usize,
    },
    /// The call of the request was canceled or reached its deadline.
    #[error(transparent)]
    Ended(DriverError),
}

/// Whether a request without a response may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request was not sent.
    None,
    /// The request may have been executed.
    Possible,
}

impl HttpError {
    /// Returns whether the request may have taken effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Connect { .. } | Self::Tls { .. } => Effect::None,
            Self::Broken { .. } | Self::TimedOut { .. } | Self::TooLarge { .. } | Self::Ended(_) => Effect::Possible,
        }
    }

    /// Returns whether a read may be retried immediately. After a request timeout the call is not retried.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Broken { .. })
    }

    /// Classifies a connect error.
    pub(super) fn of_connect(host: String, error: &(dyn Error + 'static)) -> Self {
        let causes = || std::iter::successors(Some(error), |error| (*error).source());
        let in_tls = causes().any(of_tls);
        let reason = causes().last().map(ToString::to_string).unwrap_or_default();
        if in_tls { Self::Tls { host, reason } } else { Self::Connect { host, reason } }
    }
}

/// rustls reports an `io::Error`, possibly nested, which does not expose its content as source.
fn of_tls(error: &(dyn Error + 'static)) -> bool {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| of_tls(inner))
}

impl From<HttpError> for DriverError {
    fn from(error: HttpError) -> Self {
        let advice = match &error {
            HttpError::Connect { .. } => "; check the endpoint, name resolution and egress rules",
            HttpError::Tls { .. } => "; check the endpoint and the CA certificates",
            _ => "",
        };
        match error {
            HttpError::Ended(end) => end,
            other => DriverError::new(Code::Unavailable, format!("{other}{advice}")).because(other),
        }
    }
}
