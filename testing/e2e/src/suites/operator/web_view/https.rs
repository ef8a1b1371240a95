//! An HTTPS client with a token and a CA certificate, which returns every response unchanged.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::authority::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::web::{Answer, parse};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of the web view.
pub(super) struct Https {
    port: u16,
    connector: TlsConnector,
}

impl Https {
    /// Trusts certificates of this CA.
    pub(super) fn trusting(authority: &Authority, port: u16) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { port, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Returns the complete response.
    pub(super) async fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<Answer> {
        let mut answer = Events { stream: self.ask(path, token).await?, heard: String::new() };
        loop {
            match answer.more(TIMEOUT).await? {
                More::Came => {}
                More::Ended => break,
                More::Nothing => bail!("the response to {path} does not end"),
            }
        }
        parse(&answer.heard).with_context(|| format!("the response to {path} is not HTTP"))
    }

    /// Returns the event stream after its first event.
    pub(super) async fn events(&self, token: &str) -> anyhow::Result<Events> {
        let mut events = Events { stream: self.ask("/events", Some(token)).await?, heard: String::new() };
        while !events.heard.contains("event: everything") {
            ensure!(events.more(TIMEOUT).await? == More::Came, "no event was received: {}", events.heard);
        }
        Ok(events)
    }

    /// Uses HTTP 1.0, so that responses are not chunked.
    async fn ask(&self, path: &str, token: Option<&str>) -> anyhow::Result<TlsStream<TcpStream>> {
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{authorization}\r\n");
        let asked = async {
            let socket = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let mut stream = self.connector.connect(ServerName::try_from("127.0.0.1")?, socket).await?;
            stream.write_all(request.as_bytes()).await?;
            anyhow::Ok(stream)
        };
        timeout(TIMEOUT, asked)
            .await
            .context("the web view does not respond")?
            .context("failed to send a request to the web view")
    }
}

/// A response that is read in parts.
pub(super) struct Events {
    stream: TlsStream<TcpStream>,
    heard: String,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Came,
    Ended,
    Nothing,
}

impl Events {
    /// Returns whether the stream ends within this time. Events that arrive meanwhile are discarded.
    pub(super) async fn end_within(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let all = async {
            loop {
                match self.more(limit).await? {
                    More::Came => self.heard.clear(),
                    More::Ended => return anyhow::Ok(true),
                    More::Nothing => return Ok(false),
                }
            }
        };
        timeout(limit, all).await.unwrap_or(Ok(false))
    }

    async fn more(&mut self, limit: Duration) -> anyhow::Result<More> {
        let mut piece = vec![0; 16 * 1024];
        let Ok(read) = timeout(limit, self.stream.read(&mut piece)).await else { return Ok(More::Nothing) };
        let length = match read {
            Ok(length) => length,
            // The end without a TLS close_notify counts as an end.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error).context("failed to read events"),
        };
        self.heard.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap_or_default()));
        Ok(if length == 0 { More::Ended } else { More::Came })
    }
}
