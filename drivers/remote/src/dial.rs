//! Opens a connection to a driver.

use std::sync::Arc;

use futures::future::BoxFuture;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::link_error::LinkError;
use crate::tls::TlsFiles;

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Opens connections to one driver. It is a trait, so that tests and simulations need no sockets.
pub trait Dial: Send + Sync + 'static {
    /// Opens a connection.
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>>;

    /// Returns the endpoint for messages.
    fn place(&self) -> String;

    /// Returns the origin of the requests for HTTP.
    fn origin(&self) -> String {
        "http://localhost".to_owned()
    }
}

/// A unix socket.
pub(crate) struct UnixDial(pub(crate) Arc<std::path::Path>);

impl Dial for UnixDial {
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>> {
        let (path, place) = (self.0.clone(), self.place());
        Box::pin(async move {
            let stream = UnixStream::connect(&path).await.map_err(|source| LinkError::Connect { place, source })?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }

    fn place(&self) -> String {
        Endpoint::Unix(self.0.to_path_buf()).to_string()
    }
}

/// TCP with TLS.
pub(crate) struct TlsDial {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) files: TlsFiles,
}

impl Dial for TlsDial {
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>> {
        let (host, port, files, place) = (self.host.clone(), self.port, self.files.clone(), self.place());
        Box::pin(async move {
            let config = files.client().await.map_err(|source| LinkError::Files { place: place.clone(), source })?;
            let name = ServerName::try_from(host.clone()).map_err(|_| LinkError::Name { place: place.clone() })?;
            let tcp = TcpStream::connect((host.as_str(), port))
                .await
                .map_err(|source| LinkError::Connect { place: place.clone(), source })?;
            // Requests are small and wait for their responses, so Nagle's algorithm would only delay them.
            tcp.set_nodelay(true).ok();
            let stream = TlsConnector::from(config)
                .connect(name, tcp)
                .await
                .map_err(|source| LinkError::Tls { place, source })?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }

    fn place(&self) -> String {
        Endpoint::MutualTls { host: self.host.clone(), port: self.port }.to_string()
    }

    fn origin(&self) -> String {
        self.place().replacen("tcp+mtls", "https", 1)
    }
}
