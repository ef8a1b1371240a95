//! The lifecycle of a pool. After every step, servers, ports and volumes are counted with OpenStack's own client, and
//! each Machine must have exactly one of each with its name.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use cloud_fakes::proxy::{Asked, Fault, Front, Instead, Proxy, Rule};
use lab_openstack::{Endpoint, TENANT};
use serde_json::Value;
use tokio::time::sleep;

use super::Setting;
use super::cloud::{Counted, FLAVOR, OTHER_FLAVOR};
use super::objects::{Place, ROLE_KEY, cluster_key};
use crate::suites::clouds::setting::{name, phase};
use crate::suites::report::Report;

/// Short timeouts for a busy host; an orphan VM is deleted after a creation timeout.
const FLAGS: [&str; 5] = [
    "--machine-creation-timeout=2m",
    "--machine-health-timeout=5s",
    "--machine-safety-orphan-vms-period=10s",
    "--machine-safety-orphan-vms-min-interval=10s",
    "--resource-exhausted-retry=20s",
];
/// Duration of Nova's outage.
const OUTAGE: Duration = Duration::from_mins(1);
/// How long a service accepts a token after Keystone has revoked it.
const TOKEN_CACHE_TTL: Duration = Duration::from_secs(11);
/// Name of a server of this cluster without a Machine. It must not begin with the prefix of the pool.
const ORPHAN: &str = "orphan-1";
/// Name of a server of another cluster.
const FOREIGN: &str = "foreign-1";
/// Quota at the start.
const QUOTA: usize = 20;

/// A pool and its environment.
struct Pool<'a> {
    setting: &'a Setting<'a>,
    namespace: &'static str,
    /// Between the driver and every service.
    proxy: &'a Proxy,
}

/// Runs the cases.
pub(super) async fn play(
    setting: &Setting<'_>,
    front: &Front,
    target: &Value,
    report: &mut Report,
) -> anyhow::Result<()> {
    let proxy = &Proxy::start(front.port()).await.context("failed to start a proxy")?;
    let pool = Pool { setting, namespace: "life", proxy };
    let auth_url = format!("{}/v3", proxy.endpoint());
    let place = Place { namespace: pool.namespace, auth_url: &auth_url, target };
    let objects = [place.class("small", FLAVOR), place.class("other", OTHER_FLAVOR), place.pool("small")];
    setting.test_bed.apply("life", &place.with(objects))?;
    let manager = setting.start_manager("life-manager", pool.namespace)?;
    let driver = setting.start_driver("life", "life-driver", "")?;
    let machines = setting.start_machine_controller("life-machines", pool.namespace, "life", &FLAGS)?;

    // An orphan VM is deleted after a creation timeout, which passes during the first cases.
    pool.plant().await?;
    report.case("a pool of two has two servers, two ports and two volumes", pool.sized(2)).await;
    report.case("scaled to four and to three, it has as many of each", pool.resized(&[4, 3])).await;
    report
        .case("after a rollout it has three servers of the other flavor", pool.rolled("other", OTHER_FLAVOR, 3))
        .await;
    report.case("a server deleted by another client is replaced", pool.replaced(3)).await;
    report.case("an orphan server is deleted, a foreign one is not", pool.orphan_collected(3)).await;
    report.case("exceeded quota is reported, and resolved by more quota", pool.over_quota(3)).await;
    report.case("the pool grows after an outage of Nova", pool.without_nova(4)).await;
    report.case("a revoked token is replaced", pool.token_revoked(3)).await;
    report.case("lost responses result in no duplicates", pool.answers_lost(4)).await;
    report.case("errors and resets before the effect are retried", pool.errors(5)).await;
    report.case("a deleted pool leaves no server, port, volume or Machine", pool.deleted()).await;
    let ended = async {
        machines.terminate()?;
        driver.terminate()?;
        manager.terminate()
    };
    report.case("both components and the driver stop on SIGTERM", ended).await;
    Ok(())
}

