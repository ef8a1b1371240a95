//! `cargo xtask control-plane build|start|stop|status`: a Kubernetes control plane on this machine, for end-to-end
//! suites and for manual tests. The crate `control_plane` does the work; this module contains the commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ::control_plane::compile::{Compiler, Progress};
use ::control_plane::plane::State;
use ::control_plane::{Binaries, Cache, ControlPlane, Options, Presence, Recipe};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

pub use crate::held::Name;
use crate::held::{self, Held, Registry};

/// Command for a control plane.
#[derive(Subcommand)]
pub enum Chore {
    /// Compile the programs, unless they are in the cache. The first build takes about ten minutes.
    Build(Build),
    /// Start a control plane in the background.
    Start(Start),
    /// Stop a control plane and remove its files.
    Stop {
        /// Name of the control plane.
        #[arg(long, default_value = "default")]
        name: Name,
        /// Stop all control planes.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show the running control planes.
    Status,
}

/// Options of a build.
#[derive(Args, Clone)]
pub struct Build {
    /// Number of packages to compile in parallel; the default is the number of cores.
    #[arg(long)]
    jobs: Option<u16>,
}

/// Options of a start.
#[derive(Args)]
pub struct Start {
    /// Name of the control plane. Control planes with different names can run at the same time.
    #[arg(long, default_value = "default")]
    name: Name,
    /// Program to leave out. Can be repeated.
    #[arg(long, value_enum)]
    without: Vec<Companion>,
    /// Feature gate of Kubernetes, for example WatchList=false. Can be repeated.
    #[arg(long, value_parser = feature_gate)]
    feature_gate: Vec<(String, bool)>,
    /// Timeout in seconds for the start.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Run in the foreground, and stop the control plane when this command ends.
    #[arg(long)]
    foreground: bool,
}

/// A program that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Companion {
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
}

/// Runs the command.
pub fn run(chore: Chore) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        match chore {
            Chore::Build(build) => report_build(&compiled(&build).await?),
            Chore::Start(start) => self::start(start).await?,
            Chore::Stop { all: true, .. } => {
                for name in registry()?.names()? {
                    held::stop(&registry()?, &name).await?;
                }
            }
            Chore::Stop { name, all: false } => held::stop(&registry()?, &name).await?,
            Chore::Status => held::status(&registry()?, "no control plane is running").await?,
        }
        Ok(())
    })
}

/// Returns the programs, compiles them if necessary, and prints the progress.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn compiled(build: &Build) -> anyhow::Result<Binaries> {
    let recipe = Recipe::of_this_repository()?;
    let compiler = Compiler { jobs: build.jobs, ..Compiler::default() };
    let all = recipe.programs().len();
    let tell = |progress: Progress| eprintln!("control-plane: {}", progress.sentence(all));
    Ok(compiler.compile(&recipe, &Cache::of_this_user()?, tell).await?)
}

impl Build {
    /// Uses the default parallelism of Go.
    pub fn by_default() -> Self {
        Self { jobs: None }
    }
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn report_build(binaries: &Binaries) {
    println!("{}", binaries.folder().display());
}

/// Returns the registry of running control planes.
pub(crate) fn registry() -> anyhow::Result<Registry> {
    Registry::open("a control plane", Cache::of_this_user()?.folder())
}

async fn start(start: Start) -> anyhow::Result<()> {
    let binaries = compiled(&Build::by_default()).await?;
    if start.foreground {
        let reservation = registry()?.reserve(&start.name)?;
        return held::hold(reservation, ControlPlane::start(start.options(binaries)).await?).await;
    }
    held::start_detached(&start.foreground_arguments()).context("failed to start the control plane")
}

impl Held for ControlPlane {
    fn home(&self) -> &Path {
        &self.layout().home
    }

    fn announcement(&self) -> String {
        self.kubeconfig_path().display().to_string()
    }

    fn describe(&mut self) -> String {
        let mut text = format!("{}\n", self.announcement());
        for (program, state) in self.states() {
            let state = match state {
                State::Running => "running".to_owned(),
                State::Ended => format!("exited; see {}", self.layout().log(program).display()),
            };
            let _ = writeln!(text, "{program} {state}"); // writing to a String cannot fail
        }
        text
    }

    async fn stop(self) -> anyhow::Result<()> {
        Ok(ControlPlane::stop(self).await?)
    }
}

impl Start {
    fn foreground_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["control-plane", "start", "--foreground", "--name"].map(str::to_owned).to_vec();
        arguments.push(self.name.to_string());
        for companion in &self.without {
            let name = companion.to_possible_value().map(|value| value.get_name().to_owned());
            arguments.extend(["--without".to_owned(), name.unwrap_or_default()]);
        }
        for (gate, on) in &self.feature_gate {
            arguments.push(format!("--feature-gate={gate}={on}"));
        }
        arguments.push(format!("--timeout={}", self.timeout));
        arguments
    }

    fn options(&self, binaries: Binaries) -> Options {
        let presence = |companion| if self.without.contains(&companion) { Presence::Without } else { Presence::With };
        Options {
            controller_manager: presence(Companion::ControllerManager),
            scheduler: presence(Companion::Scheduler),
            feature_gates: self.feature_gate.iter().cloned().collect::<BTreeMap<_, _>>(),
            timeout: Duration::from_secs(self.timeout),
            ..Options::new(binaries)
        }
    }
}

fn feature_gate(text: &str) -> Result<(String, bool), String> {
    let parsed = text.split_once('=').and_then(|(gate, on)| Some((gate.to_owned(), on.parse().ok()?)));
    parsed.filter(|(gate, _)| !gate.is_empty()).ok_or_else(|| "expected Name=true or Name=false".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct ControlPlaneCommand {
        #[command(subcommand)]
        chore: Chore,
    }

    fn start(line: &str) -> Start {
        let Ok(ControlPlaneCommand { chore: Chore::Start(start) }) =
            ControlPlaneCommand::try_parse_from(line.split(' '))
        else {
            panic!("not a start: {line}")
        };
        start
    }

    #[test]
    fn arguments_of_the_holder_are_those_of_the_command() {
        let line = "x start --name a --without scheduler --feature-gate WatchList=false --timeout 7";
        let arguments = start(line).foreground_arguments();
        assert_eq!(arguments.first().map(String::as_str), Some("control-plane"));
        let again = start(&arguments.join(" "));
        assert!(again.foreground);
        assert_eq!(again.name.to_string(), "a");
        assert_eq!(again.without, [Companion::Scheduler]);
        assert_eq!(again.feature_gate, [("WatchList".to_owned(), false)]);
        assert_eq!(again.timeout, 7);
    }

    #[test]
    fn a_feature_gate_without_a_boolean_is_rejected() {
        assert!(ControlPlaneCommand::try_parse_from(["x", "start", "--feature-gate", "WatchList"]).is_err());
        assert!(ControlPlaneCommand::try_parse_from(["x", "start", "--feature-gate", "=true"]).is_err());
    }
}
