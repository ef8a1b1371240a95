//! The web view outside of loopback, with tokens that kube-apiserver issues and reviews: who has access, and how access
//! is revoked.
//!
//! The process that serves it is a standby with the roles in `deploy/rbac`; additional permissions come from
//! `deploy/web-view`.

mod https;

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::authority::Authority;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::super::report::Report;
use super::{Operator, TIMEOUT};
use crate::test_bed::{Process, free_port};
use crate::web::Answer;
use crate::workspace::root;
use https::{Events, Https};

const NAME: &str = "web-view";
const READER: &str = "millwright:web-view-reader";
const EXPLAIN: &str = "/explain?kind=machinedeployment&name=pool";
/// Lifetime of a cached access review, with a margin.
const REVIEW_TTL: Duration = Duration::from_secs(60 + 20);

/// A running web view and its clients.
pub(super) struct WebView {
    process: Process,
    port: u16,
    client: Https,
    tokens: Tokens,
    /// Event streams of a user whose access is revoked, and of a user who keeps it.
    listening: Option<(Events, Events)>,
}

/// Tokens of service accounts.
struct Tokens {
    reader: String,
    revoked: String,
    stranger: String,
    for_others: String,
}

/// Runs the first half. Access reviews are cached for a minute, so the second half runs after other cases.
pub(super) async fn begin(operator: &Operator<'_>, report: &mut Report) -> Option<WebView> {
    report.case("outside of loopback the web view requires a certificate", async { in_the_open(operator) }).await;
    let without = "without permission to review tokens, access is denied";
    let mut view = report.case(without, without_rights(operator)).await?;
    let shown = "users with access see the page, events and explanations";
    report.case(shown, view.is_shown(operator)).await;
    report.case("requests without a valid token or permission are rejected", view.refuses()).await;
    report.case("clients without TLS or the CA get no response", view.needs_trust()).await;
    report.case("access of a connected user is revoked", view.revoke(operator)).await;
    Some(view)
}

/// Runs the second half.
pub(super) async fn end(view: Option<WebView>, operator: &Operator<'_>, report: &mut Report) {
    let Some(mut view) = view else { return };
    report.case("revoked access ends the event stream within a minute", view.is_revoked()).await;
    report.case("the web view logs no token and stops on SIGTERM", async { view.ends(operator) }).await;
}

