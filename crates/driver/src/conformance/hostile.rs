//! A driver that says the worst it can, in front of a cloud that works.
//!
//! The cases hold a driver to the contract; this holds whoever calls one. It makes the VMs it is asked for and spoils what it
//! answers, so a caller has something to lose: a VM that is paid for must still be deleted with its machine. What people then read
//! (status, Events, log, traces) is judged by [`harm`].

use std::sync::Arc;

use api::view::PersistentVolumeSpec;
use api::{MachineName, NodeName, ProviderId};
use async_trait::async_trait;

use crate::text::{LONGEST_TEXT, is_deceptive};
use crate::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
};

/// What is spoilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Every create fails, with this text.
    Error(String),
    /// Every delete fails with this text, until it has failed so often.
    DeleteError(String, usize),
    /// Every VM has this node name.
    NodeName(String),
    /// Every VM has this id.
    ProviderId(String),
    /// Every VM that is made or deleted leaves this note.
    Note(String),
    /// The list holds so many VMs more, of machines that were never there.
    List(usize),
    /// The list holds one VM more, of a machine of this name.
    Owner(String),
}

/// Texts that do harm where they are shown as they are.
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

/// What is wrong with a text that people are shown; `None` if nothing is.
#[must_use]
pub fn harm(shown: &str) -> Option<String> {
    // Texts of the caller's own stand around it.
    const AROUND: usize = 1024;
    if shown.len() > LONGEST_TEXT + AROUND {
        return Some(format!("it has {} bytes", shown.len()));
    }
    shown.chars().find(|c| is_deceptive(*c)).map(|c| format!("it holds {c:?}"))
}

/// The driver.
#[derive(Clone)]
pub struct Hostile {
    cloud: Arc<dyn Driver>,
    attack: Attack,
    deletes: Arc<std::sync::atomic::AtomicUsize>,
}

impl Hostile {
    /// Spoils the answers of a driver.
    pub fn new(cloud: Arc<dyn Driver>, attack: Attack) -> Self {
        Self { cloud, attack, deletes: Arc::default() }
    }

    fn spoil(&self, found: Found) -> Found {
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

    fn spoil_error(&self, error: DriverError) -> DriverError {
        match error.found().cloned() {
            Some(found) => error.with_found(self.spoil(found)),
            None => error,
        }
    }

    /// The machine as the cloud behind knows it: what was spoilt was written down and is shown again.
    fn unspoilt(&self, request: &MachineRequest) -> MachineRequest {
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
        let made = self.cloud.create(call, &self.unspoilt(request)).await?;
        let Found { provider_id, node_name, addresses } = self.spoil(made.into());
        Ok(Created { provider_id, node_name, last_known_state: self.note(), addresses })
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        if let Attack::DeleteError(text, times) = &self.attack
            && self.deletes.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < *times
        {
            return Err(DriverError::new(Code::Unavailable, text.clone()));
        }
        self.cloud.delete(call, &self.unspoilt(request)).await?;
        Ok(Deleted { last_known_state: self.note() })
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let answer = self.cloud.initialize(call, &self.unspoilt(request)).await;
        answer.map(|found| self.spoil(found)).map_err(|error| self.spoil_error(error))
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let answer = self.cloud.status(call, &self.unspoilt(request)).await;
        answer.map(|found| self.spoil(found)).map_err(|error| self.spoil_error(error))
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
