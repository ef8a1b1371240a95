//! A TCP proxy to the API server that can be shut, to simulate an outage.

use std::sync::Arc;

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An open proxy; closed when dropped.
pub(super) struct CutProxy {
    address: String,
    open: Arc<watch::Sender<bool>>,
    serving: JoinHandle<()>,
}

impl CutProxy {
    /// Opens a proxy to this `host:port`.
    pub(super) async fn towards(server: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("failed to open a port on loopback")?;
        let address = listener.local_addr().context("failed to read the port")?.to_string();
        let open = Arc::new(watch::Sender::new(true));
        let (gate, server) = (open.clone(), server.to_owned());
        #[allow(clippy::disallowed_methods, reason = "the CutProxy aborts it")]
        let serving = tokio::spawn(async move {
            while let Ok((incoming, _)) = listener.accept().await {
                let (mut gate, server) = (gate.subscribe(), server.clone());
                #[allow(clippy::disallowed_methods, reason = "it ends when either side or the CutProxy closes")]
                tokio::spawn(async move {
                    if *gate.borrow() {
                        tokio::select! {
                            _ = gate.wait_for(|open| !open) => {}
                            _ = carry(incoming, &server) => {}
                        }
                    }
                });
            }
        });
        Ok(Self { address, open, serving })
    }

    /// Returns the `host:port` of the proxy.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Cuts open connections and rejects new ones.
    pub(super) fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Accepts connections again.
    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(mut incoming: TcpStream, server: &str) -> std::io::Result<()> {
    let mut outgoing = TcpStream::connect(server).await?;
    copy_bidirectional(&mut incoming, &mut outgoing).await.map(drop)
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.shut();
        self.serving.abort();
    }
}
