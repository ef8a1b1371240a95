//! The scenario of the demo, step by step.

use std::time::Duration;

use anyhow::{Context, bail};
use api::{Machine, MachineClass, MachineDeployment, MachinePhase, Object};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runtime::client::Api;
use serde_json::{Value, json};

use super::environment::{Environment, NAMESPACE};
use super::objects::{self, MIN_PODS, PODS, POOL, WORKLOAD, read};
use super::observer::{Observer, ready_pods};
use super::printer::Printer;

/// Boot time of a VM.
const BOOT_TIME: Duration = Duration::from_secs(1);
/// Timeout of a wait. No wait takes longer than a few seconds.
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Runs the scenario.
pub(super) async fn run(environment: &Environment, printer: &Printer, observer: &Observer) -> anyhow::Result<()> {
    let scenario = Scenario { environment, printer };
    scenario.create_pool().await?;
    scenario.scale_to_six().await?;
    observer.guard(true);
    scenario.roll_out_a_new_class().await?;
    observer.guard(false); // a node failure does not respect the budget
    scenario.fail_a_node().await?;
    scenario.delete_everything().await
}

struct Scenario<'a> {
    environment: &'a Environment,
    printer: &'a Printer,
}

impl Scenario<'_> {
    async fn create_pool(&self) -> anyhow::Result<()> {
        self.printer.step("create a pool of three machines");
        self.printer.user(
            "create namespace demo, Secret cloud, and MachineClasses v1 and v2 (VMs boot in 1 s, nodes join 0.5 s later)",
        );
        let make = PostParams::default();
        let namespaces: Api<Namespace> = Api::all(self.environment.user.clone());
        let namespace = read(objects::namespace())?;
        namespaces.create(&make, &namespace).await.context("failed to create the namespace")?;
        let secret: Secret = read(objects::secret())?;
        self.api::<Secret>().create(&make, &secret).await.context("failed to create the Secret")?;
        for name in ["v1", "v2"] {
            let class: MachineClass = read(objects::class(name, NAMESPACE, BOOT_TIME))?;
            self.api::<MachineClass>().create(&make, &class).await.context("failed to create a MachineClass")?;
        }
        self.printer.user("create MachineDeployment pool: three machines of class v1, maxSurge 1, maxUnavailable 0");
        let pool: MachineDeployment = read(objects::pool(3, "v1"))?;
        self.api::<MachineDeployment>().create(&make, &pool).await.context("failed to create the MachineDeployment")?;
        self.until("three machines are Running", |all| running(all, "v1") == 3 && all.len() == 3).await
    }

    async fn scale_to_six(&self) -> anyhow::Result<()> {
        self.printer.step("scale the pool to six machines and deploy a workload");
        self.printer.user("scale the pool to six machines");
        self.patch_pool(json!({ "spec": { "replicas": 6 } })).await?;
        let make = PostParams::default();
        self.printer.user(&format!(
            "create Deployment shop with {PODS} pods and a PodDisruptionBudget with minAvailable {MIN_PODS}"
        ));
        let budget: PodDisruptionBudget = read(objects::budget())?;
        self.api::<PodDisruptionBudget>()
            .create(&make, &budget)
            .await
            .context("failed to create the PodDisruptionBudget")?;
        let workload: Deployment = read(objects::workload())?;
        self.api::<Deployment>().create(&make, &workload).await.context("failed to create the Deployment")?;
        self.until("six machines are Running", |all| running(all, "v1") == 6 && all.len() == 6).await?;
        self.until("all pods are ready", |_| ready_pods(self.environment) == PODS).await
    }

    async fn roll_out_a_new_class(&self) -> anyhow::Result<()> {
        self.printer.step("roll out a new class while the PodDisruptionBudget protects the workload");
        self.printer.user("change the class of the pool to v2");
        let template = json!({ "spec": { "class": { "name": "v2" } } });
        self.patch_pool(json!({ "spec": { "template": template } })).await?;
        self.until("six machines of class v2 are Running", |all| running(all, "v2") == 6 && all.len() == 6).await?;
        self.until("all pods are ready again", |_| ready_pods(self.environment) == PODS).await
    }

    async fn fail_a_node(&self) -> anyhow::Result<()> {
        self.printer.step("a node fails");
        let machines = self.environment.cluster.machines().list();
        let victim = machines.iter().min_by_key(|machine| machine.name().to_owned()).context("there is no machine")?;
        let vm = self.environment.cloud.vms_of(victim.name()).into_iter().next().context("the machine has no VM")?;
        self.printer.cluster(&format!("the VM of {} is powered off", victim.name()));
        self.environment.cloud.kill(&vm.id);
        let lost = victim.name().to_owned();
        self.until("the machine is replaced", |all| {
            running(all, "v2") == 6 && all.len() == 6 && all.iter().all(|machine| machine.name() != lost)
        })
        .await
    }

    async fn delete_everything(&self) -> anyhow::Result<()> {
        self.printer.step("drain and delete all machines");
        self.printer.user("delete Deployment shop with its PodDisruptionBudget, then MachineDeployment pool");
        let gone = DeleteParams::background();
        self.api::<PodDisruptionBudget>()
            .delete(WORKLOAD, &gone)
            .await
            .context("failed to delete the PodDisruptionBudget")?;
        self.api::<Deployment>().delete(WORKLOAD, &gone).await.context("failed to delete the Deployment")?;
        self.api::<MachineDeployment>().delete(POOL, &gone).await.context("failed to delete the MachineDeployment")?;
        self.until("all machines and nodes are deleted", |all| {
            let left = |kind: &str| self.environment.server.objects(kind).len();
            all.is_empty()
                && left("machinedeployments.machine.sapcloud.io") == 0
                && left("machinesets.machine.sapcloud.io") == 0
                && left("nodes") == 0
        })
        .await?;
        self.printer.cluster("all machines, VMs and nodes are deleted");
        Ok(())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: api::Object + serde::de::DeserializeOwned,
    {
        Api::namespaced(self.environment.user.clone(), NAMESPACE)
    }

    async fn patch_pool(&self, patch: Value) -> anyhow::Result<()> {
        let pools: Api<MachineDeployment> = self.api();
        pools.patch(POOL, &PatchParams::default(), &Patch::Merge(patch)).await.context("failed to change the pool")?;
        Ok(())
    }

    /// Waits until a condition is true in the caches of the controllers.
    async fn until(&self, what: &str, holds: impl Fn(&[std::sync::Arc<Machine>]) -> bool) -> anyhow::Result<()> {
        const POLL_INTERVAL: Duration = Duration::from_millis(10);
        let machines = self.environment.cluster.machines();
        let watching = async {
            while !holds(&machines.list()) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(WAIT_TIMEOUT, watching).await.is_err() {
            let machines: Vec<String> = machines
                .list()
                .iter()
                .map(|machine| {
                    format!("{} is {}: {}", machine.name(), machine.phase(), machine.status.last_operation.description)
                })
                .collect();
            bail!(
                "timed out after {} s while waiting for \"{what}\":\n{}",
                WAIT_TIMEOUT.as_secs(),
                machines.join("\n")
            );
        }
        self.printer.cluster(what);
        Ok(())
    }
}

/// Returns the number of Running Machines of a MachineClass.
fn running(machines: &[std::sync::Arc<Machine>], class: &str) -> usize {
    let runs = |machine: &Machine| {
        *machine.phase() == MachinePhase::Running && !machine.is_deleting() && machine.spec.class.name == class
    };
    machines.iter().filter(|machine| runs(machine)).count()
}
