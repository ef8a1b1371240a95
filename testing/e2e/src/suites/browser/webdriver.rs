//! A headless browser, controlled with the WebDriver protocol (W3C) of Debian's chromium.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::test_bed::{Process, free_port};

/// Long, because nothing here measures speed: a thousand machines may take seconds.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Key that marks element references in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys without a letter, as encoded by the protocol.
pub(super) mod keys {
    pub(in super::super) const ENTER: &str = "\u{e007}";
    pub(in super::super) const ESCAPE: &str = "\u{e00c}";
    pub(in super::super) const RIGHT: &str = "\u{e014}";
}

/// A browser with one page. It ends when this value is dropped.
pub(super) struct Browser {
    port: u16,
    session: String,
    _driver: Process,
}

impl Browser {
    /// Starts the browser.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new("chromedriver")
            .args([format!("--port={port}"), "--log-level=OFF".to_owned()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start chromedriver. Install it (Debian: chromium and chromium-driver)")?;
        let driver = Process::watched(child)?;
        let begin = Instant::now();
        while !ask(port, "GET", "/status", None).await.is_ok_and(|(status, _)| status == 200) {
            ensure!(begin.elapsed() < TIMEOUT, "chromedriver does not respond");
            sleep(Duration::from_millis(100)).await;
        }
        // Without a sandbox, because the suite may run as root, and only the local page is opened.
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,860",
            "--hide-scrollbars",
        ]);
        let wanted = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let mut browser = Self { port, session: String::new(), _driver: driver };
        let made = browser.command("", &json!({ "capabilities": { "alwaysMatch": wanted } })).await?;
        let id = made.get("sessionId").and_then(Value::as_str).context("the session has no id")?;
        browser.session = format!("/{id}");
        Ok(browser)
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let path = format!("/session{}{path}", self.session);
        let (status, told) = ask(self.port, method, &path, body).await?;
        let value = told.get("value").cloned().unwrap_or_default();
        ensure!(status == 200, "{method} {path}: {value}");
        Ok(value)
    }

    async fn command(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("POST", path, Some(body)).await
    }

    pub(super) async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.command("/url", &json!({ "url": url })).await.map(drop)
    }

    /// Runs a function body in the page and returns its result.
    pub(super) async fn run(&self, script: &str) -> anyhow::Result<Value> {
        self.command("/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// Waits until an expression in the page is true.
    pub(super) async fn until(&self, expression: &str) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.run(&format!("return Boolean({expression})")).await? != json!(true) {
            if begin.elapsed() >= TIMEOUT {
                let shown = self.run("return document.body.innerText.slice(0, 400)").await?;
                bail!("timed out waiting for {expression}; the page shows {shown}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Sends a key to the focused element.
    pub(super) async fn press(&self, key: &str) -> anyhow::Result<()> {
        let focused = self.send("GET", "/element/active", None).await?;
        let id = focused.get(ELEMENT).and_then(Value::as_str).context("no element has the focus")?;
        self.command(&format!("/element/{id}/value"), &json!({ "text": key })).await.map(drop)
    }

    /// Returns the accessible name of each matching element.
    pub(super) async fn labels(&self, selector: &str) -> anyhow::Result<Vec<String>> {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.command("/elements", &wanted).await?;
        let mut labels = Vec::new();
        for element in found.as_array().into_iter().flatten() {
            let id = element.get(ELEMENT).and_then(Value::as_str).context("an element has no id")?;
            let label = self.send("GET", &format!("/element/{id}/computedlabel"), None).await?;
            labels.push(label.as_str().unwrap_or_default().to_owned());
        }
        Ok(labels)
    }

    /// Takes a screenshot.
    pub(super) async fn picture(&self, path: &Path) -> anyhow::Result<()> {
        let taken = self.send("GET", "/screenshot", None).await?;
        let bytes = STANDARD.decode(taken.as_str().unwrap_or_default()).context("the screenshot is not base64")?;
        fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))
    }

    /// Returns the CPU time of the page's thread during this period.
    pub(super) async fn busy_for(&self, stretch: Duration) -> anyhow::Result<Duration> {
        self.debug("Performance.enable", &json!({ "timeDomain": "threadTicks" })).await?;
        let before = self.worked().await?;
        sleep(stretch).await;
        Ok(Duration::from_secs_f64((self.worked().await? - before).max(0.0)))
    }

    /// Returns the CPU time of the page's thread in seconds.
    async fn worked(&self) -> anyhow::Result<f64> {
        let told = self.debug("Performance.getMetrics", &json!({})).await?;
        let mut all = told.get("metrics").and_then(Value::as_array).into_iter().flatten();
        let worked = all.find(|metric| metric.get("name").is_some_and(|name| name == "TaskDuration"));
        worked.and_then(|metric| metric.get("value")?.as_f64()).context("chromium does not report TaskDuration")
    }

    /// Sends a command of the Chrome DevTools protocol.
    async fn debug(&self, command: &str, parameters: &Value) -> anyhow::Result<Value> {
        self.command("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).await
    }

    /// Returns the new messages in the console of the page.
    pub(super) async fn complaints(&self) -> anyhow::Result<Vec<String>> {
        let log = self.command("/se/log", &json!({ "type": "browser" })).await?;
        Ok(log.as_array().into_iter().flatten().map(Value::to_string).collect())
    }

    /// Closes the browser.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.send("DELETE", "", None).await.map(drop)
    }
}

/// Sends one request. `web::ask` cannot be used: this server requires HTTP 1.1 and keeps the connection open.
async fn ask(port: u16, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<(u16, Value)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let conversation = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        loop {
            if let Some(whole) = parsed(&answer) {
                return Ok(whole);
            }
            ensure!(stream.read_buf(&mut answer).await? > 0, "the response to {method} {path} is incomplete");
        }
    };
    timeout(TIMEOUT, conversation).await.with_context(|| format!("no response to {method} {path}"))?
}

/// Returns status and body of a complete response.
fn parsed(answer: &[u8]) -> Option<(u16, Value)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let is_length = |line: &&str| line.to_ascii_lowercase().starts_with("content-length:");
    let length: usize = head.lines().find(is_length)?.split(':').nth(1)?.trim().parse().ok()?;
    (body.len() >= length).then(|| (status, serde_json::from_str(body).unwrap_or_default()))
}
