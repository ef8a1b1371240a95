//! What a MachineClass of this provider says.
//!
//! Deleting, listing and looking need only to know where to look: a class that can make nothing any more still lets its machines go.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use driver::DriverError;
use driver_common::fault::Faults;
use driver_common::spec::Object;
use lab_host_common::Scope;
use lab_host_common::budget::{Budget, Resources};
use lab_host_common::fields;
use lab_host_common::requests::Requests;
use serde_json::Value;

use crate::addresses::Pool;

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "host";

/// Linux allows fifteen characters.
const LONGEST_LINK: usize = 15;

/// Where machines are kept if the class does not say.
const STATE_DIRECTORY: &str = "/var/lib/millwright/host";

/// Where to look, from a class that may be wrong otherwise.
pub(crate) const REQUESTS: Requests = Requests { provider: PROVIDER, state: STATE_DIRECTORY };

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

/// A file or directory of the host in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) host_path: PathBuf,
    pub(crate) path: PathBuf,
}

/// All of a class; whatever is wrong is told at once.
pub(crate) fn decode(spec: &Value, mut faults: Faults) -> Result<(Scope, Spec), DriverError> {
    let faults = &mut faults;
    let object = &Object::new(spec, "providerSpec", faults);
    let scope = fields::scope(object, STATE_DIRECTORY, faults);
    let addresses = pool(object, faults);
    let spec = Spec {
        root_image: fields::path(object, "rootImage", faults, true).unwrap_or_default(),
        size: fields::size(object, faults),
        bridge: bridge(object, faults),
        prefix_length: prefix_length(object, addresses, faults),
        addresses,
        gateway: gateway(object, faults),
        budget: fields::budget(object, faults),
        mounts: mounts(object, faults),
    };
    std::mem::take(faults).or("", (scope, spec))
}

fn bridge(object: &Object<'_>, faults: &mut Faults) -> String {
    let bridge = object.text("bridge", faults).unwrap_or_default();
    if bridge.is_empty() {
        faults.required(object.path("bridge"), "the bridge that machines are connected to");
    } else if let Some(problem) = link_problem(&bridge) {
        faults.invalid(object.path("bridge"), bridge.as_str(), problem);
    }
    bridge
}

/// What keeps a text from being the name of a link.
fn link_problem(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_LINK {
        Some("must have at most 15 characters, as every link")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        || name.starts_with(['-', '.'])
    {
        Some("must consist of letters, digits, '-', '_' and '.'")
    } else {
        None
    }
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
        let host_path = fields::path(object, key, faults, false);
        mounts.extend(host_path.map(|host_path| Mount { host_path, path: PathBuf::from(place) }));
    }
    for mount in object.objects("mounts", faults) {
        let host_path = fields::path(&mount, "hostPath", faults, true);
        let place = fields::path(&mount, "path", faults, true);
        mounts.extend(host_path.zip(place).map(|(host_path, path)| Mount { host_path, path }));
    }
    mounts
}

#[cfg(test)]
mod tests;
