//! Deletes a server with its ports and volumes.
//!
//! A provider id selects one server, and no other is deleted: orphan VM deletion removes the younger of two servers
//! this way while the older one runs. Without a provider id all servers of the cluster with the machine's name are
//! deleted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backoff::Exponential;
use driver::{Code, DriverError};
use driver_common::codes::During;
use driver_common::poll::{Poll, Waited};
use driver_common::provider_spec::Scope;

use crate::answer::{Port, Server, Stage, Volume};
use crate::codes::is_transient;
use crate::find;
use crate::identity::Resource;
use crate::ports::{PortsToDelete, delete_if_present, delete_volumes, is_our_port};
use crate::request;
use crate::session::Session;
use crate::spec::{CLUSTER_PATTERN, Spec};

/// Wait until Nova has deleted a server. The reference waits equally long.
const GONE: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(250), Duration::from_secs(5)),
    timeout: Duration::from_mins(20),
};

/// Maximum number of consecutive polls that may fail with a transient error.
const MAX_FAILURES: u32 = 3;

/// The inputs of a delete.
pub(crate) struct Deletion<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) spec: &'a Spec,
    pub(crate) scope: &'a Scope,
    pub(crate) machine: &'a str,
    /// Empty for an orphan.
    pub(crate) uid: &'a str,
    pub(crate) named: Option<Resource<'a>>,
}

