//! HTTP requests to a pod from outside of its machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Default timeout; long enough for a busy host.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Returns `/index.html` of the pod at this address.
pub(super) async fn get(address: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    get_within(TIMEOUT, address, port).await
}

/// The same with this timeout.
pub(super) async fn get_within(limit: Duration, address: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    let asked = timeout(limit, exchange(SocketAddr::from((address, port)))).await;
    asked.with_context(|| format!("{address} did not respond within {} s", limit.as_secs()))?
}

async fn exchange(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("failed to connect to {address}"))?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\nHost: pod\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.with_context(|| format!("failed to read from {address}"))?;
    ensure!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{address} returned {answer:?}");
    Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().trim().to_owned())
}
