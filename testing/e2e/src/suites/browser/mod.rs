//! The web view in a real browser: `millwright dev`, and Debian's chromium.
//!
//! Screenshots are written to `target/e2e/browser`; `docs/img` contains screenshots of such a run. If chromium or its
//! driver is not installed, the suite is skipped with a reason.

mod webdriver;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::{Binaries, Program};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::report::Report;
use crate::test_bed::{Process, free_port};
use crate::workspace::{cargo, root};
use webdriver::{Browser, keys};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Period of the measurement of the page's load.
const MEASURED: Duration = Duration::from_secs(3);

/// Runs the suite.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    let mut report = Report::of("browser");
    let browser = match Browser::start().await {
        Ok(browser) => browser,
        Err(error) => {
            report.skip("the web view in chromium", &format!("failed to start chromium: {error:#}"));
            return Ok(report);
        }
    };
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let stage = Stage::set(&binaries.path(Program::Kubectl)).await?;
    play(&stage, &browser, &mut report).await;
    report.case("the page logs no errors", no_complaint(&browser)).await;
    let Stage { dev, .. } = stage;
    dev.kill()?;
    report
        .case("the page reports a lost connection", browser.until("document.querySelector('.connection.lost')"))
        .await;
    browser.close().await?;
    Ok(report)
}

async fn play(stage: &Stage, browser: &Browser, report: &mut Report) {
    report.case("a new pool is displayed cell by cell", comes_up(stage, browser)).await;
    report.case("a rollout is displayed with its drains and calls", rolls(stage, browser)).await;
    report.case("a click opens an explanation", explains(stage, browser)).await;
    report.case("the page can be used with the keyboard alone", keyboard(browser)).await;
    report.case("all elements have labels for screen readers", screen_reader(browser)).await;
    report.case("a thousand machines are displayed without delay", a_thousand(stage, browser)).await;
}

/// `millwright dev`, and a kubectl for it.
struct Stage {
    dev: Process,
    url: String,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    pictures: PathBuf,
    _folder: TempDir,
}

impl Stage {
    async fn set(kubectl: &Path) -> anyhow::Result<Self> {
        let folder = TempDir::new().context("failed to create a folder")?;
        let (kubeconfig, log) = (folder.path().join("kubeconfig"), folder.path().join("dev.log"));
        let port = free_port()?;
        let mut command = Command::new(root().join("target/debug/millwright"));
        command.args(["dev", &format!("--ui-port={port}")]).arg("--kubeconfig").arg(&kubeconfig);
        let printed = File::create(&log).context("failed to create a log")?;
        let dev = Process::watched(command.stdout(printed).spawn().context("failed to start millwright dev")?)?;
        let pictures = root().join("target/e2e/browser");
        fs::create_dir_all(&pictures).context("failed to create a folder for screenshots")?;
        let url = format!("http://127.0.0.1:{port}/");
        let begin = Instant::now();
        while !fs::read_to_string(&log).unwrap_or_default().contains(&url) {
            ensure!(begin.elapsed() < TIMEOUT, "millwright dev did not start");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Self { dev, url, kubectl: kubectl.to_owned(), kubeconfig, pictures, _folder: folder })
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(&self.kubectl);
        let ended = command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).output();
        let ended = ended.context("failed to start kubectl")?;
        ensure!(ended.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        Ok(())
    }

    fn patch_pool(&self, patch: &Value) -> anyhow::Result<()> {
        self.kubectl(&["patch", "machinedeployment", "pool", "--type=merge", "--patch", &patch.to_string()])
    }

    fn apply(&self, name: &str, objects: &Value) -> anyhow::Result<()> {
        let path = self.kubeconfig.with_file_name(name);
        fs::write(&path, objects.to_string()).context("failed to write objects")?;
        self.kubectl(&["create", "--validate=false", "--filename", &path.to_string_lossy()])
    }

    async fn picture(&self, browser: &Browser, name: &str) -> anyhow::Result<()> {
        browser.picture(&self.pictures.join(format!("{name}.png"))).await
    }
}

async fn comes_up(stage: &Stage, browser: &Browser) -> anyhow::Result<()> {
    browser.open(&stage.url).await?;
    browser.until("document.querySelector('.connection.live')").await?;
    browser.until(&format!("{} === 3", running("new"))).await?;
    stage.patch_pool(&json!({ "spec": { "replicas": 12 } }))?;
    browser.until(&format!("{} === 12", running("new"))).await?;
    // Pods on the Nodes, and a PodDisruptionBudget that allows two disruptions.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "shop" },
        "spec": { "maxUnavailable": 2, "selector": { "matchLabels": { "app": "shop" } } },
    });
    let pods = json!({ "terminationGracePeriodSeconds": 3, "containers": [{ "name": "web", "image": "web:1" }] });
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" },
        "spec": {
            "replicas": 36, "selector": { "matchLabels": { "app": "shop" } },
            "template": { "metadata": { "labels": { "app": "shop" } }, "spec": pods },
        },
    });
    stage.apply("shop.json", &json!({ "apiVersion": "v1", "kind": "List", "items": [budget, workload] }))?;
    stage.kubectl(&["rollout", "status", "deployment/shop", "--timeout=30s"])
}

