//! A pool of machines in a cloud: it is scaled, rolled and deleted, and the resources of the cloud are counted after
//! every step.

use std::fmt;

use anyhow::ensure;
use serde_json::{Value, json};

use super::setting::{Setting, name, phase};

/// A cloud that can list its resources without the driver.
pub(in crate::suites) trait Counts {
    /// The resources of a pool.
    type Counted: fmt::Debug;

    /// Returns the resources of the pool in this namespace. Fails unless they are exactly those of these Machines,
    /// sorted by name.
    async fn counted(&self, namespace: &str, machines: &[&str]) -> anyhow::Result<Self::Counted>;

    /// Returns the server type of each resource.
    fn kinds(counted: &Self::Counted) -> impl Iterator<Item = &str>;
}

/// A pool and its environment.
pub(in crate::suites) struct Pool<'a, Cloud> {
    pub(in crate::suites) setting: &'a Setting<'a, Cloud>,
    pub(in crate::suites) namespace: &'static str,
    /// The name of its MachineDeployment.
    pub(in crate::suites) deployment: &'static str,
}

impl<Cloud: Counts> Pool<'_, Cloud> {
    /// Scales the pool and waits.
    pub(in crate::suites) async fn sized(&self, size: usize) -> anyhow::Result<()> {
        self.scale(size)?;
        self.settled(size, |_| true).await.map(drop)
    }

    /// Scales the pool to each size.
    pub(in crate::suites) async fn resized(&self, sizes: &[usize]) -> anyhow::Result<()> {
        for size in sizes {
            self.sized(*size).await?;
        }
        Ok(())
    }

    /// Rolls the pool to another MachineClass with this server type.
    pub(in crate::suites) async fn rolled(&self, class: &str, kind: &str, size: usize) -> anyhow::Result<()> {
        let patch = json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } }).to_string();
        self.kubectl(&["patch", "machinedeployment", self.deployment, "--type=merge", "--patch", &patch])?;
        let of_class = |machine: &Value| machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class);
        let counted = self.settled(size, of_class).await?;
        ensure!(Cloud::kinds(&counted).all(|its| its == kind), "not all servers are of type {kind}: {counted:?}");
        Ok(())
    }

    /// Deletes the pool and waits until no Machine is left.
    pub(in crate::suites) async fn deleted(&self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", self.deployment, "--wait=false"])?;
        self.setting
            .until("all Machines are deleted", async || {
                let left = self.setting.machines(self.namespace)?.len();
                Ok(if left == 0 { Ok(()) } else { Err(format!("{left} still exist")) })
            })
            .await
    }

    /// Waits until this number of Machines run and match `like`, and checks the resources in the cloud.
    pub(in crate::suites) async fn settled(
        &self,
        size: usize,
        like: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Cloud::Counted> {
        let machines = self
            .setting
            .until("the pool has settled", async || {
                let all = self.setting.machines(self.namespace)?;
                let settled =
                    all.len() == size && all.iter().all(|machine| phase(machine) == "Running" && like(machine));
                let shown = || all.iter().map(|machine| format!("{} is {:?}", name(machine), phase(machine)));
                Ok(if settled { Ok(all) } else { Err(format!("{:?}", shown().collect::<Vec<_>>())) })
            })
            .await?;
        let mut wanted: Vec<&str> = machines.iter().map(name).collect();
        wanted.sort_unstable();
        self.setting.cloud.counted(self.namespace, &wanted).await
    }

    /// Scales the pool.
    pub(in crate::suites) fn scale(&self, size: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={size}");
        self.kubectl(&["scale", "machinedeployment", self.deployment, &replicas]).map(drop)
    }

    /// Runs kubectl in its namespace.
    pub(in crate::suites) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.setting.kubectl(self.namespace, arguments)
    }
}
