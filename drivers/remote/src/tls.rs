//! Mutual TLS over TCP.
//!
//! Both sides present a certificate of a trusted CA before the first byte of the protocol. The files are read for every
//! handshake, so that a rotated certificate needs no restart; connections are rare.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// ALPN protocol.
const HTTP2: &[u8] = b"h2";

/// The files of one side, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CA certificate that issued the other side's certificate.
    pub authority: PathBuf,
    /// The own certificate with intermediate certificates.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

/// Errors of setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or unreadable.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file contains no certificate.
    #[error("failed to find a PEM certificate in {}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
    },
    /// A file contains no key. Its content is not quoted.
    #[error("failed to find a PEM private key in {}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// The certificate and the key do not match.
    #[error("failed to use {} and {}", certificate.display(), key.display())]
    Identity {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The CA certificate cannot be used.
    #[error("failed to use the CA certificate in {}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TlsFiles {
    /// Returns the client configuration for a handshake.
    pub(crate) async fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let (roots, chain, key) = self.load().await?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|source| self.identity(source))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|source| self.identity(source))?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the server configuration for a handshake. Clients without a certificate of the CA are rejected.
    pub(crate) async fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let (roots, chain, key) = self.load().await?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|source| TlsError::Authority { path: self.authority.clone(), source: Box::new(source) })?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|source| self.identity(source))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|source| self.identity(source))?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Arc::new(config))
    }

    async fn load(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authority).await? {
            let unusable = |source| TlsError::Authority { path: self.authority.clone(), source: Box::new(source) };
            roots.add(authority).map_err(unusable)?;
        }
        let chain = certificates(&self.certificate).await?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key).await?)
            .map_err(|_| TlsError::Key { path: self.key.clone() })?;
        Ok((roots, chain, key))
    }

    fn identity(&self, source: rustls::Error) -> TlsError {
        TlsError::Identity { certificate: self.certificate.clone(), key: self.key.clone(), source }
    }
}

/// Selects the ring provider explicitly: if another crate links a second provider, rustls has no default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path).await?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| TlsError::Certificate { path: path.to_owned() })
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|source| TlsError::Read { path: path.to_owned(), source })
}
