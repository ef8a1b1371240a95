//! Who may talk to whom, over TCP.
//!
//! Both sides show a certificate of one authority, and nobody else gets as far as the first byte of the protocol. The files are
//! read for every handshake, so that a rotated certificate needs no restart; connections are few.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// What is spoken inside, as TLS announces it.
const HTTP2: &[u8] = b"h2";

/// The files of one side, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that issued the other side's certificate.
    pub authority: PathBuf,
    /// Our certificate, with those between it and the authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// TLS that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or unreadable.
    #[error("failed to read {}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds no certificate.
    #[error("failed to find a PEM certificate in {}", path.display())]
    Certificate {
        /// Which one.
        path: PathBuf,
    },
    /// The file holds no key. What is in it is not quoted.
    #[error("failed to find a PEM private key in {}", path.display())]
    Key {
        /// Which one.
        path: PathBuf,
    },
    /// The files make no identity or no authority.
    #[error("failed to use {} and {}", certificate.display(), key.display())]
    Identity {
        /// Our certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// What does not fit.
        #[source]
        source: rustls::Error,
    },
    /// The authority can vouch for nobody.
    #[error("failed to use the certificate authority in {}", path.display())]
    Authority {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TlsFiles {
    /// The client's side of a handshake.
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

    /// The server's side of a handshake. Clients without a certificate of the authority are refused.
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

/// Named here and not looked up in the process: with a cloud's SDK linked in there are two.
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
