//! Every scenario on the API server of a kubeconfig; `cargo xtask e2e machines` calls this.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use millwright_scenarios::{Ground, Pace, SCENARIOS, Verdict, play};
use runtime::client::{ClientSpec, Connection, Source, UserAgent};
use runtime::{Clock, Metrics, Random};
use serde_json::json;

#[derive(Parser)]
#[command(name = "scenarios", about = "Plays every scenario on the API server of a kubeconfig")]
struct Arguments {
    /// Whose API server; it must serve our kinds.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where to write the verdicts as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Only scenarios whose name contains this.
    #[arg(default_value = "")]
    only: String,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let verdicts = runtime.block_on(all(&arguments))?;
    conclude(&arguments, &verdicts)
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
async fn all(arguments: &Arguments) -> anyhow::Result<Vec<Verdict>> {
    let source = Source::Kubeconfig { path: arguments.kubeconfig.clone(), flag: "--kubeconfig".to_owned() };
    let connection = Connection::load(&source)?;
    let metrics = Metrics::new().context("failed to set up metrics")?;
    let ground = Ground::new(Clock::system(), Random::from_entropy(), Pace::brisk(), move |agent| {
        connection.client(&ClientSpec::new(UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "e2e")), &metrics.rest)
    });
    let mut verdicts = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&arguments.only)) {
        let verdict = play(scenario, &ground).await;
        match &verdict.broken {
            None => println!("ok      {}", verdict.name),
            Some(why) => println!("FAILED  {}: {why}", verdict.name),
        }
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
fn conclude(arguments: &Arguments, verdicts: &[Verdict]) -> anyhow::Result<ExitCode> {
    let failed = verdicts.iter().filter(|verdict| verdict.broken.is_some()).count();
    let passed = verdicts.len() - failed;
    if let Some(path) = &arguments.report {
        let cases: Vec<_> =
            verdicts.iter().map(|verdict| json!({ "case": verdict.name, "failure": verdict.broken })).collect();
        let report = json!({ "suite": "machines", "passed": passed, "failed": failed, "skipped": 0, "cases": cases });
        std::fs::write(path, format!("{report:#}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(if failed == 0 && !verdicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
