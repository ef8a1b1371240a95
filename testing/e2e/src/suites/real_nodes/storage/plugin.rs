//! The part of a CSI driver that is on each node, and its registration: `NodePublishVolume` binds a directory that all machines share.
//!
//! The suite serves it from outside, on a socket in the directory in which a machine's kubelet looks for plug-ins. So no image and no program is needed in
//! the machine.

use prost::Message;
use tonic::Status;

use super::super::homes::Homes;
use super::events::{Event, Events};

/// Its name. The driver of provider `host` knows volumes of it.
pub(in super::super) const DRIVER: &str = "hostpath.csi.k8s.io";
/// Where a machine has the shared directory, which is read-only there, as everything that a class mounts.
pub(in super::super) const SHARED: &str = "/disks";

/// The socket, for its kubelet. The kubelet has its path in `:authority`, where hyper takes no `%` but before an `@`.
const SOCKET: &str = "/var/lib/kubelet/plugins_registry/csi@hostpath.sock";

const PUBLISH: &str = "set -e; mkdir -p \"$2\"; mount --bind \"$1\" \"$2\"; mount -o remount,bind,rw \"$2\"";
/// What is not mounted any more is no error; a directory on which something is mounted cannot be removed.
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
    /// The path of a machine's socket for the suite, if the machine's kubelet looks for it already.
    pub(super) fn socket(homes: &Homes, machine: &str) -> Option<String> {
        let path = format!("/proc/{}/root{SOCKET}", homes.init_of(machine).ok()?);
        let folder = std::path::Path::new(&path).parent()?.is_dir();
        folder.then_some(path)
    }

    /// How it registers.
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
