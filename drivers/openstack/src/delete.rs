//! Removing a server, and what was made for it.
//!
//! A provider id names one server, and no other is touched: the collector of orphans removes the younger of two in this way while the older
//! one runs. Without a provider id the name is all there is, and every server of it that is ours goes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backoff::Exponential;
use driver::{Code, DriverError};
use driver_common::codes::During;
use driver_common::poll::{Poll, Waited};
use driver_common::provider_spec::Scope;

use crate::answer::{Port, Server, Stage, Volume};
use crate::codes::is_passing;
use crate::find;
use crate::identity::Thing;
use crate::ports::{Doomed, delete_volumes, is_our_port, removed};
use crate::request;
use crate::session::Session;
use crate::spec::{OF_A_CLUSTER, Spec};

/// How long Nova may take to remove a server, as long as the reference waits.
const GONE: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(250), Duration::from_secs(5)),
    patience: Duration::from_mins(20),
};

/// Number of looks in a row that may fail for a passing reason.
const MOST_FAILURES: u32 = 3;

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
        let doomed = self.doomed(server).await?;
        let mut gone: BTreeSet<String> = doomed.iter().map(|server| server.id.clone()).collect();
        gone.extend(server.map(str::to_owned));
        let ports = Doomed::find(self.session, self.machine, &self.scope.marks, &gone).await?;
        ports.delete_unused(self.session).await?;
        self.delete_servers(&doomed).await?;
        find::forget(self.session, self.machine, self.uid);
        ports.delete_used(self.session).await?;
        if self.spec.root_disk_size > 0 {
            delete_volumes(self.session, self.machine, &self.scope.marks, &gone).await?;
        }
        Ok(())
    }

    /// Deletes the servers and waits until none of them is left. A Nova that fails for a moment is asked again.
    async fn delete_servers(&self, doomed: &[Server]) -> Result<(), DriverError> {
        let Some(first) = doomed.first() else { return Ok(()) };
        let failures = AtomicU32::new(0);
        let survives =
            |error: &DriverError| is_passing(error) && failures.fetch_add(1, Ordering::Relaxed) < MOST_FAILURES;
        match self.delete_all(doomed).await {
            Err(error) if !survives(&error) => return Err(error),
            _ => {}
        }
        let waited = GONE
            .until(
                self.session.call,
                || (self.session.cloud.chance)(),
                || async {
                    match self.look(doomed).await {
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
            Waited::InVain => {
                let message =
                    format!("server {} of machine {:?} is still there after 20 minutes", first.id, self.machine);
                Err(DriverError::new(Code::DeadlineExceeded, message))
            }
        }
    }

    /// Looks for the servers, and deletes those that are left: Nova refuses while it does something else with a server, and forgets a
    /// deletion that failed. Returns whether all are gone.
    async fn look(&self, doomed: &[Server]) -> Result<bool, DriverError> {
        let left = self.left(doomed).await?;
        self.delete_all(&left).await?;
        Ok(left.is_empty())
    }

    async fn delete_all(&self, servers: &[Server]) -> Result<(), DriverError> {
        for server in servers.iter().filter(|server| server.stage() != Stage::Ending) {
            match self.session.ask(&request::delete_server(&server.id), During::Elsewhere).await {
                Err(failed) if failed.is_absent() || failed.is(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Those of these servers that are still there.
    async fn left(&self, doomed: &[Server]) -> Result<Vec<Server>, DriverError> {
        let mut left = Vec::new();
        for server in doomed {
            let found = find::by_id(self.session, &server.id, During::Elsewhere).await?;
            left.extend(found.filter(|server| !matches!(server.status.as_str(), "DELETED" | "SOFT_DELETED")));
        }
        Ok(left)
    }

    /// The servers that have to go.
    async fn doomed(&self, id: Option<&str>) -> Result<Vec<Server>, DriverError> {
        let mut named = find::named(self.session, self.machine, self.uid, During::Elsewhere).await?;
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
        let of_a_cluster = server.metadata.keys().find(|key| key.contains(OF_A_CLUSTER));
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
        let found = self.session.one(&request::port(id), "port", Port::read, During::Elsewhere).await?;
        let Some(port) = found else { return Ok(()) };
        let ours = port.name == self.machine && is_our_port(&port, &self.scope.marks);
        self.unused("port", id, ours, port.device.is_empty())?;
        removed(self.session, &request::delete_port(id)).await
    }

    async fn leftover_volume(&self, id: &str) -> Result<(), DriverError> {
        let found = self.session.one(&request::volume(id), "volume", Volume::read, During::Elsewhere).await?;
        let Some(volume) = found else { return Ok(()) };
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
