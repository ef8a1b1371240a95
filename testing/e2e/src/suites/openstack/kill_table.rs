//! The [kill table](crate::suites::clouds::kill_table) of OpenStack: the proxies are between the driver and every
//! service, and servers, ports and volumes are counted with OpenStack's own client.
//!
//! Only the machine controller with the driver in it is killed. Separate kills of both are covered on EC2, where a
//! machine takes one second instead of twenty.

use std::collections::BTreeSet;

use anyhow::ensure;
use cloud_fakes::proxy::{Asked, Front};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::cloud::{Cloud, Counted, FLAVOR};
use super::objects::Place;
use crate::suites::clouds::kill_table::{CLASS, Killed, Victim};

/// Number of machines that run in parallel. The quota is higher, but the CPU is the limit.
const LANES: usize = 4;

/// OpenStack behind its proxies.
pub(super) struct Table<'a> {
    pub(super) cloud: Cloud<'a>,
    pub(super) front: &'a Front,
    pub(super) target: &'a Value,
    /// The last list of all resources. The client takes seconds, so one list is shared by all waiting tasks.
    pub(super) counted: Mutex<Option<(Instant, Counted)>>,
}

impl Killed for Table<'_> {
    const SUITE: &'static str = super::NAME;
    const SENTENCE: &'static str = "one server";
    const VICTIMS: &'static [Victim] = &[Victim::Both];

    fn port(&self) -> u16 {
        self.front.port()
    }

    fn lanes(&self) -> usize {
        LANES
    }

    fn names(&self) -> impl FnMut(&Asked) -> Option<String> + Send + 'static {
        names()
    }

    fn objects(&self, _lane: usize, namespace: &str, address: &str, machine: Value) -> Value {
        let place = Place { namespace, auth_url: &format!("{address}/v3"), target: self.target };
        place.with([place.class(CLASS, FLAVOR), machine])
    }

    async fn is_whole(&self, machine: &str) -> anyhow::Result<()> {
        let Counted { servers, ports, volumes, .. } = self.of(machine).await?;
        let counts = [servers.len(), ports.len(), volumes.len()];
        ensure!(counts == [1; 3], "OpenStack has {counts:?} servers, ports and volumes of the machine");
        Ok(())
    }

    async fn is_gone(&self, machine: &str) -> anyhow::Result<()> {
        let left = self.of(machine).await?;
        let ever = left.deleted.len();
        ensure!(ever == 1, "Nova created {ever} servers of the machine");
        ensure!(left.is_nothing(), "OpenStack still has {left:?}");
        Ok(())
    }
}

impl Table<'_> {
    /// Returns the current resources of a machine.
    async fn of(&self, machine: &str) -> anyhow::Result<Counted> {
        let since = Instant::now();
        let mut counted = self.counted.lock().await;
        let all = match counted.take() {
            Some((begun, all)) if begun >= since => counted.insert((begun, all)),
            _ => {
                let begun = Instant::now();
                counted.insert((begun, self.cloud.ever().await?))
            }
        };
        Ok(all.1.named(machine))
    }
}

/// Returns a function that names the requests of a machine: service, method, path without ids, and filter.
///
/// The number of polls differs in every run. So of the reads between two writes each counts once and is named after the
/// first of these writes. Before the first write there is no polling.
fn names() -> impl FnMut(&Asked) -> Option<String> + Send + 'static {
    let (mut after, mut asked_since) = (None, BTreeSet::new());
    move |asked| {
        let name = name(asked)?;
        if asked.method != "GET" {
            // A token request is not a step of a machine.
            if !name.ends_with("tokens") {
                after = Some(name.clone());
                asked_since.clear();
            }
            return Some(name);
        }
        let Some(after) = &after else { return Some(name) };
        let name = format!("{name} after {after}");
        asked_since.insert(name.clone()).then_some(name)
    }
}

/// Returns the name of a request; `None` for the scan for orphan VMs, which runs periodically.
fn name(asked: &Asked) -> Option<String> {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    let service = parts.next_if(|part| !part.starts_with('v')).unwrap_or("keystone");
    // Skips the version, and in Cinder the project.
    let rest: Vec<&str> = parts.skip(if service == "cinder" { 2 } else { 1 }).collect();
    let words: Vec<&str> = rest.iter().map(|part| if is_id(part) { "*" } else { part }).collect();
    let by: Vec<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    let by = by.first().copied().filter(|by| !by.is_empty());
    let is_scan = matches!(
        (words.as_slice(), by),
        (["servers", "detail"], None) | (["ports"], Some("network_id")) | (["volumes", "detail"], Some("metadata"))
    );
    let by = by.map(|by| format!("?{by}")).unwrap_or_default();
    (!is_scan).then(|| format!("{} {service} {}{by}", asked.method, words.join("/")))
}

/// Returns whether a path segment is an id.
fn is_id(part: &str) -> bool {
    part.len() >= 32 && part.chars().all(|char| char.is_ascii_hexdigit() || char == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str) -> Asked {
        Asked { method: method.to_owned(), path: path.to_owned(), body: String::new(), number: 0 }
    }

    #[test]
    fn requests_are_named_by_service_and_path_without_orphan_scans() {
        let id = "0123456789abcdef0123456789abcdef";
        let named = |method: &str, path: &str| name(&asked(method, path));
        assert_eq!(named("POST", "/v3/auth/tokens").unwrap(), "POST keystone auth/tokens");
        assert_eq!(named("DELETE", &format!("/nova/v2.1/servers/{id}")).unwrap(), "DELETE nova servers/*");
        assert_eq!(named("GET", "/nova/v2.1/servers/detail?name=a").unwrap(), "GET nova servers/detail?name");
        assert_eq!(named("POST", &format!("/cinder/v3/{id}/volumes")).unwrap(), "POST cinder volumes");
        assert_eq!(named("PUT", &format!("/neutron/v2.0/ports/{id}/tags")).unwrap(), "PUT neutron ports/*/tags");
        for scan in [
            "/nova/v2.1/servers/detail",
            "/neutron/v2.0/ports?network_id=n&device_id=",
            &format!("/cinder/v3/{id}/volumes/detail?metadata=m"),
        ] {
            assert_eq!(named("GET", scan), None, "{scan}");
        }
    }

    #[test]
    fn repeated_reads_between_two_writes_count_once() {
        let (look, made) = (asked("GET", "/nova/v2.1/servers/detail?name=a"), asked("POST", "/nova/v2.1/servers"));
        let life = [&look, &look, &made, &look, &look, &look];
        let named: Vec<String> = life.into_iter().filter_map(names()).collect();
        let (look, made) = ("GET nova servers/detail?name", "POST nova servers");
        assert_eq!(named, [look, look, made, &format!("{look} after {made}")]);
    }
}
