//! Why there is no connection to a driver.

use std::error::Error;
use std::io;
use std::time::Duration;

use driver::text::printable;

use crate::tls::TlsError;

/// A step on the way to a driver that failed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nobody listens, or we may not speak to who does.
    #[error("failed to connect to {place}")]
    Connect {
        /// The endpoint.
        place: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Our own certificate, its key or the authority cannot be used.
    #[error("failed to set up TLS for {place}")]
    Files {
        /// The endpoint.
        place: String,
        /// Which file, and why.
        #[source]
        source: TlsError,
    },
    /// The endpoint's host is no name that a certificate could be issued for.
    #[error("failed to make sense of the host name in {place}")]
    Name {
        /// The endpoint.
        place: String,
    },
    /// TLS could not be agreed on.
    #[error("failed to agree on TLS with {place}")]
    Tls {
        /// The endpoint.
        place: String,
        /// What TLS said.
        #[source]
        source: io::Error,
    },
    /// The other side does not speak HTTP/2, or broke off.
    #[error("failed to begin to speak with {place}")]
    Handshake {
        /// The endpoint.
        place: String,
        /// What the connection said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The other side speaks gRPC, but does not serve this version of the protocol.
    #[error("failed to find the protocol millwright.driver.v1 at {place}")]
    Protocol {
        /// The endpoint.
        place: String,
    },
    /// The driver did not say who it is.
    #[error("failed to learn who listens at {place}")]
    Describe {
        /// The endpoint.
        place: String,
        /// What came instead.
        #[source]
        source: Box<tonic::Status>,
    },
    /// The driver closes each connection soon after it was opened. The next attempt waits.
    #[error("failed to keep a connection to {place}")]
    Unstable {
        /// The endpoint.
        place: String,
    },
    /// The other side accepts connections and says nothing.
    #[error("failed to reach {place} within {}s", after.as_secs())]
    Timeout {
        /// The endpoint.
        place: String,
        /// How long it had.
        after: Duration,
    },
}

impl LinkError {
    /// One sentence for people, with what to look at.
    pub fn sentence(&self) -> String {
        match self {
            Self::Connect { place, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => format!(
                    "we may not speak to the driver at {place} ({source}): the socket belongs to another user; run as the same one"
                ),
                _ => format!("no driver listens at {place} ({source}): start it, or check the endpoint"),
            },
            Self::Files { source, .. } => match source.source() {
                Some(why) => format!("{source}: {why}"),
                None => source.to_string(),
            },
            Self::Name { place } => format!("{place} names no host: check the endpoint"),
            Self::Tls { place, source } => tls_sentence(place, source),
            Self::Handshake { place, source } => match refusal(source.as_ref()) {
                Some(alert) => refused_us(place, &alert),
                None => format!("what listens at {place} does not speak gRPC, or broke off: check the endpoint"),
            },
            Self::Protocol { place } => format!(
                "what listens at {place} does not serve the driver protocol millwright.driver.v1: it is another service, or a driver of another version"
            ),
            Self::Describe { place, source } => match refusal(source.as_ref()) {
                Some(alert) => refused_us(place, &alert),
                None if source.source().is_some() => format!(
                    "the driver at {place} hung up before it said who it is: look at its log; with TLS it may have refused our certificate"
                ),
                None => format!(
                    "the driver at {place} did not say who it is ({:?} {}): look at its log",
                    source.code(),
                    printable(source.message())
                ),
            },
            Self::Unstable { place } => {
                format!("the driver at {place} closes its connections soon after they are opened: look at its log")
            }
            Self::Timeout { place, after } => format!(
                "{place} accepts connections but did not say who it is within {}s: look at the driver's log",
                after.as_secs()
            ),
        }
    }
}

fn refused_us(place: &str, alert: &str) -> String {
    format!(
        "the driver at {place} refused our certificate ({alert}): it must be issued by the authority the driver trusts"
    )
}

/// Whether TLS was refused by the other side, somewhere down the causes. With TLS 1.3 a client learns only after its own handshake
/// that its certificate was not accepted, and by then HTTP/2 keeps no more of an error than its kind and its text. The kind is the
/// one in which TLS, and nothing else on these connections, speaks.
fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>().filter(|io| io.kind() == io::ErrorKind::InvalidData) {
            return Some(io.to_string());
        }
        next = error.source();
    }
    None
}

fn tls_sentence(place: &str, source: &io::Error) -> String {
    use rustls::CertificateError as Wrong;
    match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
                format!("the certificate of the driver at {place} is for another name: use a name it was issued for")
            }
            Wrong::UnknownIssuer | Wrong::BadSignature => format!(
                "the certificate of the driver at {place} was not issued by the authority we trust: check the authority's file"
            ),
            Wrong::Expired | Wrong::ExpiredContext { .. } => {
                format!("the certificate of the driver at {place} has expired: renew it")
            }
            other => format!("the certificate of the driver at {place} is not acceptable: {other}"),
        },
        Some(rustls::Error::AlertReceived(alert)) => refused_us(place, &format!("{alert:?}")),
        Some(rustls::Error::InvalidMessage(_)) => format!("what listens at {place} does not speak TLS: check the port"),
        Some(other) => format!("TLS with the driver at {place} failed: {other}"),
        None => format!("the driver at {place} broke off the TLS handshake ({source}): look at its log"),
    }
}
