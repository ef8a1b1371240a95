//! What a MachineClass of this provider says.
//!
//! Deleting, listing and looking need only to know where to look: a class that can make nothing any more still lets its machines go.

mod validate;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use api::Quantity;
use cloud::fault::Faults;
use cloud::spec::Object;
use driver::DriverError;
use serde_json::Value;

use crate::addresses::Pool;
use crate::budget::Resources;
use crate::identity::name_problem;

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "host";

/// Where machines are kept if the class does not say.
const STATE_DIRECTORY: &str = "/var/lib/millwright/host";

/// Where to look for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Tells machines of this cluster from those of others on the same host.
    pub(crate) cluster: String,
    /// What is kept on disk.
    pub(crate) state: PathBuf,
}

/// How a machine is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) root_image: PathBuf,
    pub(crate) size: Resources,
    pub(crate) bridge: String,
    pub(crate) addresses: Pool,
    /// Of the network that the machine finds around it; that of the pool if not said.
    pub(crate) prefix_length: u8,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// What all machines of the state directory may use together; `None` is all that the host has.
    pub(crate) budget: Budget,
    /// What machines see read-only of the host.
    pub(crate) mounts: Vec<Mount>,
}

/// What all machines may use together, as far as the class says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) memory: Option<u64>,
}

/// A file or directory of the host in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) host_path: PathBuf,
    pub(crate) path: PathBuf,
}

impl Budget {
    /// What the class does not say is what the host has.
    pub(crate) fn or(self, host: Resources) -> Resources {
        Resources { cpu_millis: self.cpu_millis.unwrap_or(host.cpu_millis), memory: self.memory.unwrap_or(host.memory) }
    }
}

impl Scope {
    /// Where to look, from a class that may be wrong otherwise.
    pub(crate) fn decode(spec: &Value) -> Result<Self, DriverError> {
        let mut faults = Faults::default();
        let object = Object::new(spec, "providerSpec", &mut faults);
        let scope = scope(&object, &mut faults);
        faults.or("", scope)
    }
}

/// All of a class; whatever is wrong is told at once.
pub(crate) fn decode(spec: &Value, mut faults: Faults) -> Result<(Scope, Spec), DriverError> {
    let faults = &mut faults;
    let object = &Object::new(spec, "providerSpec", faults);
    let scope = scope(object, faults);
    let size = Resources {
        cpu_millis: required(object, "cpu", faults, validate::cpu_millis),
        memory: required(object, "memory", faults, validate::bytes),
    };
    let budget = match object.object("hostBudget", faults) {
        None => Budget::default(),
        Some(budget) => Budget {
            cpu_millis: quantity(&budget, "cpu", faults, validate::cpu_millis),
            memory: quantity(&budget, "memory", faults, validate::bytes),
        },
    };
    let addresses = pool(object, faults);
    let spec = Spec {
        root_image: path(object, "rootImage", faults, true).unwrap_or_default(),
        size,
        bridge: bridge(object, faults),
        prefix_length: prefix_length(object, addresses, faults),
        addresses,
        gateway: gateway(object, faults),
        budget,
        mounts: mounts(object, faults),
    };
    std::mem::take(faults).or("", (scope, spec))
}

fn scope(object: &Object<'_>, faults: &mut Faults) -> Scope {
    let cluster = object.text("cluster", faults).unwrap_or_default();
    match name_problem(&cluster) {
        Some(_) if cluster.is_empty() => {
            faults.required(object.path("cluster"), "tells this cluster's machines from those of others");
        }
        Some(problem) => faults.invalid(object.path("cluster"), cluster.as_str(), problem),
        None => {}
    }
    let state = path(object, "stateDirectory", faults, false).unwrap_or_else(|| PathBuf::from(STATE_DIRECTORY));
    Scope { cluster, state }
}

fn path(object: &Object<'_>, key: &str, faults: &mut Faults, needed: bool) -> Option<PathBuf> {
    let Some(text) = object.text(key, faults).filter(|text| !text.is_empty()) else {
        if needed {
            faults.required(object.path(key), "the path of a directory on the host");
        }
        return None;
    };
    if let Some(problem) = validate::path_problem(Path::new(&text)) {
        faults.invalid(object.path(key), text.as_str(), problem);
    }
    Some(PathBuf::from(text))
}

fn quantity(
    object: &Object<'_>,
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&Quantity) -> Result<u64, &'static str>,
) -> Option<u64> {
    let value = object.get(key)?;
    let amount =
        serde_json::from_value::<Quantity>(value.clone()).map_err(|_| "must be an amount, such as 500m or 1Gi");
    match amount.and_then(|amount| read(&amount)) {
        Ok(amount) => Some(amount),
        Err(problem) => {
            faults.invalid(object.path(key), value, problem);
            None
        }
    }
}

fn required(
    object: &Object<'_>,
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&Quantity) -> Result<u64, &'static str>,
) -> u64 {
    if object.get(key).is_none() {
        faults.required(object.path(key), "what a machine may use at most");
    }
    quantity(object, key, faults, read).unwrap_or_default()
}

fn bridge(object: &Object<'_>, faults: &mut Faults) -> String {
    let bridge = object.text("bridge", faults).unwrap_or_default();
    if bridge.is_empty() {
        faults.required(object.path("bridge"), "the bridge that machines are connected to");
    } else if let Some(problem) = validate::link_problem(&bridge) {
        faults.invalid(object.path("bridge"), bridge.as_str(), problem);
    }
    bridge
}

fn pool(object: &Object<'_>, faults: &mut Faults) -> Pool {
    let nowhere = Pool::default();
    let Some(text) = object.text("addresses", faults).filter(|text| !text.is_empty()) else {
        faults.required(object.path("addresses"), "the range that machines take their addresses from");
        return nowhere;
    };
    text.parse().unwrap_or_else(|problem: &str| {
        faults.invalid(object.path("addresses"), text.as_str(), problem);
        nowhere
    })
}

fn prefix_length(object: &Object<'_>, addresses: Pool, faults: &mut Faults) -> u8 {
    let Some(length) = object.int32("prefixLength", faults) else { return addresses.prefix_length };
    match u8::try_from(length) {
        Ok(length) if (8..=addresses.prefix_length).contains(&length) => length,
        _ => {
            let most = addresses.prefix_length;
            faults.invalid(object.path("prefixLength"), length, format!("must be from 8 to {most}, that of addresses"));
            addresses.prefix_length
        }
    }
}

fn gateway(object: &Object<'_>, faults: &mut Faults) -> Option<Ipv4Addr> {
    let text = object.text("gateway", faults).filter(|text| !text.is_empty())?;
    let gateway = text.parse().ok();
    if gateway.is_none() {
        faults.invalid(object.path("gateway"), text.as_str(), "must be an IPv4 address");
    }
    gateway
}

/// The two programs have a place of their own in the class, because every class has them; they are mounts like others.
fn mounts(object: &Object<'_>, faults: &mut Faults) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for (key, place) in [("kubelet", "/usr/local/bin/kubelet"), ("containerd", "/usr/local/bin/containerd")] {
        let host_path = path(object, key, faults, false);
        mounts.extend(host_path.map(|host_path| Mount { host_path, path: PathBuf::from(place) }));
    }
    for mount in object.objects("mounts", faults) {
        let host_path = path(&mount, "hostPath", faults, true);
        let place = path(&mount, "path", faults, true);
        mounts.extend(host_path.zip(place).map(|(host_path, path)| Mount { host_path, path }));
    }
    mounts
}

#[cfg(test)]
mod tests;