async fn rolls(stage: &Stage, browser: &Browser) -> anyhow::Result<()> {
    let strategy = json!({ "rollingUpdate": { "maxSurge": 3 } });
    let template = json!({ "spec": { "class": { "name": "large" } } });
    stage.patch_pool(&json!({ "spec": { "strategy": strategy, "template": template } }))?;
    browser.until("document.querySelector('.bar .old') && !document.querySelector('.rollout').hidden").await?;
    browser.until(&format!("{} >= 3 && {} >= 3", running("new"), running("old"))).await?;
    browser.until("document.querySelectorAll('.cells .cell.going.old').length >= 2").await?;
    browser.until("document.querySelector('#drains .pods')").await?;
    stage.picture(browser, "web-view-rollout").await?;
    browser.until("document.querySelector('#calls code')").await?;
    browser.until("document.querySelector('#timeline .why')").await
}

async fn explains(stage: &Stage, browser: &Browser) -> anyhow::Result<()> {
    browser.until("document.querySelector('#drains .link')").await?;
    browser.run("document.querySelector('#drains .link').click()").await?;
    browser.until("document.querySelector('#explanation:not([hidden]) dl dt')").await?;
    stage.picture(browser, "web-view-explain").await?;
    browser.run("document.getElementById('close').click()").await?;
    browser.until("document.getElementById('explanation').hidden").await
}

async fn keyboard(browser: &Browser) -> anyhow::Result<()> {
    browser.until(&format!("{} === 12 && document.querySelector('.rollout').hidden", running("new"))).await?;
    let stops = browser.run("return document.querySelectorAll('.cells .cell[tabindex=\"0\"]').length").await?;
    ensure!(stops == json!(1), "{stops} cells are tab stops instead of one");
    browser.run("document.querySelector('.cells .cell[tabindex=\"0\"]').focus()").await?;
    let focused = "return document.activeElement.dataset.machine ?? document.activeElement.id";
    let first = browser.run(focused).await?;
    browser.press(keys::RIGHT).await?;
    let second = browser.run(focused).await?;
    ensure!(first != second && second.is_string(), "the arrow key moved the focus from {first} to {second}");
    browser.press(keys::ENTER).await?;
    browser.until("document.activeElement.id === 'explained'").await?;
    browser.press(keys::ESCAPE).await?;
    let back = browser.run(focused).await?;
    ensure!(back == second, "the focus was on {second} and returned to {back}");
    Ok(())
}

async fn screen_reader(browser: &Browser) -> anyhow::Result<()> {
    let cells = browser.labels(".cells .cell").await?;
    let whole = |label: &String| label.contains(", Running, current template, node ");
    ensure!(cells.len() == 12 && cells.iter().all(whole), "{cells:?}");
    let shown = "button:not([hidden] *):not(.timeline *), input:not([hidden] *)";
    let buttons = browser.labels(shown).await?;
    ensure!(buttons.iter().all(|label| !label.is_empty()), "buttons without labels: {buttons:?}");
    browser.until("document.getElementById('announcement').textContent.includes('12 of 12 running')").await?;
    browser.until("document.documentElement.lang === 'en' && document.querySelector('main h2')").await
}

async fn a_thousand(stage: &Stage, browser: &Browser) -> anyhow::Result<()> {
    stage.kubectl(&["scale", "machinedeployment", "pool", "--replicas=1000"])?;
    browser.until("document.querySelectorAll('.cells .cell').length === 1000").await?;
    stage.picture(browser, "web-view-thousand").await?;
    // The page must stay responsive while machines are created. The CPU time of its thread is measured, because the
    // elapsed time depends on the load of this host.
    let busy = browser.busy_for(MEASURED).await?;
    ensure!(busy < MEASURED / 2, "the page was busy for {busy:?} of {MEASURED:?}");
    Ok(())
}

async fn no_complaint(browser: &Browser) -> anyhow::Result<()> {
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    Ok(())
}

/// Returns an expression for the number of running machines with this template.
fn running(side: &str) -> String {
    format!(
        "[...document.querySelectorAll('.cells .cell.{side}')].filter((cell) => cell.textContent[0] === 'R').length"
    )
}
