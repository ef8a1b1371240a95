//! Compares the fake API server with kube-apiserver by kubectl commands.
//!
//! kubectl is the client that users have, and it uses more features than the controllers: discovery, OpenAPI, tables,
//! protobuf, every type of patch. A list of commands runs against both servers. Output and exit code must be equal,
//! except for values that differ in every run: ages, UIDs, versions, addresses.
//!
//! With `--in-memory` only exit codes are checked: each command must succeed or fail as listed for kube-apiserver.

mod normal;
mod ours;
mod script;

use std::process::{self, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::report::Report;
use super::tally::Tally;
use crate::workspace::root;
use normal::normal;
use ours::Ours;
use script::{Case, Ending, SCRIPT, Shown, Step};

/// Time for the output of a watch, before and after the change that it must show.
const WATCHED: Duration = Duration::from_millis(1500);

/// Timeout until kube-apiserver publishes the schemas of established CRDs.
const SCHEMA_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs the list on the fake API server alone.
pub(super) async fn in_memory(binaries: Binaries) -> anyhow::Result<Tally> {
    let ours = Ours::start(&binaries).await?;
    let mut report = Report::of("kubectl");
    for case in SCRIPT {
        let work = async {
            for step in case.steps {
                expected(step, &run(step, &|| ours.kubectl()).await?)?;
            }
            Ok(())
        };
        report.case(case.sentence, work).await;
    }
    report.conclude()
}

/// Runs the list on both servers and compares.
pub(super) async fn on_both(binaries: Binaries) -> anyhow::Result<Tally> {
    // Without the controllers, so that only the API servers are compared.
    let plane = ControlPlane::start(Options::new(binaries.clone()).api_server_only()).await?;
    let outcome = compare_all(&plane, &binaries).await;
    plane.stop().await?;
    outcome
}

async fn compare_all(plane: &ControlPlane, binaries: &Binaries) -> anyhow::Result<Tally> {
    let ours = Ours::start(binaries).await?;
    install_definitions(plane)?;
    until_explained(plane).await?;
    let mut report = Report::of("kubectl");
    for case in SCRIPT {
        report.case(case.sentence, compare(case, plane, &ours)).await;
    }
    report.conclude()
}

/// kube-apiserver serves a CRD shortly before its OpenAPI document contains it; `kubectl explain` fails in between.
async fn until_explained(plane: &ControlPlane) -> anyhow::Result<()> {
    let explained = async {
        for kind in ["machine", "machineset", "machinedeployment", "machineclass"] {
            loop {
                let mut kubectl = Command::from(plane.kubectl());
                kubectl.args(["explain", kind]).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
                if kubectl.status().await?.success() {
                    break;
                }
                sleep(Duration::from_millis(200)).await;
            }
        }
        anyhow::Ok(())
    };
    timeout(SCHEMA_TIMEOUT, explained).await.context("the API server did not publish the schemas of the CRDs")?
}

/// Runs all steps of a case on both servers in parallel, even after a difference, because later cases depend on their
/// objects.
async fn compare(case: &Case, plane: &ControlPlane, ours: &Ours) -> anyhow::Result<()> {
    let mut differences = Vec::new();
    let (real, own) = (|| plane.kubectl(), || ours.kubectl());
    for step in case.steps {
        let (real, own) = tokio::try_join!(run(step, &real), run(step, &own))?;
        if let Err(error) = expected(step, &real) {
            differences.push(format!("the expected result for kube-apiserver is wrong: {error:#}"));
        }
        let same = match step.shown {
            Shown::Everything => real == own,
            Shown::Ending => real.ending == own.ending,
        };
        if !same {
            differences.push(format!(
                "{}\n--- kube-apiserver\n{}\n--- fake API server\n{}",
                step.command,
                real.told(),
                own.told()
            ));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

fn expected(step: &Step, said: &Said) -> anyhow::Result<()> {
    ensure!(said.ending == step.ending, "{}\n{}", step.command, said.told());
    Ok(())
}

/// Exit status and normalized output of a command.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    ending: Ending,
    printed: String,
    complained: String,
}

impl Said {
    fn told(&self) -> String {
        format!("{:?}\n{}\n{}", self.ending, self.printed, self.complained)
    }
}

async fn run(step: &Step, kubectl: &dyn Fn() -> process::Command) -> anyhow::Result<Said> {
    // A process must not continue after its future was dropped.
    let mut watching = Command::from(kubectl());
    watching.kill_on_drop(true);
    watching.args(arguments(step.command)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = match step.meanwhile {
        None => watching.output().await.context("failed to start kubectl")?,
        Some(change) => {
            let mut child = watching.spawn().context("failed to start kubectl")?;
            sleep(WATCHED).await;
            let changed = Command::from(kubectl()).args(arguments(change)).output().await;
            let changed = changed.context("failed to start kubectl")?;
            ensure!(changed.status.success(), "{change}: {}", String::from_utf8_lossy(&changed.stderr));
            sleep(WATCHED).await;
            child.start_kill().context("failed to stop a watch")?;
            child.wait_with_output().await.context("failed to wait for kubectl")?
        }
    };
    let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes));
    // A watch is killed, so its exit status has no meaning.
    let ending = if output.status.success() || step.meanwhile.is_some() { Ending::Well } else { Ending::Badly };
    Ok(Said { ending, printed: text(&output.stdout), complained: text(&output.stderr) })
}

/// Parses a command of the list: words separated by blanks, `@name` for a manifest.
fn arguments(command: &str) -> Vec<String> {
    let manifests = root().join("testing/e2e/src/suites/kubectl/manifests");
    let word = |word: &str| match word.strip_prefix('@') {
        Some(name) => manifests.join(format!("{name}.yaml")).to_string_lossy().into_owned(),
        None => word.to_owned(),
    };
    command.split_whitespace().map(word).collect()
}

fn install_definitions(plane: &ControlPlane) -> anyhow::Result<()> {
    let output = plane.kubectl().args(["apply", "--filename"]).arg(root().join("deploy/crds")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    let output = plane.kubectl().args(wait).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the kubectl of the kube-apiserver's version.
fn kubectl(binaries: &Binaries) -> process::Command {
    process::Command::new(binaries.path(Program::Kubectl))
}
