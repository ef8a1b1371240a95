//! Plain HTTP on loopback with access to all headers. kubectl hides repeated warnings and the FlowSchema of a request.
//! So requests are sent through `kubectl proxy`, which has the certificates.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::ControlPlane;
use control_plane::guard::Guarded;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A proxy to the API server for the administrator; it ends when this value is dropped.
pub(crate) struct Proxy {
    port: u16,
    _process: Guarded,
}

impl Proxy {
    pub(crate) async fn start(plane: &ControlPlane, kubectl: &Path) -> anyhow::Result<Self> {
        let log = plane.layout().home.join("proxy.log");
        // The log is opened for appending, and the port of an earlier proxy must not be read.
        let _ = fs::remove_file(&log);
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_path().display());
        let process = Guarded::start(kubectl, &[kubeconfig, "proxy".to_owned(), "--port=0".to_owned()], &log)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let port = said.lines().find_map(|line| line.strip_prefix("Starting to serve on 127.0.0.1:"));
            if let Some(port) = port.and_then(|port| port.trim().parse().ok()) {
                return Ok(Self { port, _process: process });
            }
            ensure!(Instant::now() < deadline, "kubectl proxy did not start: {said}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        ask(self.port, "GET", path, &[], None).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, object: &Value) -> anyhow::Result<Answer> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        ask(self.port, method, path, &[("Content-Type", kind)], Some(object)).await
    }

    /// Applies a strategic merge patch, which merges lists such as conditions by their keys.
    pub(crate) async fn merge_by_keys(&self, path: &str, object: &Value) -> anyhow::Result<Answer> {
        let kind = ("Content-Type", "application/strategic-merge-patch+json");
        ask(self.port, "PATCH", path, &[kind], Some(object)).await
    }

    /// Sends a request as another user.
    pub(crate) async fn send_as(&self, user: &str, method: &str, path: &str, object: &Value) -> anyhow::Result<Answer> {
        let headers = [("Content-Type", "application/json"), ("Impersonate-User", user)];
        ask(self.port, method, path, &headers, Some(object)).await
    }

    /// Sends a GET request as another user.
    pub(crate) async fn get_as(&self, user: &str, path: &str) -> anyhow::Result<Answer> {
        ask(self.port, "GET", path, &[("Impersonate-User", user)], None).await
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    headers: Vec<(String, String)>,
}

impl Answer {
    pub(crate) fn is_well(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the texts of all warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case("warning"));
        all.filter_map(|(_, value)| warning(value)).collect()
    }

    /// Returns the message of a Status.
    pub(crate) fn message(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body.get("message").and_then(Value::as_str).unwrap_or(&self.body).to_owned()
    }
}

/// Parses `299 - "text"`, in which quotes and backslashes are escaped with a backslash.
fn warning(value: &str) -> Option<String> {
    let text = value.strip_prefix("299 - \"")?.strip_suffix('"')?;
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    Some(plain)
}

/// Sends one request on a new connection. HTTP 1.0 avoids chunked responses.
pub(crate) async fn ask(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    object: Option<&Value>,
) -> anyhow::Result<Answer> {
    let body = object.map(Value::to_string).unwrap_or_default();
    let headers: Vec<String> = headers.iter().map(|(key, value)| format!("{key}: {value}\r\n")).collect();
    let headers = headers.concat();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    let conversation = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let told = timeout(TIMEOUT, conversation).await.with_context(|| format!("no response to {method} {path}"))?;
    parse(&told.with_context(|| format!("failed to send {method} {path} to port {port}"))?)
        .with_context(|| format!("the response to {method} {path} is not HTTP"))
}

/// Parses a response.
pub(crate) fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Some(Answer { status, body: body.to_owned(), headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_parsed_with_its_warnings() {
        let text = "HTTP/1.0 201 Created\r\nWarning: 299 - \"Invalid value: \\\"x\\\"\"\r\nX-A: b\r\nWarning: 299 - \"two\"\r\n\r\n{\"message\": \"m\"}";
        let answer = parse(text).unwrap();
        assert!(answer.is_well());
        assert_eq!(answer.warnings(), ["Invalid value: \"x\"", "two"]);
        assert_eq!((answer.header("x-a"), answer.message().as_str()), (Some("b"), "m"));
        assert!(parse("nonsense").is_none());
    }
}
