//! Listens for callers of a driver.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::dial::Io;
use crate::endpoint::Endpoint;
use crate::tls::{TlsError, TlsFiles};

/// Timeout for the TLS handshake of a caller.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Maximum time to read from a rejected caller.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A listening socket. A unix socket is removed when the listener is dropped.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener, TlsFiles),
}

/// Errors of listening at an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error("failed to listen at {place}: another process already does")]
    Taken {
        /// The endpoint.
        place: String,
    },
    /// The system error of binding.
    #[error("failed to listen at {place}")]
    Bind {
        /// The endpoint.
        place: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// TCP needs TLS files.
    #[error("failed to listen at {place}: it requires a certificate, its key and the CA certificate of the callers")]
    NoFiles {
        /// The endpoint.
        place: String,
    },
    /// The TLS files cannot be used.
    #[error("failed to set up TLS for {place}")]
    Tls {
        /// The endpoint.
        place: String,
        /// The file and the cause.
        #[source]
        source: TlsError,
    },
}

impl Listener {
    /// Starts listening. A unix socket is accessible only to its owner from the start, and a stale socket of a dead
    /// process is replaced. TLS files are checked now and read again for every caller.
    pub async fn bind(endpoint: &Endpoint, files: Option<&TlsFiles>) -> Result<Self, ListenError> {
        let place = endpoint.to_string();
        let (endpoint, socket) = match endpoint {
            Endpoint::Unix(path) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(ListenError::Taken { place });
                }
                let socket = bind_private(path).map_err(|source| ListenError::Bind { place, source })?;
                (endpoint.clone(), Socket::Unix(socket))
            }
            Endpoint::MutualTls { host, port } => {
                let files = files.ok_or_else(|| ListenError::NoFiles { place: place.clone() })?;
                files.server().await.map_err(|source| ListenError::Tls { place: place.clone(), source })?;
                let bind = |source| ListenError::Bind { place: place.clone(), source };
                let socket = TcpListener::bind((host.as_str(), *port)).await.map_err(bind)?;
                let port = socket.local_addr().map_err(bind)?.port();
                (Endpoint::MutualTls { host: host.clone(), port }, Socket::Tcp(socket, files.clone()))
            }
        };
        Ok(Self { endpoint, socket })
    }

    /// Returns the endpoint, with the assigned port if port zero was requested.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) async fn accept(&self) -> io::Result<Caller> {
        match &self.socket {
            Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| Caller::Unix(stream)),
            Socket::Tcp(listener, files) => {
                listener.accept().await.map(|(stream, _)| Caller::Tcp(stream, files.clone()))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Endpoint::Unix(path) = &self.endpoint {
            // The socket is already gone or belongs to another process.
            std::fs::remove_file(path).ok();
        }
    }
}

/// A connection that is not authenticated yet.
pub(crate) enum Caller {
    Unix(UnixStream),
    Tcp(TcpStream, TlsFiles),
}

impl Caller {
    /// Authenticates the caller.
    pub(crate) async fn admit(self) -> Result<Box<dyn Io>, Refused> {
        match self {
            Self::Unix(stream) => Ok(Box::new(stream)),
            Self::Tcp(stream, files) => {
                stream.set_nodelay(true).ok();
                let config = files.server().await.map_err(Refused::Files)?;
                let handshake = TlsAcceptor::from(config).accept(stream).into_fallible();
                match tokio::time::timeout(HANDSHAKE, handshake).await {
                    Ok(Ok(stream)) => Ok(Box::new(stream)),
                    Ok(Err((source, stream))) => {
                        drain(stream).await;
                        Err(Refused::Handshake(source))
                    }
                    Err(_) => Err(Refused::Slow),
                }
            }
        }
    }
}

/// Reads the rest of a rejected caller's data. Closing a connection with unread bytes sends a reset, which overtakes
/// the TLS alert with the cause.
async fn drain(mut stream: TcpStream) {
    let draining = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    tokio::time::timeout(DRAIN_TIMEOUT, draining).await.ok();
}

/// Why a caller was rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("failed to set up TLS")]
    Files(#[source] TlsError),
    #[error("failed to complete the TLS handshake")]
    Handshake(#[source] io::Error),
    #[error("failed to complete the TLS handshake in time")]
    Slow,
}

/// Binds a unix socket that is never accessible to other users. Between `bind` and `chmod` the umask decides, so both
/// happen in a private directory, and the socket is then moved to its path.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let room = directory_beside(path);
    std::fs::DirBuilder::new().mode(0o700).create(&room)?;
    let bound = (|| {
        let socket = room.join("s");
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&socket, path)?;
        Ok(listener)
    })();
    std::fs::remove_file(room.join("s")).ok();
    std::fs::remove_dir(&room).ok();
    bound
}

/// Returns a directory in the same parent, so that a move is a rename. Its name is short, because a socket path is
/// limited to 107 bytes.
fn directory_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}", std::process::id()))
}
