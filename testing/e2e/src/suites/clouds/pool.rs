//! A pool of machines of a cloud: it is sized, rolled and deleted, and after every step the cloud itself is asked what it holds.

use std::fmt;

use anyhow::ensure;
use serde_json::{Value, json};

use super::setting::{Setting, name, phase};

/// A cloud that tells, past the driver, what it holds.
pub(in crate::suites) trait Counts {
    /// What belongs to a pool.
    type Counted: fmt::Debug;

    /// What belongs to the pool of this namespace. Fails unless it is exactly what these Machines have, in the order of their names.
    async fn counted(&self, namespace: &str, machines: &[&str]) -> anyhow::Result<Self::Counted>;

    /// Which kind of server each of them is.
    fn kinds(counted: &Self::Counted) -> impl Iterator<Item = &str>;
}

/// A pool, and who looks after it.
pub(in crate::suites) struct Pool<'a, Cloud> {
    pub(in crate::suites) setting: &'a Setting<'a, Cloud>,
    pub(in crate::suites) namespace: &'static str,
    /// The name of its MachineDeployment.
    pub(in crate::suites) deployment: &'static str,
}

impl<Cloud: Counts> Pool<'_, Cloud> {
    /// Asks for another size, and waits for it.
    pub(in crate::suites) async fn sized(&self, size: usize) -> anyhow::Result<()> {
        self.scale(size)?;
        self.settled(size, |_| true).await.map(drop)
    }

    /// One size after the other.
    pub(in crate::suites) async fn resized(&self, sizes: &[usize]) -> anyhow::Result<()> {
        for size in sizes {
            self.sized(*size).await?;
        }
        Ok(())
    }

    /// Rolls to another class, whose servers are of this kind.
    pub(in crate::suites) async fn rolled(&self, class: &str, kind: &str, size: usize) -> anyhow::Result<()> {
        let patch = json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } }).to_string();
        self.kubectl(&["patch", "machinedeployment", self.deployment, "--type=merge", "--patch", &patch])?;
        let of_class = |machine: &Value| machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class);
        let counted = self.settled(size, of_class).await?;
        ensure!(Cloud::kinds(&counted).all(|its| its == kind), "not all are {kind}: {counted:?}");
        Ok(())
    }

    /// Deletes it, and waits until no Machine is left.
    pub(in crate::suites) async fn deleted(&self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", self.deployment, "--wait=false"])?;
        self.setting
            .until("all Machines are gone", async || {
                let left = self.setting.machines(self.namespace)?.len();
                Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
            })
            .await
    }

    /// Waits until so many Machines run, all of them like this, and sees that the cloud holds what belongs to each and nothing else.
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

    /// Asks for another size.
    pub(in crate::suites) fn scale(&self, size: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={size}");
        self.kubectl(&["scale", "machinedeployment", self.deployment, &replicas]).map(drop)
    }

    /// What kubectl says of its namespace.
    pub(in crate::suites) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.setting.kubectl(self.namespace, arguments)
    }
}
