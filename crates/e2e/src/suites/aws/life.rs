//! A pool from its first machine to its last. After every step the instances are counted at EC2 itself, and each Machine has exactly
//! one that bears its name.

use std::time::Duration;

use anyhow::{Context, ensure};
use driver_testing::moto::Moto;
use driver_testing::proxy::{Asked, Proxy};
use serde_json::Value;
use tokio::time::sleep;

use super::Setting;
use super::ec2::{Instance, cluster_tag};
use super::objects::Place;
use crate::suites::clouds::setting::{name, phase};
use crate::suites::report::Report;

/// As short as a busy machine allows; an orphan has to be one for a whole creation timeout.
const FLAGS: [&str; 4] = [
    "--machine-creation-timeout=30s",
    "--machine-health-timeout=5s",
    "--machine-safety-orphan-vms-period=5s",
    "--machine-safety-orphan-vms-min-interval=5s",
];
const ROLE: (&str, &str) = ("kubernetes.io/role/node", "1");

/// How long a pool is watched at rest: for some scans.
const REST: Duration = Duration::from_secs(12);
/// Each scan lists the instances of each class once: two classes, a scan every five seconds, and one that has just begun.
const LISTS_AT_REST: usize = 2 * 4;

/// A pool, and who looks after it.
struct Pool<'a> {
    setting: &'a Setting<'a>,
    namespace: &'static str,
    /// Between the driver and EC2, to see what is asked.
    proxy: &'a Proxy,
}

/// Plays it.
pub(super) async fn play(setting: &Setting<'_>, moto: &Moto, subnet: &str, report: &mut Report) -> anyhow::Result<()> {
    let proxy = &Proxy::start(moto.port()).await.context("failed to start a proxy")?;
    let pool = Pool { setting, namespace: "life", proxy };
    let place = Place { namespace: pool.namespace, subnet };
    let objects = [place.class("small", "m5.large"), place.class("other", "m5.xlarge"), place.pool("small")];
    setting.test_bed.apply("life", &place.with(objects))?;
    let manager = setting.start_manager("life-manager", pool.namespace)?;
    let driver = setting.start_driver("life", "life-driver", &proxy.endpoint())?;
    let machines = setting.start_machine_controller("life-machines", pool.namespace, "life", &FLAGS)?;

    report.case("a pool of three has three instances", pool.sized(3)).await;
    report.case("scaled to five it has five, and scaled to four it has four", pool.resized(&[5, 4])).await;
    report
        .case("rolled to another class it has four instances of the other type", pool.rolled("other", "m5.xlarge", 4))
        .await;
    report.case("an instance that was terminated behind our back is replaced", pool.replaced(4)).await;
    report
        .case(
            "an instance of a machine that does not exist is collected, a nameless and a foreign one are not",
            pool.orphan_collected(4),
        )
        .await;
    report.case("a pool at rest asks EC2 for nothing but the list of each scan for orphans", pool.at_rest()).await;
    report.case("a pool that is deleted leaves no instance, no Machine and no Node", pool.deleted()).await;
    let ended = async {
        machines.terminate()?;
        driver.terminate()?;
        manager.terminate()
    };
    report.case("asked to end, both components and the driver end", ended).await;
    Ok(())
}

