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

    /// What a client with these settings makes of a server with this certificate, which asks for the other one if there is one.
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
    async fn an_authority_of_the_secret_is_trusted_instead_of_those_of_the_system() {
        let (server, other) = (certificate(), certificate());
        let trusting = |of: &CertifiedKey<KeyPair>| Tls { authorities: Some(of.cert.pem()), ..Tls::default() };
        assert_eq!(asked(&server, None, &trusting(&server)).await.unwrap(), 200);
        assert!(matches!(asked(&server, None, &trusting(&other)).await, Err(HttpError::Tls { .. })));
    }

    /// Shows OST-6.
    #[tokio::test]
    async fn whoever_answers_is_believed_only_where_the_secret_says_so() {
        let (server, other) = (certificate(), certificate());
        let authorities = Some(other.cert.pem());
        let believing = Tls { authorities, servers: Servers::Believed, ..Tls::default() };
        assert_eq!(asked(&server, None, &believing).await.unwrap(), 200);
    }

    /// Shows OST-6.
    #[tokio::test]
    async fn a_server_that_asks_for_the_client_s_certificate_is_shown_it() {
        let (server, us, other) = (certificate(), certificate(), certificate());
        let known = |identity| Tls { authorities: Some(server.cert.pem()), identity, ..Tls::default() };
        assert_eq!(asked(&server, Some(&us), &known(Some(identity(&us)))).await.unwrap(), 200);
        assert!(asked(&server, Some(&us), &known(None)).await.is_err());
        assert!(asked(&server, Some(&us), &known(Some(identity(&other)))).await.is_err());
    }

    /// Shows OST-6.
    #[test]
    fn what_is_no_pem_is_named_and_never_shown() {
        let text = || Some("hunter2".to_owned());
        let authorities = Client::of(&Tls { authorities: text(), ..Tls::default() });
        assert!(matches!(authorities, Err(TlsError::Authorities)));
        let us = certificate();
        let identity = Some((us.cert.pem(), SecretString::from("hunter2")));
        let tls = Tls { authorities: Some(us.cert.pem()), identity, ..Tls::default() };
        assert!(!format!("{tls:?}").contains("hunter2"));
        let key = Client::of(&tls).unwrap_err();
        assert!(matches!(key, TlsError::Key) && !key.to_string().contains("hunter2"));
        let tls = Tls { identity: Some(("hunter2".into(), SecretString::from("x"))), ..tls };
        assert!(matches!(Client::of(&tls), Err(TlsError::Certificate)));
    }
}
