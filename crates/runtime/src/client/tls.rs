//! Whom we trust and who we are, in TLS.
//!
//! The crypto provider is named here and not looked up in the process: with a cloud's SDK linked in there are two, and
//! the first connection would die of the choice. Whoever is given another trust or identity makes another configuration: one that
//! changed inside would go on with the sessions of the old one, in which nobody's certificate is looked at again.

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

/// Whose word we take for the server's identity.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// These certificate authorities'.
    Bundle(Pem),
    /// Those of the operating system.
    System,
    /// Anyone's: `insecure-skip-tls-verify`.
    Anyone,
}

/// Our client certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

/// Certificates or a key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pem {
    pub(crate) text: Vec<u8>,
    /// Where it was, unless in the kubeconfig itself.
    pub(crate) file: Option<PathBuf>,
}

impl Pem {
    /// What is wrong with it, said of the file that it is in or else as `inline` says it.
    fn wrong(&self, what: String, inline: impl FnOnce(String) -> TlsError) -> TlsError {
        match self.file.clone() {
            Some(path) => TlsError::File(FileError::Content { path, what }),
            None => inline(what),
        }
    }
}

/// TLS that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key file is missing or makes no sense.
    #[error(transparent)]
    File(#[from] FileError),
    /// `certificate-authority-data` holds no certificate.
    #[error("failed to use certificate-authority-data: {what}")]
    Authority {
        /// What is wrong with it.
        what: String,
    },
    /// `client-certificate-data` and `client-key-data` make no identity.
    #[error("failed to use client-certificate-data and client-key-data: {what}")]
    Identity {
        /// What is wrong with them.
        what: String,
    },
    /// The operating system has no certificate authorities.
    #[error("failed to find certificate authorities of the operating system")]
    System(#[source] std::io::Error),
    /// The provider supports none of the protocol versions.
    #[error("failed to set up TLS")]
    Setup(#[source] rustls::Error),
}

/// The TLS side of a connection, offering HTTP/2 and HTTP/1.1.
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
        roots.add(certificate).map_err(|why| format!("it holds a certificate that cannot be used ({why})"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if found.is_empty() => Err("it holds no PEM certificate".to_owned()),
        Ok(found) => Ok(found),
        Err(why) => Err(format!("it is not PEM ({why})")),
    }
}

fn certified(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its key is no PEM private key".to_owned())?;
    CertifiedKey::from_der(chain, key, provider).map_err(|why| format!("certificate and key do not fit ({why})"))
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

/// Checks that the peer holds the key of its certificate, and nothing else about it.
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
