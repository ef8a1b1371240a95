//! Asks a server of ours how it is: one HTTPS request with a client certificate, nothing kept open.
//!
//! By hand and not with an HTTP library, because `xtask` is to stay small: it links this crate.

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

/// A question is short, and so must the answer be.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody who may ask all servers of one authority.
#[derive(Clone)]
pub struct Prober {
    tls: TlsConnector,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers and body, as they came.
    pub text: String,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The certificates do not fit together.
    #[error("failed to prepare TLS")]
    Prepare(#[source] rustls::Error),
    /// A certificate or key is not PEM.
    #[error("failed to read a certificate")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// Nobody listens, or the connection broke.
    #[error("failed to ask {address}")]
    Ask {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody listens, but says nothing.
    #[error("failed to get an answer from {address} in time")]
    Late {
        /// Where.
        address: SocketAddr,
    },
    /// What came back is not HTTP.
    #[error("failed to understand the answer of {address}")]
    Garbled {
        /// Where.
        address: SocketAddr,
    },
}

impl Prober {
    /// Asks as `identity`, and believes servers that `authority` vouches for.
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

    /// `GET path` from the server on this port of the loopback address.
    pub async fn get(&self, port: u16, path: &str) -> Result<Answer, ProbeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let asked = tokio::time::timeout(PATIENCE, self.exchange(address, path)).await;
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
            // A server that hangs up without the TLS farewell has still answered.
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
    async fn a_port_where_nobody_listens_is_an_error_that_names_it() {
        let authority = Authority::new("cluster").unwrap();
        let prober = Prober::new(&authority, &authority.client(&User::admin()).unwrap()).unwrap();
        let port = crate::ports::Port::reserve().unwrap();
        let error = prober.get(port.number(), "/readyz").await.unwrap_err();
        assert_eq!(error.to_string(), format!("failed to ask 127.0.0.1:{}", port.number()));
    }
}
