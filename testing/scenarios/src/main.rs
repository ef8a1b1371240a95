//! Runs every scenario of a suite on the API server of a kubeconfig. `cargo xtask e2e` calls this program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use control_plane::{Binaries, Cache, Recipe};
use scenarios::{
    DRAIN_SCENARIOS, Environment, FLEET_SCENARIOS, Report, SCALE_SCENARIOS, SCENARIOS, STORM_SCENARIOS, Scenario,
    TAKEOVER_SCENARIOS, restore, run,
};

#[derive(Parser)]
#[command(name = "scenarios", about = "Runs every scenario of a suite on the API server of a kubeconfig")]
struct Arguments {
    /// Kubeconfig of the API server, which must have the CRDs of Millwright.
    #[arg(long, value_name = "FILE", required_unless_present = "restore")]
    kubeconfig: Option<PathBuf>,
    /// Run the scenario of an etcd restore on a control plane of its own, instead of the suite.
    #[arg(long, conflicts_with = "kubeconfig")]
    restore: bool,
    /// Suite to run.
    #[arg(long, value_enum, default_value = "machines")]
    suite: Suite,
    /// File for the results as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Only scenarios whose name contains this.
    #[arg(default_value = "")]
    only: String,
}

/// Scenarios that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Lifecycle of Machines.
    Machines,
    /// MachineSets and MachineDeployments.
    Fleet,
    /// Node drains, with controllers that bind, replace and count pods.
    Drain,
    /// Hundreds of drains at the same time.
    DrainStorm,
    /// Takeover of a cluster that the reference managed.
    Takeover,
    /// A thousand Machines.
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
            Self::Drain | Self::DrainStorm => environment.with_kube_controllers(),
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let report = runtime.block_on(async {
        match &arguments.kubeconfig {
            Some(kubeconfig) => Box::pin(scenarios(arguments.suite, kubeconfig, &arguments.only)).await,
            None => Box::pin(restore_suite()).await,
        }
    })?;
    conclude(&arguments, &report)
}

#[allow(clippy::print_stdout, reason = "the report is printed for the user")]
async fn scenarios(suite: Suite, kubeconfig: &Path, only: &str) -> anyhow::Result<Report> {
    let environment = suite.on(Environment::real(kubeconfig)?);
    let mut results = Vec::new();
    for scenario in suite.scenarios().iter().filter(|scenario| scenario.name.contains(only)) {
        let result = run(scenario, &environment).await;
        println!("{result}");
        results.push(result);
    }
    Ok(Report::of(suite.name(), results))
}

#[allow(clippy::print_stdout, reason = "the report is printed for the user")]
async fn restore_suite() -> anyhow::Result<Report> {
    let binaries = Binaries::find(&Cache::of_this_user()?, &Recipe::of_this_repository()?)?;
    let results = Box::pin(restore(binaries, |plane| Environment::real(&plane.kubeconfig_path()))).await;
    for result in &results {
        println!("{result}");
    }
    Ok(Report::of("restore", results))
}

#[allow(clippy::print_stdout, reason = "the report is printed for the user")]
fn conclude(arguments: &Arguments, report: &Report) -> anyhow::Result<ExitCode> {
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(report).context("failed to write the report as JSON")?;
        std::fs::write(path, format!("{text}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    }
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
