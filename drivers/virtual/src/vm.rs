//! One virtual machine, and what it is doing at a given instant.
//!
//! A VM has no task that boots or removes it. It has instants: born, up, leaving, gone. Asking what it is doing compares them
//! with the clock, so a deletion goes on when the call that began it is dropped, as in a real cloud, and a simulation can
//! stand still anywhere.

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
    /// The machine it was made for; a VM that someone made by hand has none.
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
    /// When someone asked for its deletion.
    pub deleted_at: Option<Timestamp>,
    /// How often it has been switched on: a kubelet that sees another number has been restarted.
    pub boots: u32,
    pub(crate) power: Power,
    pub(crate) initialized: Initialized,
    pub(crate) user_data: UserData,
    pub(crate) born: Instant,
    pub(crate) up: Instant,
    pub(crate) leaving: Option<Leaving>,
}

/// Whether a VM has electricity, and sense.
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

/// What a VM was started with. It may hold a token, so it does not show itself.
#[derive(Clone, Default)]
pub(crate) struct UserData(pub(crate) Option<Arc<[u8]>>);

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "<not shown>" } else { "<none>" })
    }
}

/// What a VM is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On its way up.
    Booting,
    /// Up.
    Running,
    /// Up for the cloud, but nothing inside it moves.
    Hung,
    /// Without power.
    Off,
    /// Off, and about to be gone.
    Deleting,
    /// No more.
    Gone,
}

impl Vm {
    /// What it is doing at this instant.
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

    /// When its kubelet registers, if it ever does and the VM stays on until then.
    pub fn joins(&self) -> Option<Instant> {
        match self.spec.join {
            Join::After(delay) => Some(self.up + delay),
            Join::Hangs => Some(self.up),
            Join::Never => None,
        }
    }

    /// Whether a reader that is `lag` behind sees it.
    pub(crate) fn is_seen(&self, now: Instant, lag: Duration) -> bool {
        self.born + lag <= now && self.leaving.is_none_or(|leaving| leaving.since + lag > now)
    }

    /// Whether it was made for this machine of this cluster.
    pub(crate) fn belongs_to(&self, cluster: &str, machine: &str) -> bool {
        self.spec.cluster == cluster && self.machine.as_ref().is_some_and(|name| name.as_str() == machine)
    }
}