impl Deletion<'_> {
    /// Deletes everything and returns when it is gone.
    pub(crate) async fn run(&self) -> Result<(), DriverError> {
        let server = match self.named {
            Some(Resource::Port(id)) => return self.delete_leftover_port(id).await,
            Some(Resource::Volume(id)) => return self.delete_leftover_volume(id).await,
            Some(Resource::Server(id)) => Some(id),
            None => None,
        };
        let to_delete = self.to_delete(server).await?;
        let mut gone: BTreeSet<String> = to_delete.iter().map(|server| server.id.clone()).collect();
        gone.extend(server.map(str::to_owned));
        let ports = PortsToDelete::find(self.session, self.machine, &self.scope.cluster_tags, &gone).await?;
        ports.delete_unused(self.session).await?;
        self.delete_servers(&to_delete).await?;
        find::forget(self.session, self.machine, self.uid);
        ports.delete_used(self.session).await?;
        if self.spec.root_disk_size > 0 {
            delete_volumes(self.session, self.machine, &self.scope.cluster_tags, &gone).await?;
        }
        Ok(())
    }

    /// Deletes the servers and waits until all are gone. Transient errors of Nova are retried.
    async fn delete_servers(&self, to_delete: &[Server]) -> Result<(), DriverError> {
        let Some(first) = to_delete.first() else { return Ok(()) };
        let failures = AtomicU32::new(0);
        let survives =
            |error: &DriverError| is_transient(error) && failures.fetch_add(1, Ordering::Relaxed) < MAX_FAILURES;
        match self.delete_all(to_delete).await {
            Err(error) if !survives(&error) => return Err(error),
            _ => {}
        }
        let waited = GONE
            .until(
                self.session.call,
                || (self.session.cloud.chance)(),
                || async {
                    match self.look(to_delete).await {
                        Ok(all_gone) => {
                            failures.store(0, Ordering::Relaxed);
                            Ok(all_gone.then_some(()))
                        }
                        Err(error) if survives(&error) => Ok(None),
                        Err(error) => Err(error),
                    }
                },
            )
            .await?;
        match waited {
            Waited::Done(()) => Ok(()),
            Waited::TimedOut => {
                let message =
                    format!("server {} of machine {:?} still exists after 20 minutes", first.id, self.machine);
                Err(DriverError::new(Code::DeadlineExceeded, message))
            }
        }
    }

    /// Reads the servers and deletes the remaining ones again: Nova rejects a delete while another task runs, and does
    /// not retry a failed one. Returns whether all are gone.
    async fn look(&self, to_delete: &[Server]) -> Result<bool, DriverError> {
        let left = self.left(to_delete).await?;
        self.delete_all(&left).await?;
        Ok(left.is_empty())
    }

    async fn delete_all(&self, servers: &[Server]) -> Result<(), DriverError> {
        for server in servers.iter().filter(|server| server.stage() != Stage::Deleting) {
            match self.session.execute(&request::delete_server(&server.id), During::Elsewhere).await {
                Err(failed) if failed.is_absent() || failed.is(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Returns the servers that still exist.
    async fn left(&self, to_delete: &[Server]) -> Result<Vec<Server>, DriverError> {
        let mut left = Vec::new();
        for server in to_delete {
            let found = find::by_id(self.session, &server.id, During::Elsewhere).await?;
            left.extend(found.filter(|server| !matches!(server.status.as_str(), "DELETED" | "SOFT_DELETED")));
        }
        Ok(left)
    }

    /// Selects the servers to delete.
    async fn to_delete(&self, id: Option<&str>) -> Result<Vec<Server>, DriverError> {
        let mut named = find::named(self.session, self.machine, self.uid, During::Elsewhere).await?;
        let Some(id) = id else {
            let mut ours = Vec::new();
            for server in named {
                match self.owner(&server) {
                    Ownership::ThisCluster => ours.push(server),
                    Ownership::OtherCluster(_) => {}
                    Ownership::Unknown => return Err(self.untagged(&server)),
                }
            }
            return Ok(ours);
        };
        let is_known = named.iter().any(|server| server.id == id);
        if !is_known && let Some(server) = find::by_id(self.session, id, During::Elsewhere).await? {
            named.push(server);
        }
        named.retain(|server| server.id == id || server.is_of(self.uid));
        for server in &named {
            match self.owner(server) {
                Ownership::OtherCluster(key) => return Err(self.foreign(server, &key)),
                // The server lost its tags, but has the machine's id and name.
                Ownership::Unknown if server.name != self.machine => return Err(self.untagged(server)),
                Ownership::ThisCluster | Ownership::Unknown => {}
            }
        }
        Ok(named)
    }

    fn owner(&self, server: &Server) -> Ownership {
        if self.scope.cluster_tags.matches(&server.metadata) || server.is_of(self.uid) {
            return Ownership::ThisCluster;
        }
        let of_a_cluster = server.metadata.keys().find(|key| key.contains(CLUSTER_PATTERN));
        match of_a_cluster.filter(|key| **key != self.scope.cluster_tags.cluster) {
            Some(key) => Ownership::OtherCluster(key.clone()),
            None => Ownership::Unknown,
        }
    }

    fn foreign(&self, server: &Server, key: &str) -> DriverError {
        let ours = &self.scope.cluster_tags.cluster;
        let message = format!("server {} belongs to another cluster: its metadata has {key} but not {ours}", server.id);
        DriverError::new(Code::FailedPrecondition, message)
    }

    /// A server of unknown ownership is neither deleted nor reported as deleted.
    fn untagged(&self, server: &Server) -> DriverError {
        let message = format!(
            "server {} ({:?}) may belong to machine {:?}, but its metadata lacks a tag of the class; restore the tags or delete the server manually",
            server.id, server.name, self.machine
        );
        DriverError::new(Code::FailedPrecondition, message)
    }

    async fn delete_leftover_port(&self, id: &str) -> Result<(), DriverError> {
        let found = self.session.one(&request::port(id), "port", Port::read, During::Elsewhere).await?;
        let Some(port) = found else { return Ok(()) };
        let ours = port.name == self.machine && is_our_port(&port, &self.scope.cluster_tags);
        self.unused("port", id, ours, port.device.is_empty())?;
        delete_if_present(self.session, &request::delete_port(id)).await
    }

    async fn delete_leftover_volume(&self, id: &str) -> Result<(), DriverError> {
        let found = self.session.one(&request::volume(id), "volume", Volume::read, During::Elsewhere).await?;
        let Some(volume) = found else { return Ok(()) };
        let ours = volume.name == self.machine && self.scope.cluster_tags.matches(&volume.metadata);
        self.unused("volume", id, ours, volume.servers.is_empty())?;
        delete_if_present(self.session, &request::delete_volume(id)).await
    }

    /// A server may have started to use it between the list and the deletion.
    fn unused(&self, what: &str, id: &str, ours: bool, unused: bool) -> Result<(), DriverError> {
        if !ours {
            let message = format!("{what} {id} was not created for machine {:?}", self.machine);
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        let used = || DriverError::new(Code::Aborted, format!("{what} {id} is now in use by a server"));
        unused.then_some(()).ok_or_else(used)
    }
}

/// The cluster to which a server belongs.
enum Ownership {
    ThisCluster,
    OtherCluster(String),
    Unknown,
}
