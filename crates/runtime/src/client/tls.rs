//! TLS configuration of connections to API servers.
//!
//! The crypto provider is set explicitly, because a process that links a cloud SDK may have two, and the first
//! connection would fail. A renewed CA or client certificate requires a new configuration: a changed one would resume
//! TLS sessions of the old one, without verifying certificates again.

use std::path::PathBuf;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::files::FileError;

/// How the server's certificate is verified.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// With these CA certificates.
    Bundle(Pem),
    /// With the CA certificates of the operating system.
    System,
    /// Not at all: `insecure-skip-tls-verify`.
    Anyone,
}

/// Client certificate and key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

/// Certificates or a key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pem {
    pub(crate) text: Vec<u8>,
    /// Its file, unless it is in the kubeconfig itself.
    pub(crate) file: Option<PathBuf>,
}

impl Pem {
    /// Returns an error about its file, or `inline` if it is in the kubeconfig.
    fn wrong(&self, what: String, inline: impl FnOnce(String) -> TlsError) -> TlsError {
        match self.file.clone() {
            Some(path) => TlsError::File(FileError::Content { path, what }),
            None => inline(what),
        }
    }
}

/// Errors of the TLS setup.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key file is missing or invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// `certificate-authority-data` contains no certificate.
    #[error("failed to use certificate-authority-data: {what}")]
    Authority {
        /// The problem.
        what: String,
    },
    /// `client-certificate-data` and `client-key-data` are invalid.
    #[error("failed to use client-certificate-data and client-key-data: {what}")]
    Identity {
        /// The problem.
        what: String,
    },
    /// The operating system has no CA certificates.
    #[error("failed to find CA certificates of the operating system")]
    System(#[source] std::io::Error),
    /// The provider supports none of the protocol versions.
    #[error("failed to set up TLS")]
    Setup(#[source] rustls::Error),
}

/// Returns the TLS configuration of a connection, offering HTTP/2 and HTTP/1.1.
pub(crate) fn client_config(trust: &Trust, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let builder = match trust {
        Trust::Bundle(pem) => {
            let wrong = |what| pem.wrong(what, |what| TlsError::Authority { what });
            builder.with_root_certificates(roots(&pem.text).map_err(wrong)?)
        }
        Trust::System => builder.with_native_roots().map_err(TlsError::System)?,
        Trust::Anyone => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyone { provider: provider.clone() }))
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let wrong = |what| certificate.wrong(what, |what| TlsError::Identity { what });
            let key = certified(&certificate.text, &key.text, &provider).map_err(wrong)?;
            builder.with_client_cert_resolver(Arc::new(OurIdentity { key: Arc::new(key) }))
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|why| format!("it contains an invalid certificate ({why})"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if found.is_empty() => Err("it contains no PEM certificate".to_owned()),
        Ok(found) => Ok(found),
        Err(why) => Err(format!("it is not PEM ({why})")),
    }
}

fn certified(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its key is not a PEM private key".to_owned())?;
    CertifiedKey::from_der(chain, key, provider).map_err(|why| format!("certificate and key do not match ({why})"))
}

#[derive(Debug)]
struct OurIdentity {
    key: Arc<CertifiedKey>,
}

impl ResolvesClientCert for OurIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.key.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Verifies only that the peer has the private key of its certificate.
#[derive(Debug)]
struct TrustAnyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
