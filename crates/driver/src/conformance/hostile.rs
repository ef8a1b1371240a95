//! A driver that returns hostile results, for tests of its callers.
//!
//! It creates real VMs and modifies the results, so tests can check that the VMs are deleted with their Machines. [`harm`] checks the
//! resulting texts in statuses, Events, logs and traces.

use std::sync::Arc;

use api::view::PersistentVolumeSpec;
use api::{MachineName, NodeName, ProviderId};
use async_trait::async_trait;

use crate::text::{LONGEST_TEXT, is_deceptive};
use crate::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
};

/// Modified result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Every create fails with this text.
    Error(String),
    /// This many deletes fail with this text.
    DeleteError(String, usize),
    /// Every VM has this node name.
    NodeName(String),
    /// Every VM has this provider ID.
    ProviderId(String),
    /// Every create and delete returns this last known state.
    Note(String),
    /// The list contains this many additional VMs of unknown Machines.
    List(usize),
    /// The list contains an additional VM of a Machine with this name.
    Owner(String),
}

/// Returns texts that are harmful if they are not escaped.
#[must_use]
pub fn texts() -> Vec<String> {
    let markers = "Initiate node drain Initiate VM deletion Initiate machine object finalizer removal";
    vec![
        "x".repeat(3 << 20),
        "[".repeat(3 << 20),
        "\u{1b}[2J\u{1b}[31mall is well\u{1b}[0m\u{7}".to_owned(),
        "refused\nlevel=INFO msg=\"machine deleted\"\r\n\t\u{0}".to_owned(),
        "abc\u{202e}dlrow olleh\u{2066}\u{feff}".to_owned(),
        markers.to_owned(),
        format!("machine codes error: code = [NotFound] message = [gone]. {markers}"),
    ]
}

/// Returns why a displayed text is harmful; `None` if it is not.
#[must_use]
pub fn harm(shown: &str) -> Option<String> {
    // The caller adds its own text.
    const CONTEXT: usize = 1024;
    if shown.len() > LONGEST_TEXT + CONTEXT {
        return Some(format!("it has {} bytes", shown.len()));
    }
    shown.chars().find(|c| is_deceptive(*c)).map(|c| format!("it contains {c:?}"))
}

/// The hostile driver.
#[derive(Clone)]
pub struct Hostile {
    cloud: Arc<dyn Driver>,
    attack: Attack,
    deletes: Arc<std::sync::atomic::AtomicUsize>,
}

impl Hostile {
    /// Wraps a driver.
    pub fn new(cloud: Arc<dyn Driver>, attack: Attack) -> Self {
        Self { cloud, attack, deletes: Arc::default() }
    }

    fn modify(&self, found: Found) -> Found {
        match &self.attack {
            Attack::NodeName(name) => Found { node_name: NodeName::from(name.as_str()), ..found },
            Attack::ProviderId(id) => Found { provider_id: ProviderId::from(id.as_str()), ..found },
            _ => found,
        }
    }

    fn note(&self) -> Option<String> {
        match &self.attack {
            Attack::Note(note) => Some(note.clone()),
            _ => None,
        }
    }

    fn modify_error(&self, error: DriverError) -> DriverError {
        match error.found().cloned() {
            Some(found) => error.with_found(self.modify(found)),
            None => error,
        }
    }

    /// Restores the original values in a request, which contains modified values from earlier results.
    fn original(&self, request: &MachineRequest) -> MachineRequest {
        let mut machine = (*request.machine).clone();
        if matches!(self.attack, Attack::ProviderId(_)) {
            machine.spec.provider_id = ProviderId::default();
        }
        MachineRequest { machine: Arc::new(machine), ..request.clone() }
    }
}

#[async_trait]
impl Driver for Hostile {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        if let Attack::Error(text) = &self.attack {
            return Err(DriverError::new(Code::Internal, text.clone()).with_last_known_state(text.clone()));
        }
        let made = self.cloud.create(call, &self.original(request)).await?;
        let Found { provider_id, node_name, addresses } = self.modify(made.into());
        Ok(Created { provider_id, node_name, last_known_state: self.note(), addresses })
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        if let Attack::DeleteError(text, times) = &self.attack
            && self.deletes.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < *times
        {
            return Err(DriverError::new(Code::Unavailable, text.clone()));
        }
        self.cloud.delete(call, &self.original(request)).await?;
        Ok(Deleted { last_known_state: self.note() })
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let answer = self.cloud.initialize(call, &self.original(request)).await;
        answer.map(|found| self.modify(found)).map_err(|error| self.modify_error(error))
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let answer = self.cloud.status(call, &self.original(request)).await;
        answer.map(|found| self.modify(found)).map_err(|error| self.modify_error(error))
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let mut owners = self.cloud.list(call, request).await?;
        match &self.attack {
            Attack::List(more) => {
                let invented = |n| (format!("none:///{n:08}").into(), MachineName::from(format!("never-{n:08}")));
                owners.extend((0..*more).map(invented));
            }
            Attack::Owner(name) => {
                owners.insert("none:///0".into(), MachineName::from(name.as_str()));
            }
            _ => {}
        }
        Ok(owners)
    }

    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        self.cloud.volume_ids(call, volumes).await
    }
}
