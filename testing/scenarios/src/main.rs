//! Every scenario of a suite on the API server of a kubeconfig; `cargo xtask e2e` calls this.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use control_plane::{Binaries, Cache, Recipe};
use scenarios::{
    DRAIN_SCENARIOS, Environment, FLEET_SCENARIOS, Report, SCALE_SCENARIOS, SCENARIOS, STORM_SCENARIOS, Scenario,
    TAKEOVER_SCENARIOS, play, restore,
};

#[derive(Parser)]
#[command(name = "scenarios", about = "Plays every scenario on the API server of a kubeconfig")]
struct Arguments {
    /// Whose API server; it must serve our kinds.
    #[arg(long, value_name = "FILE", required_unless_present = "restore")]
    kubeconfig: Option<PathBuf>,
    /// Instead of the scenarios, tell the scenario of an etcd that is put back to an older copy, on a control plane of its own.
    #[arg(long, conflicts_with = "kubeconfig")]
    restore: bool,
    /// Which scenarios.
    #[arg(long, value_enum, default_value = "machines")]
    suite: Suite,
    /// Where to write the results as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Only scenarios whose name contains this.
    #[arg(default_value = "")]
    only: String,
}

/// Scenarios that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The life of machines.
    Machines,
    /// Sets and deployments of machines.
    Fleet,
    /// How nodes are emptied; with somebody who binds, replaces and counts pods.
    Drain,
    /// Hundreds of nodes emptied at once.
    DrainStorm,
    /// What the reference left, carried on.
    Takeover,
    /// A thousand machines at once.
    Scale,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Fleet => "fleet",
            Self::Drain => "drain",
            Self::DrainStorm => "drain-storm",
            Self::Takeover => "takeover",
            Self::Scale => "scale",
        }
    }

    fn scenarios(self) -> &'static [Scenario] {
        match self {
            Self::Machines => SCENARIOS,
            Self::Fleet => FLEET_SCENARIOS,
            Self::Drain => DRAIN_SCENARIOS,
            Self::DrainStorm => STORM_SCENARIOS,
            Self::Takeover => TAKEOVER_SCENARIOS,
            Self::Scale => SCALE_SCENARIOS,
        }
    }

    fn on(self, environment: Environment) -> Environment {
        match self {
            Self::Machines | Self::Fleet | Self::Takeover | Self::Scale => environment,
            Self::Drain | Self::DrainStorm => environment.peopled(),
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let report = runtime.block_on(async {
        match &arguments.kubeconfig {
            Some(kubeconfig) => Box::pin(scenarios(arguments.suite, kubeconfig, &arguments.only)).await,
            None => Box::pin(disaster()).await,
        }
    })?;
    conclude(&arguments, &report)
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
async fn scenarios(suite: Suite, kubeconfig: &Path, only: &str) -> anyhow::Result<Report> {
    let environment = suite.on(Environment::real(kubeconfig)?);
    let mut results = Vec::new();
    for scenario in suite.scenarios().iter().filter(|scenario| scenario.name.contains(only)) {
        let result = play(scenario, &environment).await;
        println!("{result}");
        results.push(result);
    }
    Ok(Report::of(suite.name(), results))
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
async fn disaster() -> anyhow::Result<Report> {
    let binaries = Binaries::find(&Cache::of_this_user()?, &Recipe::of_this_repository()?)?;
    let results = Box::pin(restore(binaries, |plane| Environment::real(&plane.kubeconfig_path()))).await;
    for result in &results {
        println!("{result}");
    }
    Ok(Report::of("restore", results))
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
fn conclude(arguments: &Arguments, report: &Report) -> anyhow::Result<ExitCode> {
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(report).context("failed to write the report as JSON")?;
        std::fs::write(path, format!("{text}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    }
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
