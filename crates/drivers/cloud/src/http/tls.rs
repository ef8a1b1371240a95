//! Whom a client trusts and who it is, where a Secret says so.
//!
//! Private clouds have authorities of their own, and some ask for a certificate of the client.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use secrecy::{ExposeSecret, SecretString};

use super::Client;
use super::client::builder;

/// What a Secret says about TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Authorities as PEM, instead of those of the system.
    pub authorities: Option<String>,
    /// Certificate and key of the client, both as PEM.
    pub identity: Option<(String, SecretString)>,
    /// Whether servers have to prove who they are.
    pub servers: Servers,
}

/// Whether servers have to prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// They have.
    #[default]
    Verified,
    /// Whoever answers is believed.
    Believed,
}

/// What is wrong with it. No key is ever shown.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The authorities are no certificates in PEM.
    #[error("holds no certificate in PEM form")]
    Authorities,
    /// The client's certificate is none in PEM.
    #[error("holds no certificate in PEM form")]
    Certificate,
    /// The client's key is none in PEM, or not that of the certificate.
    #[error("holds no private key in PEM form that fits the certificate")]
    Key,
    /// The system's authorities could not be read.
    #[error("failed to read the authorities of the system: {0}")]
    System(std::io::Error),
}

impl Client {
    /// A client that trusts whom this says, and is whom this says.
    pub fn of(tls: &Tls) -> Result<Self, TlsError> {
        let trusting = match (&tls.authorities, tls.servers) {
            (_, Servers::Believed) => {
                let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
                builder().dangerous().with_custom_certificate_verifier(Arc::new(Credulous(algorithms)))
            }
            (Some(authorities), Servers::Verified) => builder().with_root_certificates(roots(authorities)?),
            (None, Servers::Verified) => builder().with_native_roots().map_err(TlsError::System)?,
        };
        let Some((certificate, key)) = &tls.identity else { return Ok(Self::with_tls(trusting.with_no_client_auth())) };
        let config: ClientConfig = {
            let chain = certificates(certificate).ok_or(TlsError::Certificate)?;
            let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes()).map_err(|_| TlsError::Key)?;
            trusting.with_client_auth_cert(chain, key).map_err(|_| TlsError::Key)?
        };
        Ok(Self::with_tls(config))
    }
}

fn roots(authorities: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities).ok_or(TlsError::Authorities)? {
        roots.add(certificate).map_err(|_| TlsError::Authorities)?;
    }
    Ok(roots)
}

fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.ok().filter(|read| !read.is_empty())
}

/// Believes every certificate. That the server holds its key is checked all the same.
#[derive(Debug)]
struct Credulous(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