impl Pool<'_> {
    async fn sized(&self, size: usize) -> anyhow::Result<()> {
        self.scale(size)?;
        self.settled(size, |_| true).await.map(drop)
    }

    async fn resized(&self, sizes: &[usize]) -> anyhow::Result<()> {
        for size in sizes {
            self.sized(*size).await?;
        }
        Ok(())
    }

    async fn rolled(&self, class: &str, flavor: &str, size: usize) -> anyhow::Result<()> {
        let patch = format!(r#"{{"spec":{{"template":{{"spec":{{"class":{{"name":"{class}"}}}}}}}}}}"#);
        self.kubectl(&["patch", "machinedeployment", self.namespace, "--type=merge", "--patch", &patch])?;
        let of_class = |machine: &Value| machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class);
        let counted = self.settled(size, of_class).await?;
        ensure!(
            counted.servers.iter().all(|server| server.flavor == flavor),
            "not all servers have flavor {flavor}: {counted:?}"
        );
        Ok(())
    }

    async fn replaced(&self, size: usize) -> anyhow::Result<()> {
        let counted = self.setting.cloud.of(self.namespace).await?;
        let victim = counted.servers.first().context("no server exists")?;
        self.setting.cloud.delete(&victim.id).await?;
        self.settled(size, |machine| name(machine) != victim.name).await.map(drop)
    }

    /// Creates servers without a Machine: one of this cluster and one of another cluster.
    async fn plant(&self) -> anyhow::Result<()> {
        for (name, cluster) in [(ORPHAN, self.namespace), (FOREIGN, "theirs")] {
            let key = cluster_key(cluster);
            self.setting.cloud.plant(name, &BTreeMap::from([(key.as_str(), "1"), (ROLE_KEY, "1")])).await?;
        }
        Ok(())
    }

    async fn orphan_collected(&self, size: usize) -> anyhow::Result<()> {
        let cloud = self.setting.cloud;
        self.setting
            .until("the orphan server is deleted", async || {
                let left = cloud.of(ORPHAN).await?.servers;
                Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?} still exists")) })
            })
            .await?;
        let foreign = cloud.of(FOREIGN).await?.servers;
        cloud.delete(&foreign.first().context("the foreign server was deleted")?.id).await?;
        self.settled(size, |_| true).await.map(drop)
    }

    async fn over_quota(&self, size: usize) -> anyhow::Result<()> {
        self.setting.cloud.set_quota(size).await?;
        self.scale(size + 1)?;
        let code = "/status/lastOperation/errorCode";
        self.setting
            .until("a Machine reports the exceeded quota", async || {
                let machines = self.setting.machines(self.namespace)?;
                let codes: Vec<&str> = machines.iter().filter_map(|machine| machine.pointer(code)?.as_str()).collect();
                let told = codes.iter().any(|code| code.contains("ResourceExhausted"));
                Ok(if told { Ok(()) } else { Err(format!("the error codes are {codes:?}")) })
            })
            .await?;
        let counted = self.setting.cloud.of(self.namespace).await?;
        ensure!(counted.servers.len() == size, "{} servers exist", counted.servers.len());
        self.setting.cloud.set_quota(QUOTA).await?;
        self.settled(size + 1, |_| true).await.map(drop)
    }

    async fn without_nova(&self, size: usize) -> anyhow::Result<()> {
        let (lab, nova) = (self.setting.cloud.0, Endpoint::Nova.process());
        lab.end(nova).await?;
        self.scale(size + 1)?;
        sleep(OUTAGE).await;
        let machines = self.setting.machines(self.namespace)?.len();
        ensure!(machines == size + 1, "{machines} Machines exist during the outage of Nova");
        lab.begin(nova).await?;
        self.settled(size + 1, |_| true).await?;
        Ok(())
    }

    async fn token_revoked(&self, size: usize) -> anyhow::Result<()> {
        // Before the token is revoked: the next scan for orphan VMs may be the first rejected request.
        let before = self.proxy.asked().len();
        self.setting.cloud.0.revoke_tokens(TENANT).await?;
        sleep(TOKEN_CACHE_TTL).await;
        self.sized(size).await?;
        let asked = self.proxy.asked().split_off(before);
        let tokens = asked.iter().filter(|asked| asked.path.ends_with("/v3/auth/tokens")).count();
        ensure!(tokens > 0, "no new token was requested");
        Ok(())
    }

    async fn answers_lost(&self, size: usize) -> anyhow::Result<()> {
        self.proxy.rule(Rule::next(Fault::ResetAfter, posted("/ports")));
        self.proxy.rule(Rule::next(Fault::ResetAfter, posted("/volumes")));
        self.proxy.rule(Rule::next(Fault::ResetAfter, posted("/servers")));
        let outcome = self.sized(size).await;
        self.proxy.clear();
        outcome
    }

    async fn errors(&self, size: usize) -> anyhow::Result<()> {
        let failed = || Instead::openstack(503, "by rule");
        self.proxy.rule(Rule::next(Fault::AnsweredBefore(failed()), posted("/ports")));
        self.proxy.rule(Rule::next(Fault::ResetBefore, posted("/volumes")));
        self.proxy.rule(Rule::next(Fault::AnsweredBefore(failed()), posted("/servers")));
        self.proxy.rule(Rule::next(Fault::Delay(Duration::from_secs(3)), posted("/servers")));
        let outcome = self.sized(size).await;
        self.proxy.clear();
        outcome
    }

    async fn deleted(&self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", self.namespace, "--wait=false"])?;
        self.setting
            .until("all Machines are deleted", async || {
                let left = self.setting.machines(self.namespace)?.len();
                Ok(if left == 0 { Ok(()) } else { Err(format!("{left} still exist")) })
            })
            .await?;
        let left = self.setting.cloud.of(self.namespace).await?;
        ensure!(left.is_nothing(), "resources still exist: {left:?}");
        Ok(())
    }

    /// Waits until this number of Machines run and match `like`, and checks that OpenStack has one server, port and
    /// volume for each and no other.
    async fn settled(&self, size: usize, like: impl Fn(&Value) -> bool) -> anyhow::Result<Counted> {
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
        let mut wanted: Vec<String> = machines.iter().map(|machine| name(machine).to_owned()).collect();
        wanted.sort_unstable();
        let counted = self.setting.cloud.of(self.namespace).await?;
        let servers: Vec<String> = counted.servers.iter().map(|server| server.name.clone()).collect();
        ensure!(wanted == servers, "the Machines are {wanted:?}, the servers are {servers:?}");
        ensure!(wanted == counted.ports, "the Machines are {wanted:?}, the ports are {:?}", counted.ports);
        ensure!(wanted == counted.volumes, "the Machines are {wanted:?}, the volumes are {:?}", counted.volumes);
        Ok(counted)
    }

    fn scale(&self, size: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={size}");
        self.kubectl(&["scale", "machinedeployment", self.namespace, &replicas]).map(drop)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.setting.kubectl(self.namespace, arguments)
    }
}

/// Returns a filter for requests that create an object in this collection.
fn posted(collection: &'static str) -> impl FnMut(&Asked) -> bool + Send + 'static {
    move |asked| asked.method == "POST" && asked.path.ends_with(collection)
}
