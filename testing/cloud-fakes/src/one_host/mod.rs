//! What drivers of machines on this host share in their tests: they keep machines in a state directory, and a process that is killed leaves them to the next.
//!
//! A driver's tests implement [`OneHost`] and hold it to the [`contract`] and to [`death`].

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "it is part of tests, which may die of what they did not expect"
)]

pub mod contract;
pub mod death;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use api::view::SecretData;
use api::{Machine, MachineClass};
use driver::{Driver, MachineRequest};
use serde_json::Value;

/// The cluster of the machines that a test creates.
pub const CLUSTER: &str = "shoot";

/// A state directory of one driver, and what the host shows of the machines in it.
pub trait OneHost: Send + Sync + 'static {
    /// The driver, as a process that has just begun has it.
    fn driver() -> Arc<dyn Driver>;

    /// The credentials and user data that it needs.
    fn secret() -> SecretData;

    /// Where it keeps its machines.
    fn state(&self) -> PathBuf;

    /// A class that it accepts.
    fn class(&self, cluster: &str) -> MachineClass;

    /// A name of a machine, apart from those of tests that run at the same time where they could meet.
    fn machine(&self, name: &str) -> String {
        name.to_owned()
    }

    /// How many machines of this name run, as the kernel shows them.
    fn running(&self, machine: &str) -> usize;

    /// What the driver writes down of a machine that is larger than any host.
    fn largest(&self) -> Value;

    /// Everything of which a machine could leave something.
    fn traces(&self) -> BTreeSet<String>;

    /// What a driver is asked about a machine of this class.
    fn request_of(&self, class: MachineClass, machine: &str) -> MachineRequest {
        request::<Self>(class, machine)
    }

    /// The same for a class that it accepts.
    fn request(&self, machine: &str) -> MachineRequest {
        self.request_of(self.class(CLUSTER), machine)
    }

    /// Where a machine's files are.
    fn home(&self, machine: &str) -> PathBuf {
        self.state().join("clusters").join(CLUSTER).join(machine)
    }
}

fn request<Host: OneHost + ?Sized>(class: MachineClass, machine: &str) -> MachineRequest {
    let mut object = Machine::default();
    object.metadata.name = machine.into();
    object.metadata.namespace = "default".into();
    MachineRequest { machine: Arc::new(object), class: Arc::new(class), secret: Arc::new(Host::secret()) }
}
