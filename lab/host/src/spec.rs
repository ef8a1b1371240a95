//! The provider spec of a MachineClass.
//!
//! Deletion, list and status only need the scope, so they work even if the other fields are invalid.

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

/// The value of `provider` in MachineClasses of this driver.
pub const PROVIDER: &str = "host";

/// Linux allows fifteen characters.
const LONGEST_LINK: usize = 15;

/// Default state directory.
const STATE_DIRECTORY: &str = "/var/lib/millwright/host";

/// Requests of this provider.
pub(crate) const REQUESTS: Requests = Requests { provider: PROVIDER, state: STATE_DIRECTORY };

/// The configuration of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) root_image: PathBuf,
    pub(crate) size: Resources,
    pub(crate) bridge: String,
    pub(crate) addresses: Pool,
    /// Prefix length of the network around the machine; the default is that of the pool.
    pub(crate) prefix_length: u8,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// Limits of all machines of the state directory together; `None` is the capacity of the host.
    pub(crate) budget: Budget,
    /// Read-only mounts from the host.
    pub(crate) mounts: Vec<Mount>,
}

/// A file or directory of the host that is mounted into a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) host_path: PathBuf,
    pub(crate) path: PathBuf,
}

/// Decodes a provider spec. All errors are reported together.
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

/// Returns why a text is not a valid link name.
fn link_problem(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_LINK {
        Some("must have at most 15 characters")
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
        faults.required(object.path("addresses"), "the address range of machines");
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
            faults.invalid(
                object.path("prefixLength"),
                length,
                format!("must be from 8 to {most}, the prefix length of addresses"),
            );
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

/// The two programs have separate fields, because every class needs them; they are mounts like others.
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
