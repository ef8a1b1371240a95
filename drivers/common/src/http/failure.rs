//! Why there was no answer, and what the cloud may have done.

use std::error::Error;
use std::io;
use std::time::Duration;

use driver::{Code, DriverError};

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody listens there, the name is not known, or the way is blocked.
    #[error("failed to connect to {host}: {reason}")]
    Connect {
        /// Whom we tried to reach.
        host: String,
        /// What was in the way.
        reason: String,
    },
    /// The server could not prove who it is, or speaks no TLS.
    #[error("failed to agree on TLS with {host}: {reason}")]
    Tls {
        /// Whom we tried to reach.
        host: String,
        /// What was wrong.
        reason: String,
    },
    /// The connection broke after the request was sent.
    #[error("the connection to {host} broke before the answer was read: {reason}; what the cloud did is unknown")]
    Broken {
        /// Whom we asked.
        host: String,
        /// How.
        reason: String,
    },
    /// No answer in the time that one request has.
    #[error("{host} did not answer within {} s; what the cloud did is unknown", after.as_secs())]
    Silent {
        /// Whom we asked.
        host: String,
        /// How long we waited.
        after: Duration,
    },
    /// The answer is larger than any that makes sense.
    #[error("the answer of {host} is larger than {limit} bytes; what the cloud did is unknown")]
    TooLarge {
        /// Whom we asked.
        host: String,
        /// How much is read.
        limit: usize,
    },
    /// The call that the request belonged to has ended.
    #[error(transparent)]
    Ended(DriverError),
}

/// Whether the cloud may have carried out a request that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It cannot: the request never left.
    None,
    /// Nobody knows.
    Possible,
}

impl HttpError {
    /// Whether the cloud may have carried it out.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Connect { .. } | Self::Tls { .. } => Effect::None,
            Self::Broken { .. } | Self::Silent { .. } | Self::TooLarge { .. } | Self::Ended(_) => Effect::Possible,
        }
    }

    /// Whether a read may be sent again at once. A server that was silent for a whole minute is not tried again within the call.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Broken { .. })
    }

    /// What a failure to connect was.
    pub(super) fn of_connect(host: String, error: &(dyn Error + 'static)) -> Self {
        let causes = || std::iter::successors(Some(error), |error| (*error).source());
        let in_tls = causes().any(of_tls);
        let reason = causes().last().map(ToString::to_string).unwrap_or_default();
        if in_tls { Self::Tls { host, reason } } else { Self::Connect { host, reason } }
    }
}

/// rustls reports through an `io::Error`, which may be in another one and does not show what it holds as its source.
fn of_tls(error: &(dyn Error + 'static)) -> bool {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| of_tls(inner))
}

impl From<HttpError> for DriverError {
    fn from(error: HttpError) -> Self {
        let advice = match &error {
            HttpError::Connect { .. } => "; check the endpoint, name resolution and egress rules",
            HttpError::Tls { .. } => "; check the endpoint and the certificate authorities that are trusted",
            _ => "",
        };
        match error {
            HttpError::Ended(end) => end,
            other => DriverError::new(Code::Unavailable, format!("{other}{advice}")).because(other),
        }
    }
}