impl Pool<'_> {
    async fn sized(&self, size: usize) -> anyhow::Result<()> {
        self.kubectl(&["scale", "machinedeployment", "pool", &format!("--replicas={size}")])?;
        self.settled(size, |_| true).await.map(drop)
    }

    async fn resized(&self, sizes: &[usize]) -> anyhow::Result<()> {
        for size in sizes {
            self.sized(*size).await?;
        }
        Ok(())
    }

    async fn rolled(&self, class: &str, kind: &str, size: usize) -> anyhow::Result<()> {
        let patch = format!(r#"{{"spec":{{"template":{{"spec":{{"class":{{"name":"{class}"}}}}}}}}}}"#);
        self.kubectl(&["patch", "machinedeployment", "pool", "--type=merge", "--patch", &patch])?;
        let of_class = |machine: &Value| machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class);
        let instances = self.settled(size, of_class).await?;
        ensure!(instances.iter().all(|instance| instance.kind == kind), "not all are {kind}: {instances:?}");
        Ok(())
    }

    async fn replaced(&self, size: usize) -> anyhow::Result<()> {
        let machines = self.setting.machines(self.namespace)?;
        let victim = machines.first().map(name).context("there is no Machine")?.to_owned();
        let living = self.setting.cloud.living_of(self.namespace).await?;
        let instance = living.iter().find(|instance| instance.name() == victim).context("it has no instance")?;
        self.setting.cloud.terminate(&instance.id).await?;
        self.settled(size, |machine| name(machine) != victim).await.map(drop)
    }

    async fn orphan_collected(&self, size: usize) -> anyhow::Result<()> {
        let (ec2, cluster) = (self.setting.cloud, cluster_tag(self.namespace));
        let cluster = (cluster.as_str(), "1");
        let orphan = ec2.plant(&[cluster, ROLE, ("Name", "pool-nobody")]).await?;
        let nameless = ec2.plant(&[cluster, ROLE]).await?;
        let theirs = cluster_tag("theirs");
        let foreign = ec2.plant(&[(&theirs, "1"), ROLE, ("Name", "pool-theirs")]).await?;
        ensure!(ec2.living_of(self.namespace).await?.len() == size + 2, "EC2 does not show what was planted");
        let lives = async |wanted: &Instance| -> anyhow::Result<bool> {
            Ok(ec2.instances().await?.iter().any(|instance| instance.id == wanted.id && instance.lives()))
        };
        self.setting
            .until("the orphan is gone", async || {
                Ok(if lives(&orphan).await? { Err(format!("{} still lives", orphan.id)) } else { Ok(()) })
            })
            .await?;
        for (kept, what) in [(&nameless, "nameless"), (&foreign, "foreign")] {
            ensure!(lives(kept).await?, "the {what} instance was terminated, and nobody may");
            ec2.terminate(&kept.id).await?;
        }
        self.settled(size, |_| true).await.map(drop)
    }

    async fn at_rest(&self) -> anyhow::Result<()> {
        let before = self.proxy.asked().len();
        sleep(REST).await;
        let asked = self.proxy.asked().split_off(before);
        let is_list = |asked: &Asked| asked.action() == "DescribeInstances" && !asked.body.contains("tag%3AName");
        let other: Vec<&str> = asked.iter().filter(|asked| !is_list(asked)).map(|asked| &*asked.body).collect();
        ensure!(other.is_empty(), "EC2 was asked {other:?}");
        ensure!(asked.len() <= LISTS_AT_REST, "{} lists in {} s", asked.len(), REST.as_secs());
        Ok(())
    }

    async fn deleted(&self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", "pool", "--wait=false"])?;
        self.setting
            .until("all Machines are gone", async || {
                let left = self.setting.machines(self.namespace)?.len();
                Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
            })
            .await?;
        let leaked = self.setting.cloud.living_of(self.namespace).await?;
        ensure!(leaked.is_empty(), "{} instances are left: {leaked:?}", leaked.len());
        for instance in self.setting.cloud.ever_of(self.namespace).await?.iter().filter(|i| !i.name().is_empty()) {
            let node = self.kubectl(&["get", "node", &instance.private_dns, "--ignore-not-found", "--output=name"])?;
            ensure!(node.is_empty() || instance.name() == "pool-nobody", "the Node of {} is left", instance.name());
        }
        Ok(())
    }

    /// Waits until so many Machines run, all of them like this, and sees that EC2 holds one instance for each and no other.
    async fn settled(&self, size: usize, like: impl Fn(&Value) -> bool) -> anyhow::Result<Vec<Instance>> {
        let machines = self
            .setting
            .until("the pool has settled", async || {
                let all = self.setting.machines(self.namespace)?;
                let settled =
                    all.len() == size && all.iter().all(|machine| phase(machine) == "Running" && like(machine));
                let shown = || {
                    all.iter().map(|machine| format!("{} is {:?}", name(machine), phase(machine))).collect::<Vec<_>>()
                };
                Ok(if settled { Ok(all) } else { Err(format!("{:?}", shown())) })
            })
            .await?;
        let instances = self.setting.cloud.living_of(self.namespace).await?;
        let mut wanted: Vec<&str> = machines.iter().map(name).collect();
        let mut found: Vec<&str> = instances.iter().map(Instance::name).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        ensure!(wanted == found, "the Machines are {wanted:?}, and the instances {found:?}");
        Ok(instances)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.setting.kubectl(self.namespace, arguments)
    }
}
