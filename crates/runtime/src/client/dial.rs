//! Opens one connection: name resolution, TCP, TLS.
//!
//! hyper's connector is not used, because its "client error (Connect)" does not show which step failed. Users need to
//! know that if their controller does not start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::credentials::Credentials;

/// A byte stream to an API server.
pub(crate) trait Io: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static {}
impl<T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static> Io for T {}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// An open connection that was not used yet.
pub(crate) struct Dialed {
    pub(crate) io: Box<dyn Io>,
    pub(crate) protocol: Protocol,
}

/// Opens connections to one API server. A trait, so that tests can count and fail them without sockets.
pub(crate) trait Dial: Send + Sync + 'static {
    /// Returns the generation of the credentials that a new connection would use. New requests do not use connections
    /// of older generations.
    fn era(&self) -> u64;

    fn dial(&self) -> BoxFuture<'static, Result<Dialed, DialError>>;
}

/// A failed step of opening a connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The server's name has no address.
    #[error("failed to find the address of {host}")]
    Resolve {
        /// The host name.
        host: String,
        /// The error of the resolver.
        #[source]
        source: io::Error,
    },
    /// The TCP connection failed.
    #[error("failed to connect to {server}")]
    Connect {
        /// Host and port.
        server: String,
        /// The error of the last address.
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {server} failed")]
    Tls {
        /// Host and port.
        server: String,
        /// The TLS error; contains a `rustls::Error` if it is about certificates.
        #[source]
        source: io::Error,
    },
    /// The peer accepts connections but does not respond.
    #[error("failed to open a connection to {server} within {}", super::api_error::readable(*after))]
    Timeout {
        /// Host and port.
        server: String,
        /// The timeout.
        after: Duration,
    },
    /// The HTTP handshake failed.
    #[error("HTTP handshake failed")]
    Handshake(#[source] hyper::Error),
    /// The connection was aborted while it was opened, because its client was dropped.
    #[error("failed to open a connection: its client was dropped")]
    Abandoned,
}

impl DialError {
    /// Returns a sentence for users, with advice.
    pub fn sentence(&self) -> String {
        match self {
            Self::Resolve { host, source } => {
                format!("failed to resolve {host} ({source}): check the server's name and DNS")
            }
            Self::Connect { server, source } => {
                format!("failed to connect to {server} ({source}): check the server's address and that it is running")
            }
            Self::Tls { server, source } => tls_sentence(server, source),
            Self::Timeout { server, after } => {
                let after = super::api_error::readable(*after);
                format!(
                    "{server} did not complete the connection within {after}: check the address, firewalls and network policies"
                )
            }
            Self::Handshake(source) => {
                format!("the server does not use HTTP ({source}): check the server's address and port")
            }
            Self::Abandoned => "the client was shut down while it connected".to_owned(),
        }
    }
}

fn tls_sentence(server: &str, source: &io::Error) -> String {
    use rustls::CertificateError as Wrong;
    let wrong = match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => wrong,
        Some(rustls::Error::AlertReceived(alert)) => {
            return format!("{server} rejected the TLS connection ({alert:?}): check the client certificate");
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            return format!("{server} does not use TLS: check the port and the scheme of the server's address");
        }
        Some(other) => return format!("TLS with {server} failed: {other}"),
        None => return format!("{server} aborted the TLS handshake ({source}): check the server's address and port"),
    };
    match wrong {
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => format!(
            "the certificate of {server} is for another name: use a name in the certificate, or set tls-server-name"
        ),
        Wrong::UnknownIssuer | Wrong::BadSignature => format!(
            "the certificate of {server} was not issued by the configured CA: check certificate-authority(-data), it may have been rotated"
        ),
        Wrong::Expired | Wrong::ExpiredContext { .. } => format!("the certificate of {server} has expired: renew it"),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            format!("the certificate of {server} is not valid yet: check the clocks of both machines")
        }
        other => format!("the certificate of {server} was rejected: {other}"),
    }
}

/// Opens TCP connections, with TLS if the scheme is https.
pub(crate) struct TcpDial {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The name that the server's certificate must be valid for, if TLS is used.
    pub(crate) name: Option<ServerName<'static>>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) timeout: Duration,
}

impl Dial for TcpDial {
    fn era(&self) -> u64 {
        self.credentials.in_use().era
    }

    fn dial(&self) -> BoxFuture<'static, Result<Dialed, DialError>> {
        let server = format!("{}:{}", self.host, self.port);
        let (host, port, timeout) = (self.host.clone(), self.port, self.timeout);
        let tls = self.credentials.in_use().tls.clone().zip(self.name.clone());
        Box::pin(async move {
            let until = Instant::now() + timeout;
            let too_slow = || DialError::Timeout { server: server.clone(), after: timeout };
            let opening = async {
                let tcp = connect(&host, port, &server, until).await?;
                match tls {
                    None => Ok(Dialed { io: Box::new(TokioIo::new(tcp)), protocol: Protocol::Http1 }),
                    Some((connector, name)) => {
                        let stream = connector
                            .connect(name, tcp)
                            .await
                            .map_err(|source| DialError::Tls { server: server.clone(), source })?;
                        let protocol = match stream.get_ref().1.alpn_protocol() {
                            Some(b"h2") => Protocol::Http2,
                            _ => Protocol::Http1,
                        };
                        Ok(Dialed { io: Box::new(TokioIo::new(stream)), protocol })
                    }
                }
            };
            timeout_at(until, opening).await.unwrap_or_else(|_| Err(too_slow()))
        })
    }
}

/// Tries the addresses of a name one after the other. Each one has a share of the timeout, so that an address that
/// drops packets (for example IPv6 without a route) leaves time for the next.
async fn connect(host: &str, port: u16, server: &str, until: Instant) -> Result<TcpStream, DialError> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let resolved = tokio::net::lookup_host((plain, port)).await;
    let addresses: Vec<SocketAddr> =
        resolved.map_err(|source| DialError::Resolve { host: host.to_owned(), source })?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let share = until.saturating_duration_since(Instant::now()) / left.max(1);
        left = left.saturating_sub(1);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are small and wait for their responses; Nagle's algorithm would only delay them.
                stream.set_nodelay(true).ok();
                return Ok(stream);
            }
            Ok(Err(source)) => last = source,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(DialError::Connect { server: server.to_owned(), source: last })
}
