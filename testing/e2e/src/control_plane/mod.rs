//! `cargo xtask control-plane build|start|stop|status`: a real Kubernetes control plane on this machine, for end-to-end suites
//! and for hands that want to try something. The work is done by the crate `control_plane`; here are the commands.

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

/// What to do with a control plane.
#[derive(Subcommand)]
pub enum Chore {
    /// Compile the programs, unless somebody did; the first time takes about ten minutes.
    Build(Build),
    /// Start a control plane and leave it running.
    Start(Start),
    /// Stop a control plane and remove all it wrote.
    Stop {
        /// Which one.
        #[arg(long, default_value = "default")]
        name: Name,
        /// Stop every one.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show what runs.
    Status,
}

/// How to compile.
#[derive(Args, Clone)]
pub struct Build {
    /// How many packages to compile at once; all cores if not said.
    #[arg(long)]
    jobs: Option<u16>,
}

/// What to start.
#[derive(Args)]
pub struct Start {
    /// Several may run side by side under different names.
    #[arg(long, default_value = "default")]
    name: Name,
    /// Leave a program out; may be given twice.
    #[arg(long, value_enum)]
    without: Vec<Companion>,
    /// A feature gate of Kubernetes, such as WatchList=false; may be given more than once.
    #[arg(long, value_parser = feature_gate)]
    feature_gate: Vec<(String, bool)>,
    /// How many seconds it may take until all is ready.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Stay, and stop it when this command ends in whatever way.
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

/// Does it.
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
            Chore::Status => held::status(&registry()?, "no control plane runs").await?,
        }
        Ok(())
    })
}

/// The programs, compiled if need be, with progress for the person who waits.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn compiled(build: &Build) -> anyhow::Result<Binaries> {
    let recipe = Recipe::of_this_repository()?;
    let compiler = Compiler { jobs: build.jobs, ..Compiler::default() };
    let all = recipe.programs().len();
    let tell = |progress: Progress| eprintln!("control-plane: {}", progress.sentence(all));
    Ok(compiler.compile(&recipe, &Cache::of_this_user()?, tell).await?)
}

impl Build {
    /// With Go's own choice of parallelism.
    pub fn by_default() -> Self {
        Self { jobs: None }
    }
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn report_build(binaries: &Binaries) {
    println!("{}", binaries.folder().display());
}

/// Where running control planes are known by name.
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
                State::Running => "runs".to_owned(),
                State::Ended => format!("has ended; see {}", self.layout().log(program).display()),
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
        arguments.push(format!("--patience={}", self.patience));
        arguments
    }

    fn options(&self, binaries: Binaries) -> Options {
        let presence = |companion| if self.without.contains(&companion) { Presence::Without } else { Presence::With };
        Options {
            controller_manager: presence(Companion::ControllerManager),
            scheduler: presence(Companion::Scheduler),
            feature_gates: self.feature_gate.iter().cloned().collect::<BTreeMap<_, _>>(),
            patience: Duration::from_secs(self.patience),
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
    fn what_the_holder_is_told_is_what_we_were_told() {
        let line = "x start --name a --without scheduler --feature-gate WatchList=false --patience 7";
        let arguments = start(line).foreground_arguments();
        assert_eq!(arguments.first().map(String::as_str), Some("control-plane"));
        let again = start(&arguments.join(" "));
        assert!(again.foreground);
        assert_eq!(again.name.to_string(), "a");
        assert_eq!(again.without, [Companion::Scheduler]);
        assert_eq!(again.feature_gate, [("WatchList".to_owned(), false)]);
        assert_eq!(again.patience, 7);
    }

    #[test]
    fn a_gate_that_is_neither_on_nor_off_is_refused() {
        assert!(ControlPlaneCommand::try_parse_from(["x", "start", "--feature-gate", "WatchList"]).is_err());
        assert!(ControlPlaneCommand::try_parse_from(["x", "start", "--feature-gate", "=true"]).is_err());
    }
}