fn in_the_open(operator: &Operator<'_>) -> anyhow::Result<()> {
    let output = operator.run(&["run", "--provider=virtual", "--ui", "--ui-address=0.0.0.0:10260"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "the command exited with {}: {said}", output.status);
    ensure!(said.contains("is not a loopback address. Set --ui-tls-cert-file"), "{said}");
    Ok(())
}

async fn without_rights(operator: &Operator<'_>) -> anyhow::Result<WebView> {
    let bed = operator.test_bed;
    apply_here(operator, "deploy/rbac/one-process")?;
    for account in ["millwright", "reader", "revoked", "stranger"] {
        bed.kubectl(&["create", "serviceaccount", account])?;
    }
    let token = |arguments: &[&str]| -> anyhow::Result<String> {
        Ok(bed.kubectl(&[&["create", "token"], arguments].concat())?.trim().to_owned())
    };
    let tokens = Tokens {
        reader: token(&["reader"])?,
        revoked: token(&["revoked"])?,
        stranger: token(&["stranger"])?,
        for_others: token(&["reader", "--audience=elsewhere"])?,
    };
    let kubeconfig = bed.file("web-view.kubeconfig");
    fs::write(&kubeconfig, with_token(bed.kubeconfig().text(), &token(&["millwright"])?))?;

    let (authority, port) = (Authority::new("web view")?, free_port()?);
    let identity = authority.server(NAME)?;
    let files = [bed.file("web-view.crt"), bed.file("web-view.key")];
    fs::write(&files[0], &identity.certificate)?;
    fs::write(&files[1], &identity.key)?;
    let flags = [
        "--ui".to_owned(),
        format!("--ui-address=0.0.0.0:{port}"),
        format!("--ui-tls-cert-file={}", files[0].display()),
        format!("--ui-tls-private-key-file={}", files[1].display()),
        format!("--port={}", free_port()?),
        format!("--manager-port={}", free_port()?),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let process = bed.start_component(NAME, "run", &kubeconfig, Some("cloud"), &flags)?;
    let view = WebView { process, port, client: Https::trusting(&authority, port)?, tokens, listening: None };
    view.until("/", None, 200).await?;
    view.until("/events", Some(&view.tokens.reader), 503).await?;
    let said = bed.said(NAME)?;
    ensure!(said.contains("failed to review access to the web view"), "{said}");
    Ok(view)
}

impl WebView {
    /// Waits for a response with this status: a role is effective after a delay.
    async fn until(&self, path: &str, token: Option<&str>, status: u16) -> anyhow::Result<Answer> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match self.client.get(path, token).await {
                Ok(answer) if answer.status == status => return Ok(answer),
                other => {
                    ensure!(Instant::now() < end, "{path} did not return {status}, but {other:?}");
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn is_shown(&self, operator: &Operator<'_>) -> anyhow::Result<()> {
        apply_here(operator, "deploy/web-view")?;
        for account in ["reader", "revoked"] {
            let (role, who) = (format!("--clusterrole={READER}"), format!("--serviceaccount=default:{account}"));
            operator.test_bed.kubectl(&["create", "clusterrolebinding", &format!("ui-{account}"), &role, &who])?;
        }
        // Waits until the role is effective, because a rejection would be cached for a minute.
        for account in ["reader", "revoked"] {
            let who = format!("--as=system:serviceaccount:default:{account}");
            until_allowed(operator, &["get", "/ui", &who]).await?;
        }
        let answer = self.until(EXPLAIN, Some(&self.tokens.reader), 200).await?;
        let told: Value = serde_json::from_str(&answer.body).context("the explanation is not JSON")?;
        ensure!(told.pointer("/verdict/standing").is_some(), "{told}");
        let page = self.client.get("/", Some(&self.tokens.reader)).await?;
        ensure!(page.status == 200 && page.body.contains("<title>Millwright</title>"), "{page:?}");
        self.client.events(&self.tokens.reader).await.map(drop)
    }

    async fn refuses(&self) -> anyhow::Result<()> {
        let foreign = foreign(&self.tokens.reader)?;
        for path in ["/events", EXPLAIN] {
            for (kind, token, status) in [
                ("no token", None, 401),
                ("an invalid token", Some(foreign.as_str()), 401),
                ("a token for another audience", Some(&self.tokens.for_others), 401),
                ("a token without permission", Some(&self.tokens.stranger), 403),
            ] {
                let answer = self.client.get(path, token).await?;
                ensure!(answer.status == status, "{path} with {kind} returned {answer:?}");
                let bearer = answer.header("www-authenticate") == Some("Bearer");
                ensure!(bearer == (status == 401), "{path} with {kind} returned {answer:?}");
                ensure!(!answer.body.contains("machine"), "{path} with {kind} returned data: {answer:?}");
            }
        }
        Ok(())
    }

    async fn needs_trust(&self) -> anyhow::Result<()> {
        let others = Https::trusting(&Authority::new("others")?, self.port)?;
        let answer = others.get("/", Some(&self.tokens.reader)).await;
        let complaint = answer.err().context("the client received the page")?;
        ensure!(format!("{complaint:#}").contains("invalid peer certificate"), "{complaint:#}");
        let mut open = TcpStream::connect(("127.0.0.1", self.port)).await?;
        open.write_all(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
        let mut answer = Vec::new();
        timeout(TIMEOUT, open.read_to_end(&mut answer)).await.context("a request without TLS does not end")??;
        ensure!(
            !answer.starts_with(b"HTTP"),
            "the web view responded without TLS: {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(())
    }

    async fn revoke(&mut self, operator: &Operator<'_>) -> anyhow::Result<()> {
        let (loses, keeps) =
            (self.client.events(&self.tokens.revoked).await?, self.client.events(&self.tokens.reader).await?);
        self.listening = Some((loses, keeps));
        operator.test_bed.kubectl(&["delete", "clusterrolebinding", "ui-revoked"]).map(drop)
    }

    async fn is_revoked(&mut self) -> anyhow::Result<()> {
        let (mut loses, mut keeps) = self.listening.take().context("no client is connected")?;
        ensure!(loses.end_within(REVIEW_TTL).await?, "the event stream does not end");
        ensure!(!keeps.end_within(Duration::from_secs(2)).await?, "the event stream of a user with access ended");
        for path in ["/events", EXPLAIN] {
            let answer = self.client.get(path, Some(&self.tokens.revoked)).await?;
            ensure!(answer.status == 403, "{path} returned {answer:?}");
        }
        Ok(())
    }

    fn ends(self, operator: &Operator<'_>) -> anyhow::Result<()> {
        self.process.terminate()?;
        let said = operator.test_bed.said(NAME)?;
        let Tokens { reader, revoked, stranger, for_others } = &self.tokens;
        let told = [reader, revoked, stranger, for_others].into_iter().any(|token| said.contains(token.as_str()));
        ensure!(!told, "a token is in the log");
        Ok(())
    }
}

/// Applies the output of kustomize for a folder, with all objects in the namespace of the pool.
fn apply_here(operator: &Operator<'_>, folder: &str) -> anyhow::Result<()> {
    let bed = operator.test_bed;
    let made = bed.kubectl(&["kustomize", &root().join(folder).to_string_lossy()])?;
    let path = bed.file(&format!("{}.yaml", folder.replace('/', "-")));
    fs::write(&path, made.replace("millwright-system", "default"))?;
    bed.kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", &path.to_string_lossy()]).map(drop)
}

async fn until_allowed(operator: &Operator<'_>, wanted: &[&str]) -> anyhow::Result<()> {
    let end = Instant::now() + TIMEOUT;
    // `kubectl auth can-i` fails if the answer is no.
    while operator.test_bed.kubectl(&[&["auth", "can-i"], wanted].concat()).is_err() {
        ensure!(Instant::now() < end, "{wanted:?} was not allowed in time");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Returns the kubeconfig with a token instead of a client certificate.
fn with_token(kubeconfig: &str, token: &str) -> String {
    let certificate = |line: &&str| line.trim_start().starts_with("client-certificate-data:");
    let key = |line: &&str| line.trim_start().starts_with("client-key-data:");
    let lines = kubeconfig.lines().filter(|line| !key(line));
    let line = |line| if certificate(&line) { format!("    token: {token}\n") } else { format!("{line}\n") };
    lines.map(line).collect()
}

/// Returns the token with the same claims and an invalid signature.
fn foreign(token: &str) -> anyhow::Result<String> {
    let (claims, signature) = token.rsplit_once('.').context("the token does not have three parts")?;
    Ok(format!("{claims}.{}", signature.chars().rev().collect::<String>()))
}
