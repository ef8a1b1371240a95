//! Counts the resources of OpenStack with its own client instead of the driver, because a driver that overlooks a port
//! would also hide it from the test.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use lab_openstack::{ADMIN, Lab, TENANT};
use serde_json::Value;

use crate::suites::clouds::kubelets::Kubelet;

pub(super) const REGION: &str = "RegionOne";
pub(super) const IMAGE: &str = "img";
pub(super) const FLAVOR: &str = "m1.small";
pub(super) const OTHER_FLAVOR: &str = "m1.medium";

/// Resources whose names have a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) servers: Vec<Server>,
    /// Names.
    pub(super) ports: Vec<String>,
    /// Names.
    pub(super) volumes: Vec<String>,
    /// Names of deleted servers, if listed by an administrator.
    pub(super) deleted: Vec<String>,
}

impl Counted {
    /// Returns the resources with exactly this name.
    pub(super) fn named(&self, name: &str) -> Self {
        let named = |names: &[String]| names.iter().filter(|its| *its == name).cloned().collect();
        Self {
            servers: self.servers.iter().filter(|server| server.name == name).cloned().collect(),
            ports: named(&self.ports),
            volumes: named(&self.volumes),
            deleted: named(&self.deleted),
        }
    }

    /// Returns whether no resource exists.
    pub(super) fn is_nothing(&self) -> bool {
        self.servers.is_empty() && self.ports.is_empty() && self.volumes.is_empty()
    }
}

/// A server, as shown by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) flavor: String,
}

/// OpenStack, without the driver.
#[derive(Clone, Copy)]
pub(super) struct Cloud<'a>(pub(super) &'a Lab);

impl Cloud<'_> {
    /// Returns the servers, ports and volumes whose names begin with this prefix.
    pub(super) async fn of(&self, prefix: &str) -> anyhow::Result<Counted> {
        let lists = [&["server", "list"][..], &["port", "list"], &["volume", "list"]];
        let [servers, ports, volumes] = self.0.client(TENANT).each(lists).await?;
        let begins = |name: &str| name.starts_with(prefix);
        let mut servers: Vec<Server> = rows(&servers).map(server).filter(|server| begins(&server.name)).collect();
        servers.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Counted { servers, ports: names(&ports, begins), volumes: names(&volumes, begins), deleted: Vec::new() })
    }

    /// Returns all resources, and all deleted servers, which only administrators can list.
    pub(super) async fn ever(&self) -> anyhow::Result<Counted> {
        let of_all = |words: &[&'static str]| [words, &["list", "--all-projects"]].concat();
        let (servers, volumes) = (of_all(&["server"]), of_all(&["volume"]));
        let deleted = [&servers[..], &["--deleted"]].concat();
        let lists = [&servers[..], &["port", "list"], &volumes, &deleted];
        let [servers, ports, volumes, deleted] = self.0.client(ADMIN).each(lists).await?;
        Ok(Counted {
            servers: rows(&servers).map(server).collect(),
            ports: names(&ports, |_| true),
            volumes: names(&volumes, |_| true),
            deleted: names(&deleted, |_| true),
        })
    }

    /// Creates a server without the driver.
    pub(super) async fn plant(&self, name: &str, metadata: &BTreeMap<&str, &str>) -> anyhow::Result<()> {
        let properties: Vec<String> = metadata.iter().map(|(key, value)| format!("--property={key}={value}")).collect();
        let mut words =
            vec!["server", "create", "--image", IMAGE, "--flavor", FLAVOR, "--network", "shoot", "--wait", name];
        words.extend(properties.iter().map(String::as_str));
        let made = self.0.client(TENANT).json(&words).await?;
        ensure!(made.get("status").and_then(Value::as_str) == Some("ACTIVE"), "failed to create {name}: {made}");
        Ok(())
    }

    /// Deletes a server without the driver.
    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.0
            .client(TENANT)
            .text(&["server", "delete", "--wait", id])
            .await
            .map(drop)
            .context("failed to delete a server")
    }

    /// Sets the maximum number of servers.
    pub(super) async fn set_quota(&self, servers: usize) -> anyhow::Result<()> {
        let number = servers.to_string();
        Ok(self.0.client(ADMIN).text(&["quota", "set", "--instances", &number, TENANT.project]).await.map(drop)?)
    }

    /// Returns the running servers for the simulated kubelets.
    pub(super) async fn running(&self) -> anyhow::Result<Vec<Kubelet>> {
        let running = self.0.running().await?.into_iter();
        let kubelet = |(id, node)| Kubelet { provider_id: format!("openstack:///{REGION}/{id}"), id, node };
        Ok(running.map(kubelet).collect())
    }
}

/// Returns the rows of a list.
fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(row: &Value, column: &str) -> String {
    row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn server(row: &Value) -> Server {
    Server { id: text(row, "ID"), name: text(row, "Name"), flavor: text(row, "Flavor") }
}

/// Returns the names in a list, sorted.
fn names(list: &Value, like: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names: Vec<String> = rows(list).map(|row| text(row, "Name")).filter(|name| like(name)).collect();
    names.sort_unstable();
    names
}
