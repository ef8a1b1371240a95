//! Finds servers and selects the one of a machine.
//!
//! Nova accepts two servers with the same name. Duplicates occur if the response to a first request is lost or the
//! request takes effect late. Both then carry the machine's uid, and the older one is used.

use std::collections::BTreeMap;

use driver::{Code, DriverError, Found};
use driver_common::codes::During;
use driver_common::owned::ClusterTags;
use parking_lot::Mutex;

use crate::answer::{Server, Stage};
use crate::identity::{Resource, provider_id};
use crate::request;
use crate::session::Session;

/// Maximum number of concurrent creates in one process.
const MAX_ACCEPTED: usize = 10_000;

/// Ids of servers that Nova has accepted, by account, machine and uid, until the create returns or the server is gone.
/// Such a server is found even if Nova's search by name does not find it.
#[derive(Debug, Default)]
pub(crate) struct Accepted(Mutex<BTreeMap<(String, String, String), String>>);

impl Accepted {
    fn id(&self, key: &(String, String, String)) -> Option<String> {
        self.0.lock().get(key).cloned()
    }
}

fn key(session: &Session<'_>, machine: &str, uid: &str) -> (String, String, String) {
    (session.account.clone(), machine.to_owned(), uid.to_owned())
}

/// Stores the id of the server that Nova has accepted for a machine.
pub(crate) fn keep(session: &Session<'_>, machine: &str, uid: &str, id: &str) {
    let mut kept = session.cloud.accepted.0.lock();
    if kept.len() >= MAX_ACCEPTED {
        kept.clear();
    }
    kept.insert(key(session, machine, uid), id.to_owned());
}

/// Drops the stored id of a machine.
pub(crate) fn forget(session: &Session<'_>, machine: &str, uid: &str) {
    session.cloud.accepted.0.lock().remove(&key(session, machine, uid));
}

/// Returns all servers with exactly this name, of any owner, and the one that Nova has accepted for this machine.
pub(crate) async fn named(
    session: &Session<'_>,
    machine: &str,
    uid: &str,
    during: During,
) -> Result<Vec<Server>, DriverError> {
    let found = session.list(&request::servers_named(machine), "servers", during).await?;
    let mut servers: Vec<Server> =
        found.iter().filter_map(Server::read).filter(|server| server.name == machine).collect();
    let accepted = session.cloud.accepted.id(&key(session, machine, uid));
    if let Some(id) = accepted.filter(|id| !servers.iter().any(|server| server.id == *id)) {
        match by_id(session, &id, during).await? {
            Some(server) => servers.push(server),
            None => forget(session, machine, uid),
        }
    }
    Ok(servers)
}

/// Returns the server with this id.
pub(crate) async fn by_id(session: &Session<'_>, id: &str, during: During) -> Result<Option<Server>, DriverError> {
    session.one(&request::server(id), "server", Server::read, during).await
}

/// The machine's server and its duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineServers {
    pub(crate) server: Server,
    /// Created by requests for the same Machine; to be deleted.
    pub(crate) duplicates: Vec<Server>,
}

/// Selects the machine's server among those with its name. Several servers are `OutOfRange`, which triggers the orphan
/// VM check immediately, unless all of them were created for this Machine.
pub(crate) fn select(
    servers: Vec<Server>,
    cluster_tags: &ClusterTags,
    machine: &str,
    uid: &str,
) -> Result<Option<MachineServers>, DriverError> {
    let is_ours = |server: &Server| cluster_tags.matches(&server.metadata) || server.is_of(uid);
    let living = |server: &Server| server.stage() != Stage::Deleting && server.name == machine && is_ours(server);
    let mut found: Vec<Server> = servers.into_iter().filter(living).collect();
    if found.len() > 1 && !found.iter().all(|server| server.is_of(uid)) {
        let ids = found.iter().map(|server| server.id.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("multiple VM instances found backing the machine {machine:?}: [{ids}]");
        return Err(DriverError::new(Code::OutOfRange, message));
    }
    // The id breaks ties, so that two processes choose the same server.
    found.sort_by(|a, b| {
        let key = |server: &Server| (server.stage() == Stage::Failed, server.created.clone(), server.id.clone());
        key(a).cmp(&key(b))
    });
    let mut found = found.into_iter();
    Ok(found.next().map(|server| MachineServers { server, duplicates: found.collect() }))
}

pub(crate) fn found(region: &str, server: &Server) -> Found {
    Found {
        provider_id: provider_id(region, Resource::Server(&server.id)),
        node_name: server.name.clone().into(),
        addresses: server.addresses(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster_tags() -> ClusterTags {
        ClusterTags { cluster: "c".into(), role: "r".into() }
    }

    fn server(id: &str, created: &str, uid: &str) -> Server {
        let tags = [("c", ""), ("r", ""), (crate::identity::UID, uid)];
        Server {
            id: id.into(),
            name: "m".into(),
            created: created.into(),
            status: "ACTIVE".into(),
            metadata: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Server::default()
        }
    }

    /// Shows OST-W6.
    #[test]
    fn older_of_two_servers_of_one_machine_is_selected() {
        let two = vec![server("b", "2026-01-01T00:00:02Z", "u"), server("a", "2026-01-01T00:00:01Z", "u")];
        let selected = select(two, &cluster_tags(), "m", "u").unwrap().unwrap();
        assert_eq!((selected.server.id.as_str(), selected.duplicates[0].id.as_str()), ("a", "b"));
        let same = vec![server("b", "2026-01-01T00:00:01Z", "u"), server("a", "2026-01-01T00:00:01Z", "u")];
        assert_eq!(select(same, &cluster_tags(), "m", "u").unwrap().unwrap().server.id, "a");
    }

    /// Shows OST-W6.
    #[test]
    fn working_server_is_preferred_to_a_failed_one() {
        let failed = Server { status: "ERROR".into(), ..server("a", "2026-01-01T00:00:01Z", "u") };
        let selected =
            select(vec![failed, server("b", "2026-01-01T00:00:02Z", "u")], &cluster_tags(), "m", "u").unwrap().unwrap();
        assert_eq!((selected.server.id.as_str(), selected.duplicates[0].id.as_str()), ("b", "a"));
    }

    /// Shows OST-W6, OST-C4.
    #[test]
    fn servers_of_different_machines_are_out_of_range() {
        for (one, asked) in [("v", "u"), ("", "u"), ("u", "")] {
            let two = vec![server("a", "1", "u"), server("b", "2", one)];
            assert_eq!(select(two, &cluster_tags(), "m", asked).unwrap_err().code(), Code::OutOfRange);
        }
    }

    #[test]
    fn foreign_and_deleted_servers_are_ignored() {
        let ending = Server { task: "deleting".into(), ..server("a", "1", "u") };
        let foreign = Server { metadata: [("c".to_owned(), String::new())].into(), ..server("b", "2", "") };
        let longer = Server { name: "m2".into(), ..server("c", "3", "u") };
        assert_eq!(select(vec![ending, foreign, longer], &cluster_tags(), "m", "u").unwrap(), None);
    }

    /// Shows OST-W4.
    #[test]
    fn server_without_tags_is_recognized_by_the_uid() {
        let bare =
            Server { metadata: [(crate::identity::UID.to_owned(), "u".to_owned())].into(), ..server("a", "1", "u") };
        assert!(select(vec![bare], &cluster_tags(), "m", "u").unwrap().is_some());
    }
}
