//! Whom we trust and who we are, in TLS.
//!
//! The crypto provider is named here and not looked up in the process: with a cloud's SDK linked in there are two, and
//! the first connection would die of the choice. Files are followed when they change, at the next handshake.

use std::path::PathBuf;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::reread::{FileError, Reread};

/// Whose word we take for the server's identity.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// The certificate authorities of this PEM text.
    Bundle(Vec<u8>),
    /// Those of this file, whatever it holds at the time.
    File(PathBuf),
    /// Those of the operating system.
    System,
    /// Anyone's: `insecure-skip-tls-verify`.
    Anyone,
}

/// Our client certificate and its key.
#[derive(Clone)]
pub(crate) enum Identity {
    /// PEM texts.
    Inline { certificate: Vec<u8>, key: Vec<u8> },
    /// Files.
    Files { certificate: PathBuf, key: PathBuf },
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
pub(crate) fn client_config(trust: Trust, identity: Option<Identity>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let builder = match trust {
        Trust::Bundle(pem) => builder.with_root_certificates(roots(&pem).map_err(|what| TlsError::Authority { what })?),
        Trust::System => builder.with_native_roots().map_err(TlsError::System)?,
        Trust::File(path) => {
            let make = {
                let provider = provider.clone();
                move |contents: &[Vec<u8>]| verifier(&contents.concat(), provider.clone())
            };
            let verifier = FileTrust { verifier: Reread::open(vec![path], make)? };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Anyone => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyone { provider: provider.clone() }))
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity::Inline { certificate, key }) => {
            let key = certified(&certificate, &key, &provider).map_err(|what| TlsError::Identity { what })?;
            builder.with_client_cert_resolver(Arc::new(InlineIdentity { key: Arc::new(key) }))
        }
        Some(Identity::Files { certificate, key }) => {
            let make = move |contents: &[Vec<u8>]| match contents {
                [certificate, key] => certified(certificate, key, &provider).map(Arc::new),
                _ => Err("it takes a certificate and a key".to_owned()),
            };
            let identity = FileIdentity { key: Reread::open(vec![certificate, key], make)? };
            builder.with_client_cert_resolver(Arc::new(identity))
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

fn verifier(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots(pem)?), provider).build().map_err(|why| why.to_string())
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
struct InlineIdentity {
    key: Arc<CertifiedKey>,
}

impl ResolvesClientCert for InlineIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.key.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct FileIdentity {
    key: Reread<Arc<CertifiedKey>>,
}

impl ResolvesClientCert for FileIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some((*self.key.current()).clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct FileTrust {
    verifier: Reread<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for FileTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verifier = self.verifier.current();
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.current().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.current().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.current().supported_verify_schemes()
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
