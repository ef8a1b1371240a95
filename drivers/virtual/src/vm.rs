//! One virtual machine and its state at a given instant.
//!
//! A VM has no task that boots or deletes it, only instants: born, up, leaving, gone. Its state follows from comparing
//! them with the clock. A deletion therefore continues when its call is dropped, as in a real cloud, and a simulation
//! can pause at any time.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::{MachineName, NodeName, ProviderId};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::spec::{Join, Spec};

/// The cloud's own name of a VM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmId(pub(crate) Arc<str>);

impl VmId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for VmId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A VM as the cloud knows it.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Its name.
    pub id: VmId,
    /// Its name as others know it: `virtual:///<cluster>/<vm>`.
    pub provider_id: ProviderId,
    /// The machine for which it was created; none if it was created manually.
    pub machine: Option<MachineName>,
    /// Namespace and name of the class it was made from.
    pub class: String,
    /// The name under which its kubelet registers.
    pub node_name: NodeName,
    /// Its address inside the cloud.
    pub address: String,
    /// What was asked for.
    pub spec: Arc<Spec>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its deletion started.
    pub deleted_at: Option<Timestamp>,
    /// Number of boots: a kubelet that sees another number was restarted.
    pub boots: u32,
    pub(crate) power: Power,
    pub(crate) initialized: Initialized,
    pub(crate) user_data: UserData,
    pub(crate) born: Instant,
    pub(crate) up: Instant,
    pub(crate) leaving: Option<Leaving>,
}

/// Power and responsiveness of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    Hung,
    Off,
}

/// Whether the steps after creation are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initialized {
    Yes,
    NotYet,
}

/// A deletion under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) since: Instant,
    pub(crate) gone: Instant,
}

/// The user data of a VM. `Debug` omits it, because it may contain a token.
#[derive(Clone, Default)]
pub(crate) struct UserData(pub(crate) Option<Arc<[u8]>>);

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "<not shown>" } else { "<none>" })
    }
}

/// The state of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Booting.
    Booting,
    /// Running.
    Running,
    /// Running for the cloud, but all processes hang.
    Hung,
    /// Without power.
    Off,
    /// Off, and being deleted.
    Deleting,
    /// Deleted.
    Gone,
}

impl Vm {
    /// Returns the state at this instant.
    pub fn state(&self, now: Instant) -> State {
        match (self.leaving, self.power) {
            (Some(leaving), _) if leaving.gone <= now => State::Gone,
            (Some(_), _) => State::Deleting,
            (None, Power::Off) => State::Off,
            (None, Power::Hung) => State::Hung,
            (None, Power::On) if now < self.up => State::Booting,
            (None, Power::On) => State::Running,
        }
    }

    /// Returns when its kubelet registers, if it joins and stays on until then.
    pub fn joins(&self) -> Option<Instant> {
        match self.spec.join {
            Join::After(delay) => Some(self.up + delay),
            Join::Hangs => Some(self.up),
            Join::Never => None,
        }
    }

    /// Returns whether a reader with this `lag` sees it.
    pub(crate) fn is_seen(&self, now: Instant, lag: Duration) -> bool {
        self.born + lag <= now && self.leaving.is_none_or(|leaving| leaving.since + lag > now)
    }

    /// Returns whether it was created for this machine of this cluster.
    pub(crate) fn belongs_to(&self, cluster: &str, machine: &str) -> bool {
        self.spec.cluster == cluster && self.machine.as_ref().is_some_and(|name| name.as_str() == machine)
    }
}
