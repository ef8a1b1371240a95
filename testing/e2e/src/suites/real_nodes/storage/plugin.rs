//! The node plug-in of a CSI driver and its registration: `NodePublishVolume` bind-mounts a directory that all machines
//! share.
//!
//! The suite serves it from outside of the machine, on a socket in the plug-in directory of the machine's kubelet. So
//! the machine needs no image and no program for it.

use prost::Message;
use tonic::Status;

use super::super::homes::Homes;
use super::events::{Event, Events};

/// Name of the driver. Provider `host` supports its volumes.
pub(in super::super) const DRIVER: &str = "hostpath.csi.k8s.io";
/// Path of the shared directory in a machine. It is read-only there, as all mounts of a class.
pub(in super::super) const SHARED: &str = "/disks";

/// Path of the socket for the kubelet. The kubelet sends the path as `:authority`, in which hyper accepts no `%` except
/// before an `@`.
const SOCKET: &str = "/var/lib/kubelet/plugins_registry/csi@hostpath.sock";

const PUBLISH: &str = "set -e; mkdir -p \"$2\"; mount --bind \"$1\" \"$2\"; mount -o remount,bind,rw \"$2\"";
/// A missing mount is no error; a directory with a mount cannot be removed.
const UNPUBLISH: &str = "umount \"$1\" 2>/dev/null; [ ! -d \"$1\" ] || rmdir \"$1\"";

#[derive(Clone, PartialEq, Message)]
pub(super) struct PluginInfo {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) endpoint: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) versions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeInfo {
    #[prost(string, tag = "1")]
    pub(super) node: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Publish {
    #[prost(string, tag = "1")]
    pub(super) volume: String,
    #[prost(string, tag = "4")]
    pub(super) target: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Unpublish {
    #[prost(string, tag = "1")]
    pub(super) volume: String,
    #[prost(string, tag = "2")]
    pub(super) target: String,
}

/// The plug-in of one machine.
pub(super) struct Plugin {
    pub(super) machine: String,
    pub(super) homes: Homes,
    pub(super) events: Events,
}

impl Plugin {
    /// Returns the path of a machine's socket on the host, if the machine's kubelet already watches the directory.
    pub(super) fn socket(homes: &Homes, machine: &str) -> Option<String> {
        let path = format!("/proc/{}/root{SOCKET}", homes.init_of(machine).ok()?);
        let folder = std::path::Path::new(&path).parent()?.is_dir();
        folder.then_some(path)
    }

    /// Returns the registration info.
    pub(super) fn info() -> PluginInfo {
        PluginInfo {
            kind: "CSIPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: SOCKET.to_owned(),
            versions: vec!["1.0.0".to_owned()],
        }
    }

    pub(super) fn node(&self) -> NodeInfo {
        NodeInfo { node: self.machine.clone() }
    }

    pub(super) fn publish(&self, Publish { volume, target }: Publish) -> Result<(), Status> {
        self.run(PUBLISH, &[&format!("{SHARED}/{volume}"), &target])?;
        self.events.note(Event::Published { volume, node: self.machine.clone() });
        Ok(())
    }

    pub(super) fn unpublish(&self, Unpublish { volume, target }: Unpublish) -> Result<(), Status> {
        self.run(UNPUBLISH, &[&target])?;
        self.events.note(Event::Unpublished { volume, node: self.machine.clone() });
        Ok(())
    }

    fn run(&self, line: &str, arguments: &[&str]) -> Result<(), Status> {
        self.homes.run_in(&self.machine, line, arguments).map_err(|error| Status::internal(format!("{error:#}")))
    }
}
