//! A TCP proxy to the API server that can be cut.
//!
//! A cut does not close connections, as when a switch drops all packets. Connections stay open, new ones are accepted,
//! and no byte is forwarded until the proxy is restored. Then delayed data is delivered.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A proxy that can be cut. It ends when this value is dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    passing: watch::Sender<bool>,
}

impl Proxy {
    /// Opens a proxy to `server` on a separate thread, because the test blocks in other programs.
    pub(super) fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let (passing, passing_changes) = watch::channel(true);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to open a proxy")?;
        listener.set_nonblocking(true).context("failed to open a proxy")?;
        let address = listener.local_addr().context("failed to open a proxy")?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to open a proxy")?;
        std::thread::spawn(move || runtime.block_on(relay_all(listener, server, passing_changes)));
        Ok(Self { address, passing })
    }

    /// Returns the address of the proxy.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops forwarding in both directions.
    pub(super) fn cut(&self) {
        self.passing.send_replace(false);
    }

    /// Resumes forwarding, starting with delayed data.
    pub(super) fn restore(&self) {
        self.passing.send_replace(true);
    }
}

async fn relay_all(listener: std::net::TcpListener, server: SocketAddr, mut passing_changes: watch::Receiver<bool>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut relays = JoinSet::new();
    loop {
        tokio::select! {
            gone = async { while passing_changes.changed().await.is_ok() {} } => return gone,
            Ok((caller, _)) = listener.accept() => {
                relays.spawn(relay(caller, server, passing_changes.clone()));
            }
            Some(_) = relays.join_next() => {}
        }
    }
}

async fn relay(caller: TcpStream, server: SocketAddr, passing_changes: watch::Receiver<bool>) {
    if passing_changes.clone().wait_for(|passing| *passing).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_caller, to_caller), (from_server, to_server)) = (caller.into_split(), server.into_split());
    tokio::select! {
        () = carry(from_caller, to_server, passing_changes.clone()) => {}
        () = carry(from_server, to_caller, passing_changes) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut passing_changes: watch::Receiver<bool>) {
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..read) else { return };
        if passing_changes.wait_for(|passing| *passing).await.is_err() || to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Shows LEA-12.
    #[tokio::test]
    async fn a_cut_connection_stays_open_and_delivers_late() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::open(server.local_addr().unwrap()).unwrap();
        let mut caller = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut other_end, _) = server.accept().await.unwrap();
        caller.write_all(b"one").await.unwrap();
        let mut three = [0; 3];
        other_end.read_exact(&mut three).await.unwrap();
        proxy.cut();
        caller.write_all(b"two").await.unwrap();
        let nothing = tokio::time::timeout(Duration::from_millis(200), other_end.read_exact(&mut three)).await;
        assert!(nothing.is_err(), "{three:?} arrived through the cut connection");
        proxy.restore();
        other_end.read_exact(&mut three).await.unwrap();
        assert_eq!(&three, b"two");
    }
}
