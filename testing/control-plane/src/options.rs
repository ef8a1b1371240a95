//! Options of a control plane.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::cache::Binaries;
use crate::program::Program;

/// Whether a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It runs.
    #[default]
    With,
    /// It does not run.
    Without,
}

/// Options of a control plane. etcd and the API server always run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The programs.
    pub binaries: Binaries,
    /// kube-controller-manager. Without it no service accounts are created, so the API server admits pods without one.
    pub controller_manager: Presence,
    /// kube-scheduler.
    pub scheduler: Presence,
    /// Feature gates of the API server, the controllers and the scheduler.
    pub feature_gates: BTreeMap<String, bool>,
    /// Additional flags of a program. They are last and override others.
    pub extra_arguments: BTreeMap<Program, Vec<String>>,
    /// Another address of the API server besides loopback, for machines in separate network namespaces. The API server
    /// then listens on all addresses, so the caller must be in a separate network namespace too.
    pub also_at: Option<IpAddr>,
    /// Timeout of the start. It usually takes three seconds; a busy host takes longer.
    pub timeout: Duration,
    /// Parent of the folder with data, logs and certificates; the temporary directory if not set.
    pub parent: Option<PathBuf>,
}

impl Options {
    /// Creates options for all programs with defaults.
    pub fn new(binaries: Binaries) -> Self {
        Self {
            binaries,
            controller_manager: Presence::With,
            scheduler: Presence::With,
            feature_gates: BTreeMap::new(),
            extra_arguments: BTreeMap::new(),
            also_at: None,
            timeout: Duration::from_mins(2),
            parent: None,
        }
    }

    /// Runs only etcd and the API server.
    #[must_use]
    pub fn api_server_only(self) -> Self {
        Self { controller_manager: Presence::Without, scheduler: Presence::Without, ..self }
    }

    /// Adds a flag of a program.
    #[must_use]
    pub fn with_argument(mut self, program: Program, argument: &str) -> Self {
        self.extra_arguments.entry(program).or_default().push(argument.to_owned());
        self
    }

    /// Returns the programs to run, in the order of the start.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let companions = [(Program::ControllerManager, self.controller_manager), (Program::Scheduler, self.scheduler)];
        let wanted = companions.into_iter().filter(|(_, presence)| *presence == Presence::With);
        [Program::Etcd, Program::ApiServer].into_iter().chain(wanted.map(|(program, _)| program)).collect()
    }
}
