//! Removing a server, and what was made for it.
//!
//! A provider id names one server, and no other is touched: the collector of orphans removes the younger of two in this way while the older
//! one runs. Without a provider id the name is all there is, and every server of it that is ours goes.

use std::collections::BTreeSet;
use std::time::Duration;

use backoff::Exponential;
use cloud::codes::During;
use cloud::poll::{Poll, Waited};
use cloud::provider_spec::Scope;
use driver::{Code, DriverError};

use crate::answer::{Port, Server, Stage, Volume};
use crate::find;
use crate::identity::Thing;
use crate::ports::{delete_ports, delete_volumes, is_our_port, removed};
use crate::request;
use crate::session::Session;
use crate::spec::Spec;

/// How long Nova may take to remove a server, as long as the reference waits.
const GONE: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(250), Duration::from_secs(5)),
    patience: Duration::from_mins(20),
};

/// What is to be removed.
pub(crate) struct Deletion<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) spec: &'a Spec,
    pub(crate) scope: &'a Scope,
    pub(crate) machine: &'a str,
    /// Empty for an orphan.
    pub(crate) uid: &'a str,
    pub(crate) named: Option<Thing<'a>>,
}

impl Deletion<'_> {
    /// Removes it, and answers when it is gone.
    pub(crate) async fn run(&self) -> Result<(), DriverError> {
        let server = match self.named {
            Some(Thing::Port(id)) => return self.leftover_port(id).await,
            Some(Thing::Volume(id)) => return self.leftover_volume(id).await,
            Some(Thing::Server(id)) => Some(id),
            None => None,
        };
        let gone = self.servers(server).await?;
        delete_ports(self.session, self.machine, &self.scope.marks, &gone).await?;
        if self.spec.root_disk_size > 0 {
            delete_volumes(self.session, self.machine, &self.scope.marks, &gone).await?;
        }
        Ok(())
    }

    /// Deletes the servers and waits until none of them is left.
    async fn servers(&self, id: Option<&str>) -> Result<BTreeSet<String>, DriverError> {
        let mut doomed = self.doomed(id).await?;
        let mut gone: BTreeSet<String> = doomed.iter().map(|server| server.id.clone()).collect();
        gone.extend(id.map(str::to_owned));
        if doomed.is_empty() {
            return Ok(gone);
        }
        self.delete_all(&doomed).await?;
        let ids = &gone;
        let waited = GONE
            .until(
                self.session.call,
                || (self.session.cloud.chance)(),
                || async {
                    let left = self.left(ids).await?;
                    // Nova refuses while it does something else with a server, and forgets a deletion that failed: it is asked again.
                    self.delete_all(&left).await?;
                    Ok(left.is_empty().then_some(()))
                },
            )
            .await?;
        match waited {
            Waited::Done(()) => Ok(gone),
            Waited::InVain => {
                doomed.truncate(1);
                let which = doomed.first().map(|server| server.id.as_str()).unwrap_or_default();
                let message = format!("server {which} of machine {:?} is still there after 20 minutes", self.machine);
                Err(DriverError::new(Code::DeadlineExceeded, message))
            }
        }
    }

    async fn delete_all(&self, servers: &[Server]) -> Result<(), DriverError> {
        for server in servers.iter().filter(|server| server.stage() != Stage::Ending) {
            match self.session.ask(&request::delete_server(&server.id), During::Elsewhere).await {
                Err(failed) if failed.is(404) || failed.is(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Those of these servers that are still there.
    async fn left(&self, ids: &BTreeSet<String>) -> Result<Vec<Server>, DriverError> {
        let mut left = Vec::new();
        for id in ids {
            let found = find::by_id(self.session, id, During::Elsewhere).await?;
            left.extend(found.filter(|server| !matches!(server.status.as_str(), "DELETED" | "SOFT_DELETED")));
        }
        Ok(left)
    }

    /// The servers that have to go.
    async fn doomed(&self, id: Option<&str>) -> Result<Vec<Server>, DriverError> {
        let mut named = find::named(self.session, self.machine, During::Elsewhere).await?;
        let Some(id) = id else {
            let mut ours = Vec::new();
            for server in named {
                match self.owner(&server) {
                    Owner::Us => ours.push(server),
                    Owner::AnotherCluster(_) => {}
                    Owner::Nobody => return Err(self.untagged(&server)),
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
                Owner::AnotherCluster(key) => return Err(self.foreign(server, &key)),
                // It lost its tags, but has the machine's id and name.
                Owner::Nobody if server.name != self.machine => return Err(self.untagged(server)),
                Owner::Us | Owner::Nobody => {}
            }
        }
        Ok(named)
    }

    fn owner(&self, server: &Server) -> Owner {
        if self.scope.marks.on(&server.metadata) || server.is_of(self.uid) {
            return Owner::Us;
        }
        let of_a_cluster = server.metadata.keys().find(|key| key.contains("kubernetes.io-cluster-"));
        match of_a_cluster.filter(|key| **key != self.scope.marks.cluster) {
            Some(key) => Owner::AnotherCluster(key.clone()),
            None => Owner::Nobody,
        }
    }

    fn foreign(&self, server: &Server, key: &str) -> DriverError {
        let ours = &self.scope.marks.cluster;
        let message =
            format!("server {} belongs to another cluster: its metadata has {key}, and not {ours}", server.id);
        DriverError::new(Code::FailedPrecondition, message)
    }

    /// A server that may be ours and may be anybody's is neither deleted nor called deleted.
    fn untagged(&self, server: &Server) -> DriverError {
        let message = format!(
            "server {} ({:?}) may be that of machine {:?}, but its metadata has not both tags of the class; restore them or delete it by hand",
            server.id, server.name, self.machine
        );
        DriverError::new(Code::FailedPrecondition, message)
    }

    async fn leftover_port(&self, id: &str) -> Result<(), DriverError> {
        let answer = match self.session.ask(&request::port(id), During::Elsewhere).await {
            Err(failed) if failed.is(404) => return Ok(()),
            answer => answer?,
        };
        let Some(port) = answer.get("port").and_then(Port::read) else { return Ok(()) };
        let ours = port.name == self.machine && is_our_port(&port, &self.scope.marks);
        self.unused("port", id, ours, port.device.is_empty())?;
        removed(self.session, &request::delete_port(id)).await
    }

    async fn leftover_volume(&self, id: &str) -> Result<(), DriverError> {
        let answer = match self.session.ask(&request::volume(id), During::Elsewhere).await {
            Err(failed) if failed.is(404) => return Ok(()),
            answer => answer?,
        };
        let Some(volume) = answer.get("volume").and_then(Volume::read) else { return Ok(()) };
        let ours = volume.name == self.machine && self.scope.marks.on(&volume.metadata);
        self.unused("volume", id, ours, volume.servers.is_empty())?;
        removed(self.session, &request::delete_volume(id)).await
    }

    /// Between the list and the deletion a server may have come for it.
    fn unused(&self, what: &str, id: &str, ours: bool, unused: bool) -> Result<(), DriverError> {
        if !ours {
            let message = format!("{what} {id} is not one that was made for machine {:?}", self.machine);
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        let used = || DriverError::new(Code::Aborted, format!("{what} {id} is used by a server by now"));
        unused.then_some(()).ok_or_else(used)
    }
}

/// Whose a server is.
enum Owner {
    Us,
    AnotherCluster(String),
    Nobody,
}
