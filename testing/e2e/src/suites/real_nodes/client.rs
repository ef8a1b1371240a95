//! Asking a pod over HTTP, from outside of its machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For a pod that only has to be there. Long: a busy machine is no broken promise.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the pod at this address serves under `/index.html`.
pub(super) async fn get(address: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    get_within(PATIENCE, address, port).await
}

/// The same for somebody who waits no longer than this.
pub(super) async fn get_within(patience: Duration, address: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    let asked = timeout(patience, exchange(SocketAddr::from((address, port)))).await;
    asked.with_context(|| format!("{address} did not answer within {} s", patience.as_secs()))?
}

async fn exchange(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("failed to connect to {address}"))?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\nHost: pod\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.with_context(|| format!("{address} broke off"))?;
    ensure!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{address} answered {answer:?}");
    Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().trim().to_owned())
}
