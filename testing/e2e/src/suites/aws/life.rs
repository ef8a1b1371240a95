//! The lifecycle of a pool. After every step, EC2 is queried, and each Machine must have exactly one instance with its
//! name.

use std::time::Duration;

use anyhow::{Context, ensure};
use cloud_fakes::moto::Moto;
use cloud_fakes::proxy::{Asked, Proxy};
use tokio::time::sleep;

use super::Setting;
use super::ec2::{Ec2, Instance, cluster_tag};
use super::objects::Place;
use crate::suites::clouds::pool::{Counts, Pool as CloudPool};
use crate::suites::clouds::setting::name;
use crate::suites::report::Report;

/// Short timeouts for a busy host; an orphan VM is deleted after a creation timeout.
const FLAGS: [&str; 4] = [
    "--machine-creation-timeout=30s",
    "--machine-health-timeout=5s",
    "--machine-safety-orphan-vms-period=5s",
    "--machine-safety-orphan-vms-min-interval=5s",
];
const ROLE: (&str, &str) = ("kubernetes.io/role/node", "1");

/// Period for which an idle pool is observed; it contains several scans.
const REST: Duration = Duration::from_secs(12);
/// Each scan lists the instances of each class once: two classes, a scan every five seconds, and one that has just
/// started.
const LISTS_AT_REST: usize = 2 * 4;

/// The pool of all cases.
type Pool<'a> = CloudPool<'a, Ec2<'a>>;

/// Runs the cases.
pub(super) async fn play(setting: &Setting<'_>, moto: &Moto, subnet: &str, report: &mut Report) -> anyhow::Result<()> {
    let proxy = &Proxy::start(moto.port()).await.context("failed to start a proxy")?;
    let pool = &Pool { setting, namespace: "life", deployment: "pool" };
    let place = Place { namespace: pool.namespace, subnet };
    let objects = [place.class("small", "m5.large"), place.class("other", "m5.xlarge"), place.pool("small")];
    setting.test_bed.apply("life", &place.with(objects))?;
    let manager = setting.start_manager("life-manager", pool.namespace)?;
    let driver = setting.start_driver("life", "life-driver", &proxy.endpoint())?;
    let machines = setting.start_machine_controller("life-machines", pool.namespace, "life", &FLAGS)?;

    report.case("a pool of three has three instances", pool.sized(3)).await;
    report.case("scaled to five and to four, it has as many instances", pool.resized(&[5, 4])).await;
    report.case("after a rollout it has four instances of the other type", pool.rolled("other", "m5.xlarge", 4)).await;
    report.case("an instance terminated by another client is replaced", replaced(pool, 4)).await;
    report.case("only an orphan instance with a name is deleted", orphan_collected(pool, 4)).await;
    report.case("an idle pool only lists instances for orphan scans", at_rest(proxy)).await;
    report.case("a deleted pool leaves no instance, Machine or Node", deleted(pool)).await;
    let ended = async {
        machines.terminate()?;
        driver.terminate()?;
        manager.terminate()
    };
    report.case("both components and the driver stop on SIGTERM", ended).await;
    Ok(())
}

async fn replaced(pool: &Pool<'_>, size: usize) -> anyhow::Result<()> {
    let machines = pool.setting.machines(pool.namespace)?;
    let victim = machines.first().map(name).context("there is no Machine")?.to_owned();
    let living = pool.setting.cloud.living_of(pool.namespace).await?;
    let instance = living.iter().find(|instance| instance.name() == victim).context("it has no instance")?;
    pool.setting.cloud.terminate(&instance.id).await?;
    pool.settled(size, |machine| name(machine) != victim).await.map(drop)
}

async fn orphan_collected(pool: &Pool<'_>, size: usize) -> anyhow::Result<()> {
    let (ec2, cluster) = (pool.setting.cloud, cluster_tag(pool.namespace));
    let cluster = (cluster.as_str(), "1");
    let orphan = ec2.plant(&[cluster, ROLE, ("Name", "pool-orphan")]).await?;
    let nameless = ec2.plant(&[cluster, ROLE]).await?;
    let theirs = cluster_tag("theirs");
    let foreign = ec2.plant(&[(&theirs, "1"), ROLE, ("Name", "pool-theirs")]).await?;
    ensure!(ec2.living_of(pool.namespace).await?.len() == size + 2, "EC2 does not list the created instances");
    let lives = async |wanted: &Instance| -> anyhow::Result<bool> {
        Ok(ec2.instances().await?.iter().any(|instance| instance.id == wanted.id && instance.lives()))
    };
    pool.setting
        .until("the orphan instance is deleted", async || {
            Ok(if lives(&orphan).await? { Err(format!("{} still exists", orphan.id)) } else { Ok(()) })
        })
        .await?;
    for (kept, what) in [(&nameless, "nameless"), (&foreign, "foreign")] {
        ensure!(lives(kept).await?, "the {what} instance was terminated");
        ec2.terminate(&kept.id).await?;
    }
    pool.settled(size, |_| true).await.map(drop)
}

async fn at_rest(proxy: &Proxy) -> anyhow::Result<()> {
    let before = proxy.asked().len();
    sleep(REST).await;
    let asked = proxy.asked().split_off(before);
    let is_list = |asked: &Asked| asked.action() == "DescribeInstances" && !asked.body.contains("tag%3AName");
    let other: Vec<&str> = asked.iter().filter(|asked| !is_list(asked)).map(|asked| &*asked.body).collect();
    ensure!(other.is_empty(), "unexpected requests to EC2: {other:?}");
    ensure!(asked.len() <= LISTS_AT_REST, "{} lists in {} s", asked.len(), REST.as_secs());
    Ok(())
}

async fn deleted(pool: &Pool<'_>) -> anyhow::Result<()> {
    pool.deleted().await?;
    let leaked = pool.setting.cloud.living_of(pool.namespace).await?;
    ensure!(leaked.is_empty(), "{} instances still exist: {leaked:?}", leaked.len());
    for instance in pool.setting.cloud.ever_of(pool.namespace).await?.iter().filter(|i| !i.name().is_empty()) {
        let node = pool.kubectl(&["get", "node", &instance.private_dns, "--ignore-not-found", "--output=name"])?;
        ensure!(node.is_empty() || instance.name() == "pool-orphan", "the Node of {} still exists", instance.name());
    }
    Ok(())
}

impl Counts for Ec2<'_> {
    type Counted = Vec<Instance>;

    async fn counted(&self, namespace: &str, machines: &[&str]) -> anyhow::Result<Vec<Instance>> {
        let instances = self.living_of(namespace).await?;
        let mut found: Vec<&str> = instances.iter().map(Instance::name).collect();
        found.sort_unstable();
        ensure!(machines == found, "the Machines are {machines:?}, the instances are {found:?}");
        Ok(instances)
    }

    fn kinds(counted: &Vec<Instance>) -> impl Iterator<Item = &str> {
        counted.iter().map(|instance| instance.kind.as_str())
    }
}
