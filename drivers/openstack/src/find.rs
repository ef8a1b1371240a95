//! Looking for servers, and telling which of several is the machine's.
//!
//! Nova makes a second server of the same name without a word. Two come about when the answer to a first request is lost, or when it takes
//! effect late. Both carry the machine's uid then, so nobody has to ask whose they are: the older one is the machine's.

use std::collections::BTreeMap;

use driver::{Code, DriverError, Found};
use driver_common::codes::During;
use driver_common::owned::Marks;
use parking_lot::Mutex;

use crate::answer::{Server, Stage};
use crate::identity::{Thing, provider_id};
use crate::request;
use crate::session::Session;

/// More creates than that are not in progress in one process.
const MOST_ACCEPTED: usize = 10_000;

/// Ids of servers that Nova has accepted, by account, machine and uid, until the create returns or the server is gone. A server whose id is
/// kept is found even if Nova's search by name does not find it.
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

/// Keeps the id of the server that Nova has accepted for a machine.
pub(crate) fn keep(session: &Session<'_>, machine: &str, uid: &str, id: &str) {
    let mut kept = session.cloud.accepted.0.lock();
    if kept.len() >= MOST_ACCEPTED {
        kept.clear();
    }
    kept.insert(key(session, machine, uid), id.to_owned());
}

/// Forgets the id that was kept for a machine.
pub(crate) fn forget(session: &Session<'_>, machine: &str, uid: &str) {
    session.cloud.accepted.0.lock().remove(&key(session, machine, uid));
}

/// The servers of exactly this name, whoever they belong to, and the one that Nova has accepted for this machine.
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

/// The server of this id.
pub(crate) async fn by_id(session: &Session<'_>, id: &str, during: During) -> Result<Option<Server>, DriverError> {
    session.one(&request::server(id), "server", Server::read, during).await
}

/// The machine's server, and those that are one too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) server: Server,
    /// Made by requests for the same Machine; to be removed.
    pub(crate) doubles: Vec<Server>,
}

/// Which of the servers of a name is the machine's. Several are `OutOfRange`, which makes the controller look for orphans at once, unless all of
/// them were made for this very Machine.
pub(crate) fn settle(
    servers: Vec<Server>,
    marks: &Marks,
    machine: &str,
    uid: &str,
) -> Result<Option<Settled>, DriverError> {
    let is_ours = |server: &Server| marks.on(&server.metadata) || server.is_of(uid);
    let living = |server: &Server| server.stage() != Stage::Ending && server.name == machine && is_ours(server);
    let mut found: Vec<Server> = servers.into_iter().filter(living).collect();
    if found.len() > 1 && !found.iter().all(|server| server.is_of(uid)) {
        let ids = found.iter().map(|server| server.id.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("multiple VM instances found backing the machine {machine:?}: [{ids}]");
        return Err(DriverError::new(Code::OutOfRange, message));
    }
    // Ids break ties, so that two processes agree.
    found.sort_by(|a, b| {
        let key = |server: &Server| (server.stage() == Stage::Failed, server.created.clone(), server.id.clone());
        key(a).cmp(&key(b))
    });
    let mut found = found.into_iter();
    Ok(found.next().map(|server| Settled { server, doubles: found.collect() }))
}

pub(crate) fn found(region: &str, server: &Server) -> Found {
    Found {
        provider_id: provider_id(region, Thing::Server(&server.id)),
        node_name: server.name.clone().into(),
        addresses: server.addresses(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Marks {
        Marks { cluster: "c".into(), role: "r".into() }
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
    fn of_two_servers_for_one_machine_the_older_one_is_kept() {
        let two = vec![server("b", "2026-01-01T00:00:02Z", "u"), server("a", "2026-01-01T00:00:01Z", "u")];
        let settled = settle(two, &marks(), "m", "u").unwrap().unwrap();
        assert_eq!((settled.server.id.as_str(), settled.doubles[0].id.as_str()), ("a", "b"));
        let same = vec![server("b", "2026-01-01T00:00:01Z", "u"), server("a", "2026-01-01T00:00:01Z", "u")];
        assert_eq!(settle(same, &marks(), "m", "u").unwrap().unwrap().server.id, "a");
    }

    /// Shows OST-W6.
    #[test]
    fn a_server_that_failed_is_not_kept_before_one_that_did_not() {
        let failed = Server { status: "ERROR".into(), ..server("a", "2026-01-01T00:00:01Z", "u") };
        let settled =
            settle(vec![failed, server("b", "2026-01-01T00:00:02Z", "u")], &marks(), "m", "u").unwrap().unwrap();
        assert_eq!((settled.server.id.as_str(), settled.doubles[0].id.as_str()), ("b", "a"));
    }

    /// Shows OST-W6, OST-C4.
    #[test]
    fn several_servers_that_were_not_all_made_for_the_machine_are_out_of_range() {
        for (one, asked) in [("v", "u"), ("", "u"), ("u", "")] {
            let two = vec![server("a", "1", "u"), server("b", "2", one)];
            assert_eq!(settle(two, &marks(), "m", asked).unwrap_err().code(), Code::OutOfRange);
        }
    }

    #[test]
    fn servers_of_others_and_those_that_are_ending_do_not_count() {
        let ending = Server { task: "deleting".into(), ..server("a", "1", "u") };
        let foreign = Server { metadata: [("c".to_owned(), String::new())].into(), ..server("b", "2", "") };
        let longer = Server { name: "m2".into(), ..server("c", "3", "u") };
        assert_eq!(settle(vec![ending, foreign, longer], &marks(), "m", "u").unwrap(), None);
    }

    /// Shows OST-W4.
    #[test]
    fn a_server_that_lost_its_tags_is_known_by_the_uid() {
        let bare =
            Server { metadata: [(crate::identity::UID.to_owned(), "u".to_owned())].into(), ..server("a", "1", "u") };
        assert!(settle(vec![bare], &marks(), "m", "u").unwrap().is_some());
    }
}
