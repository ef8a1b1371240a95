//! `cargo xtask conformance`: holds API servers to what Kubernetes API servers do.

use anyhow::{Context, bail};
use clap::Args;
use control_plane::{ControlPlane, Options, Program};
use tokio::time::Instant;

use e2e::control_plane::{Build, compiled};
use e2e::suites::{Ran, Server, SuiteProgram, run_program};

/// Which servers to hold to the cases.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// A real control plane, started for this; the default.
    #[arg(long)]
    real: bool,
    /// The server in memory, on the real clock; `cargo test` does the same on a clock of its own.
    #[arg(long)]
    in_memory: bool,
    /// Only topics and cases whose name contains this.
    #[arg(default_value = "")]
    only: String,
}

/// Runs every case on every server asked for.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let mut servers = Vec::new();
    if args.in_memory {
        servers.push(Server::InMemory);
    }
    if args.real || !args.in_memory {
        servers.push(Server::Real);
    }
    for server in servers {
        let begin = Instant::now();
        let (tally, name) = match server {
            Server::InMemory => {
                let name = "conformance-in-memory";
                let arguments = ["--in-memory", &args.only];
                (runtime.block_on(run_program(SuiteProgram::Conformance, name, &arguments))?, name)
            }
            Server::Real => (runtime.block_on(on_a_real_one(&args.only))?, "conformance"),
        };
        let ran = Ran { suite: name, tally: Some(tally), took: begin.elapsed() };
        println!("{ran}");
        if !tally.shows(server) {
            bail!("{name}: {tally}");
        }
    }
    Ok(())
}

async fn on_a_real_one(only: &str) -> anyhow::Result<e2e::suites::Tally> {
    let binaries = compiled(&Build::by_default()).await?;
    // The cases write the status of PodDisruptionBudgets themselves, so that they can say what it is.
    let options = Options::new(binaries)
        .with_argument(Program::ControllerManager, "--controllers=*,-disruption-controller,-node-lifecycle-controller");
    let options = options.with_argument(Program::ControllerManager, "--concurrent-namespace-syncs=30");
    let options = Options { scheduler: control_plane::Presence::Without, ..options };
    let plane = ControlPlane::start(options).await?;
    let kubeconfig = plane.kubeconfig_path().to_string_lossy().into_owned();
    let tally = run_program(SuiteProgram::Conformance, "conformance", &["--kubeconfig", &kubeconfig, only]).await;
    plane.stop().await?;
    tally
}
