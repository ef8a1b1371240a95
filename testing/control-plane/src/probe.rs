//! Sends a health query to a server of the control plane: one HTTPS request with a client certificate on a new
//! connection.
//!
//! It uses no HTTP library, because `xtask` links this crate and must stay small.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::authority::{Authority, Identity};

/// Timeout of a query.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client for all servers of one CA.
#[derive(Clone)]
pub struct Prober {
    tls: TlsConnector,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers and body.
    pub text: String,
}

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The TLS configuration is invalid.
    #[error("failed to prepare TLS")]
    Prepare(#[source] rustls::Error),
    /// A certificate or key is not PEM.
    #[error("failed to read a certificate")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The connection failed.
    #[error("failed to send a request to {address}")]
    Ask {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// There was no response in time.
    #[error("timed out waiting for a response from {address}")]
    Late {
        /// The address.
        address: SocketAddr,
    },
    /// The response is not HTTP.
    #[error("failed to parse the response of {address}")]
    Garbled {
        /// The address.
        address: SocketAddr,
    },
}

impl Prober {
    /// Creates a client with this identity, which trusts servers of this CA.
    pub fn new(authority: &Authority, identity: &Identity) -> Result<Self, ProbeError> {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).map_err(ProbeError::Certificate);
        let mut roots = RootCertStore::empty();
        roots.add(certificate(authority.certificate())?).map_err(ProbeError::Prepare)?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(ProbeError::Certificate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ProbeError::Prepare)?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate(&identity.certificate)?], key)
            .map_err(ProbeError::Prepare)?;
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Sends `GET path` to the server on this port on loopback.
    pub async fn get(&self, port: u16, path: &str) -> Result<Answer, ProbeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let asked = tokio::time::timeout(TIMEOUT, self.exchange(address, path)).await;
        let bytes =
            asked.map_err(|_| ProbeError::Late { address })?.map_err(|source| ProbeError::Ask { address, source })?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        status.map(|status| Answer { status, text }).ok_or(ProbeError::Garbled { address })
    }

    async fn exchange(&self, address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
        let mut stream = self.tls.connect(name, stream).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes).await {
            // A response is complete even if the server closes the connection without a TLS close_notify.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::User;

    #[tokio::test]
    async fn a_query_to_a_closed_port_fails_with_its_address() {
        let authority = Authority::new("cluster").unwrap();
        let prober = Prober::new(&authority, &authority.client(&User::admin()).unwrap()).unwrap();
        let port = crate::ports::Port::reserve().unwrap();
        let error = prober.get(port.number(), "/readyz").await.unwrap_err();
        assert_eq!(error.to_string(), format!("failed to send a request to 127.0.0.1:{}", port.number()));
    }
}
