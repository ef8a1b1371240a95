//! Where a driver waits for its callers.

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

/// How long a caller may take to show its certificate.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a caller that was refused is listened to.
const HEARD_OUT: Duration = Duration::from_secs(1);

/// A place to listen at. A unix socket is removed when the listener is dropped.
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

/// An endpoint that cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Someone does already.
    #[error("failed to listen at {place}: another process already does")]
    Taken {
        /// The endpoint.
        place: String,
    },
    /// The system said no.
    #[error("failed to listen at {place}")]
    Bind {
        /// The endpoint.
        place: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// TCP needs certificates.
    #[error("failed to listen at {place}: it takes a certificate, its key and the authority of those who may call")]
    NoFiles {
        /// The endpoint.
        place: String,
    },
    /// The certificates cannot be used.
    #[error("failed to set up TLS for {place}")]
    Tls {
        /// The endpoint.
        place: String,
        /// Which file, and why.
        #[source]
        source: TlsError,
    },
}

impl Listener {
    /// Begins to listen. A unix socket is open to its owner alone, from its first moment; one that a dead process left behind is
    /// replaced. TLS files are checked now and read again for every caller.
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

    /// Where it listens; with the port that was found if zero was asked for.
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
            // Somebody else's by now, or gone: nothing to do about it here.
            std::fs::remove_file(path).ok();
        }
    }
}

/// Someone at the door.
pub(crate) enum Caller {
    Unix(UnixStream),
    Tcp(TcpStream, TlsFiles),
}

impl Caller {
    /// Lets the caller in, if it can show who it is.
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
                        hear_out(stream).await;
                        Err(Refused::Handshake(source))
                    }
                    Err(_) => Err(Refused::Slow),
                }
            }
        }
    }
}

/// Lets a caller that was refused finish its sentence. A connection that is closed over unread bytes is reset, and the reset overtakes
/// the alert that tells the caller why.
async fn hear_out(mut stream: TcpStream) {
    let hearing = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    tokio::time::timeout(HEARD_OUT, hearing).await.ok();
}

/// Why a caller was not let in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("failed to set up TLS")]
    Files(#[source] TlsError),
    #[error("failed to agree on TLS")]
    Handshake(#[source] io::Error),
    #[error("failed to agree on TLS in time")]
    Slow,
}

/// Binds a unix socket that nobody else can ever open. Between `bind` and `chmod` a socket is as open as the umask lets it be, so both
/// happen in a directory of our own, and the finished socket is moved to its place.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let room = room_beside(path);
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

/// In the same directory, so that a move is a rename; short, because the path of a socket may have no more than 107 bytes.
fn room_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}", std::process::id()))
}
