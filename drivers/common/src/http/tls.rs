//! TLS settings from a Secret: CA certificates and client certificate.
//!
//! Private clouds have their own CA, and some require a client certificate.

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

/// TLS settings of a Secret.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// CA certificates as PEM, instead of those of the system.
    pub ca_certificates: Option<String>,
    /// Client certificate and key, both as PEM.
    pub identity: Option<(String, SecretString)>,
    /// Whether server certificates are verified.
    pub servers: Servers,
}

/// Whether server certificates are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Server certificates are verified.
    #[default]
    Verified,
    /// Any server certificate is accepted.
    Unverified,
}

/// Invalid TLS settings. Errors never contain a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA certificates are not valid PEM.
    #[error("contains no PEM certificate")]
    CaCertificates,
    /// The client certificate is not valid PEM.
    #[error("contains no PEM certificate")]
    Certificate,
    /// The client key is not valid PEM or does not match the certificate.
    #[error("contains no PEM private key that matches the certificate")]
    Key,
    /// The CA certificates of the system could not be read.
    #[error("failed to read the CA certificates of the system: {0}")]
    System(std::io::Error),
}

impl Client {
    /// Returns a client with these TLS settings.
    pub fn of(tls: &Tls) -> Result<Self, TlsError> {
        let trusting = match (&tls.ca_certificates, tls.servers) {
            (_, Servers::Unverified) => {
                let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
                builder().dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(algorithms)))
            }
            (Some(ca_certificates), Servers::Verified) => builder().with_root_certificates(roots(ca_certificates)?),
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

fn roots(ca_certificates: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca_certificates).ok_or(TlsError::CaCertificates)? {
        roots.add(certificate).map_err(|_| TlsError::CaCertificates)?;
    }
    Ok(roots)
}

fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.ok().filter(|read| !read.is_empty())
}

/// Accepts every certificate. The handshake signature of the server is still verified.
#[derive(Debug)]
struct AcceptAnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAnyCertificate {
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

#[cfg(test)]
mod tests {
    use super::super::{HttpError, Transport};
    use super::*;
    use bytes::Bytes;
    use driver::Call;
    use http::Request;
    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn certificate() -> CertifiedKey<KeyPair> {
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
    }

    fn identity(of: &CertifiedKey<KeyPair>) -> (String, SecretString) {
        (of.cert.pem(), SecretString::from(of.signing_key.serialize_pem()))
    }

    /// Sends a request with these settings to a server with this certificate, which requires a client certificate if
    /// there is one.
    async fn asked(
        server: &CertifiedKey<KeyPair>,
        asks_for: Option<&CertifiedKey<KeyPair>>,
        tls: &Tls,
    ) -> Result<u16, HttpError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = match asks_for {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let roots = Arc::new(roots(&client.cert.pem()).unwrap());
                builder.with_client_cert_verifier(
                    WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap(),
                )
            }
        };
        let key = PrivateKeyDer::try_from(server.signing_key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![server.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let answering = async {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut read = [0; 1024];
            if matches!(stream.read(&mut read).await, Ok(1..)) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.unwrap();
                let _ = stream.shutdown().await;
            }
        };
        let client = Client::of(tls).unwrap();
        let call = Call::default();
        let request = Request::get(format!("https://{address}/")).body(Bytes::new()).unwrap();
        let (answer, ()) = tokio::join!(client.send(&call, request), answering);
        answer.map(|answer| answer.status().as_u16())
    }

    /// Shows OST-6.
    #[tokio::test]
    async fn ca_of_the_secret_replaces_the_system_ca_certificates() {
        let (server, other) = (certificate(), certificate());
        let trusting = |of: &CertifiedKey<KeyPair>| Tls { ca_certificates: Some(of.cert.pem()), ..Tls::default() };
        assert_eq!(asked(&server, None, &trusting(&server)).await.unwrap(), 200);
        assert!(matches!(asked(&server, None, &trusting(&other)).await, Err(HttpError::Tls { .. })));
    }

    /// Shows OST-6.
    #[tokio::test]
    async fn any_server_is_accepted_only_if_the_secret_allows_it() {
        let (server, other) = (certificate(), certificate());
        let ca_certificates = Some(other.cert.pem());
        let believing = Tls { ca_certificates, servers: Servers::Unverified, ..Tls::default() };
        assert_eq!(asked(&server, None, &believing).await.unwrap(), 200);
    }

    /// Shows OST-6.
    #[tokio::test]
    async fn client_certificate_is_presented_to_the_server() {
        let (server, us, other) = (certificate(), certificate(), certificate());
        let known = |identity| Tls { ca_certificates: Some(server.cert.pem()), identity, ..Tls::default() };
        assert_eq!(asked(&server, Some(&us), &known(Some(identity(&us)))).await.unwrap(), 200);
        assert!(asked(&server, Some(&us), &known(None)).await.is_err());
        assert!(asked(&server, Some(&us), &known(Some(identity(&other)))).await.is_err());
    }

    /// Shows OST-6.
    #[test]
    fn invalid_pem_is_named_and_never_shown() {
        let text = || Some("hunter2".to_owned());
        let ca_certificates = Client::of(&Tls { ca_certificates: text(), ..Tls::default() });
        assert!(matches!(ca_certificates, Err(TlsError::CaCertificates)));
        let us = certificate();
        let identity = Some((us.cert.pem(), SecretString::from("hunter2")));
        let tls = Tls { ca_certificates: Some(us.cert.pem()), identity, ..Tls::default() };
        assert!(!format!("{tls:?}").contains("hunter2"));
        let key = Client::of(&tls).unwrap_err();
        assert!(matches!(key, TlsError::Key) && !key.to_string().contains("hunter2"));
        let tls = Tls { identity: Some(("hunter2".into(), SecretString::from("x"))), ..tls };
        assert!(matches!(Client::of(&tls), Err(TlsError::Certificate)));
    }
}
