//! What a control plane is to be like.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::cache::Binaries;
use crate::program::Program;

/// Whether a program takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It runs.
    #[default]
    With,
    /// It does not; a test plays its part, or shows what happens without it.
    Without,
}

/// What a control plane is to be like. etcd and the API server always take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The programs.
    pub binaries: Binaries,
    /// Kubernetes' own controllers. Without them nobody makes service accounts, so the API server then admits pods that
    /// have none.
    pub controller_manager: Presence,
    /// Who binds pods to nodes.
    pub scheduler: Presence,
    /// Kubernetes' feature gates, for the API server, the controllers and the scheduler alike.
    pub feature_gates: BTreeMap<String, bool>,
    /// Further flags of a program. They come last, so they win over ours.
    pub extra_arguments: BTreeMap<Program, Vec<String>>,
    /// Another address of the API server, besides the loopback one, for machines in network namespaces of their own. It then listens on all
    /// addresses, so the caller must be in a network namespace of its own, too.
    pub also_at: Option<IpAddr>,
    /// How long the whole may take until it is ready. Three seconds are usual; a busy machine takes longer.
    pub patience: Duration,
    /// In which folder to make the one that holds data, logs and certificates; the system's temporary one if not said.
    pub parent: Option<PathBuf>,
}

impl Options {
    /// All programs, nothing special.
    pub fn new(binaries: Binaries) -> Self {
        Self {
            binaries,
            controller_manager: Presence::With,
            scheduler: Presence::With,
            feature_gates: BTreeMap::new(),
            extra_arguments: BTreeMap::new(),
            also_at: None,
            patience: Duration::from_mins(2),
            parent: None,
        }
    }

    /// Only etcd and the API server.
    #[must_use]
    pub fn api_server_only(self) -> Self {
        Self { controller_manager: Presence::Without, scheduler: Presence::Without, ..self }
    }

    /// The same with one more flag of one program.
    #[must_use]
    pub fn with_argument(mut self, program: Program, argument: &str) -> Self {
        self.extra_arguments.entry(program).or_default().push(argument.to_owned());
        self
    }

    /// The programs that run, in the order in which they are started.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let companions = [(Program::ControllerManager, self.controller_manager), (Program::Scheduler, self.scheduler)];
        let wanted = companions.into_iter().filter(|(_, presence)| *presence == Presence::With);
        [Program::Etcd, Program::ApiServer].into_iter().chain(wanted.map(|(program, _)| program)).collect()
    }
}
