//! Errors of connecting to a driver.

use std::error::Error;
use std::io;
use std::time::Duration;

use driver::text::printable;

use crate::tls::TlsError;

/// A failed step of connecting to a driver.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection was refused, or the permission is missing.
    #[error("failed to connect to {place}")]
    Connect {
        /// The endpoint.
        place: String,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The client certificate, its key or the CA certificate cannot be used.
    #[error("failed to set up TLS for {place}")]
    Files {
        /// The endpoint.
        place: String,
        /// The file and the cause.
        #[source]
        source: TlsError,
    },
    /// The host name of the endpoint is not a valid certificate name.
    #[error("failed to parse the host name in {place}")]
    Name {
        /// The endpoint.
        place: String,
    },
    /// The TLS handshake failed.
    #[error("failed to establish a TLS connection to {place}")]
    Tls {
        /// The endpoint.
        place: String,
        /// The TLS error.
        #[source]
        source: io::Error,
    },
    /// The server does not speak HTTP/2 or closed the connection.
    #[error("failed to start HTTP/2 with {place}")]
    Handshake {
        /// The endpoint.
        place: String,
        /// The connection error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server speaks gRPC, but not this version of the protocol.
    #[error("failed to find the protocol millwright.driver.v1 at {place}")]
    Protocol {
        /// The endpoint.
        place: String,
    },
    /// The driver did not describe itself.
    #[error("failed to describe the driver at {place}")]
    Describe {
        /// The endpoint.
        place: String,
        /// The gRPC status.
        #[source]
        source: Box<tonic::Status>,
    },
    /// The driver closes each connection soon after it was opened. The next attempt waits.
    #[error("failed to keep a connection to {place}")]
    Unstable {
        /// The endpoint.
        place: String,
    },
    /// The server accepts connections and does not respond.
    #[error("failed to reach {place} within {}s", after.as_secs())]
    Timeout {
        /// The endpoint.
        place: String,
        /// The timeout.
        after: Duration,
    },
}

impl LinkError {
    /// Returns one sentence for operators with the next step.
    pub fn sentence(&self) -> String {
        match self {
            Self::Connect { place, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => format!(
                    "permission denied for the driver socket {place} ({source}): run as the user that owns the socket"
                ),
                _ => format!("no driver listens at {place} ({source}): start it, or check the endpoint"),
            },
            Self::Files { source, .. } => match source.source() {
                Some(why) => format!("{source}: {why}"),
                None => source.to_string(),
            },
            Self::Name { place } => format!("{place} has no valid host name: check the endpoint"),
            Self::Tls { place, source } => tls_sentence(place, source),
            Self::Handshake { place, source } => match refusal(source.as_ref()) {
                Some(alert) => client_certificate_rejected(place, &alert),
                None => {
                    format!("the server at {place} does not speak gRPC or closed the connection: check the endpoint")
                }
            },
            Self::Protocol { place } => format!(
                "the server at {place} does not serve the driver protocol millwright.driver.v1: it is another service or a driver of another version"
            ),
            Self::Describe { place, source } => match refusal(source.as_ref()) {
                Some(alert) => client_certificate_rejected(place, &alert),
                None if source.source().is_some() => format!(
                    "the driver at {place} closed the connection before it described itself: check its log; with TLS it may have rejected the client certificate"
                ),
                None => format!(
                    "the driver at {place} did not describe itself ({:?} {}): check its log",
                    source.code(),
                    printable(source.message())
                ),
            },
            Self::Unstable { place } => {
                format!("the driver at {place} closes its connections soon after they are opened: check its log")
            }
            Self::Timeout { place, after } => format!(
                "the driver at {place} accepts connections but did not describe itself within {}s: check its log",
                after.as_secs()
            ),
        }
    }
}

fn client_certificate_rejected(place: &str, alert: &str) -> String {
    format!(
        "the driver at {place} rejected the client certificate ({alert}): it must be issued by a CA that the driver trusts"
    )
}

/// Returns the TLS alert if the server rejected the handshake. With TLS 1.3 a client learns only after its own
/// handshake that its certificate was rejected, and HTTP/2 then keeps only the kind and the text of the error. On these
/// connections only TLS uses this kind.
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
                format!(
                    "the certificate of the driver at {place} is for another name: use a name for which it was issued"
                )
            }
            Wrong::UnknownIssuer | Wrong::BadSignature => {
                format!("the certificate of the driver at {place} was not issued by the trusted CA: check the CA file")
            }
            Wrong::Expired | Wrong::ExpiredContext { .. } => {
                format!("the certificate of the driver at {place} has expired: renew it")
            }
            other => format!("the certificate of the driver at {place} is invalid: {other}"),
        },
        Some(rustls::Error::AlertReceived(alert)) => client_certificate_rejected(place, &format!("{alert:?}")),
        Some(rustls::Error::InvalidMessage(_)) => format!("the server at {place} does not speak TLS: check the port"),
        Some(other) => format!("TLS with the driver at {place} failed: {other}"),
        None => {
            format!("the driver at {place} closed the connection during the TLS handshake ({source}): check its log")
        }
    }
}
