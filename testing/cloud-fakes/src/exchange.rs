//! One plain HTTP request on loopback, nothing kept open.
//!
//! By hand and not with an HTTP library, because `xtask` links this crate and is to stay small.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// moto answers its first EC2 call after seconds, on a busy machine after more.
const PATIENCE: Duration = Duration::from_mins(1);
/// What AWS' query protocol is sent as.
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a form, as AWS' query protocol does, to the server on this port of the loopback address. The headers are added to those that
/// every request needs.
pub async fn post(port: u16, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Answer> {
    send(port, "POST", path, FORM, headers, body).await
}

/// Sends a text that is no form to the server on this port of the loopback address.
pub async fn post_text(port: u16, path: &str, body: &str) -> io::Result<Answer> {
    send(port, "POST", path, "text/plain", &[], body).await
}

/// Asks the server on this port of the loopback address.
pub async fn get(port: u16, path: &str) -> io::Result<Answer> {
    send(port, "GET", path, FORM, &[], "").await
}

/// The pairs as a form.
#[must_use]
pub fn form(pairs: &[(&str, &str)]) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let pair = |(key, value): &(&str, &str)| {
        format!("{}={}", utf8_percent_encode(key, KEPT), utf8_percent_encode(value, KEPT))
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

async fn send(
    port: u16,
    verb: &str,
    path: &str,
    kind: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{address} did not answer in time"));
    let bytes =
        tokio::time::timeout(PATIENCE, exchange(address, verb, path, kind, headers, body)).await.map_err(late)??;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{address}: not HTTP")))?;
    Ok(Answer { status, body: body.to_owned() })
}

async fn exchange(
    address: SocketAddr,
    verb: &str,
    path: &str,
    kind: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let more: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let more = more.concat();
    // HTTP/1.0, so that no answer comes in chunks.
    let head = format!(
        "{verb} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: {kind}\r\n\
         {more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_keeps_what_needs_no_escape() {
        assert_eq!(
            form(&[("Filter.1.Name", "tag:Name"), ("X", "a b&c=~")]),
            "Filter.1.Name=tag%3AName&X=a%20b%26c%3D~"
        );
    }
}
