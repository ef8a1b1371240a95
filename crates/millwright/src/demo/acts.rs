//! What happens, act by act.

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
use super::printer::Printer;
use super::witness::{Witness, ready_pods};

/// How long a VM takes to boot.
const BOOT_TIME: Duration = Duration::from_secs(1);
/// No act takes longer than a few seconds; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(40);

/// Plays all of it.
pub(super) async fn play(environment: &Environment, printer: &Printer, witness: &Witness) -> anyhow::Result<()> {
    let play = Play { environment, printer };
    play.three_come_up().await?;
    play.scale_to_six().await?;
    witness.guard(true);
    play.roll_to_a_new_class().await?;
    witness.guard(false); // nobody asks a budget before a node dies
    play.a_node_dies().await?;
    play.everything_goes().await
}

struct Play<'a> {
    environment: &'a Environment,
    printer: &'a Printer,
}

impl Play<'_> {
    async fn three_come_up(&self) -> anyhow::Result<()> {
        self.printer.act("three machines come up");
        self.printer.person(
            "create namespace demo, Secret cloud, and MachineClasses v1 and v2 (boot in 1 s, join 0.5 s later)",
        );
        let make = PostParams::default();
        let namespaces: Api<Namespace> = Api::all(self.environment.person.clone());
        let namespace = read(objects::namespace())?;
        namespaces.create(&make, &namespace).await.context("failed to create the namespace")?;
        let secret: Secret = read(objects::secret())?;
        self.api::<Secret>().create(&make, &secret).await.context("failed to create the Secret")?;
        for name in ["v1", "v2"] {
            let class: MachineClass = read(objects::class(name, NAMESPACE, BOOT_TIME))?;
            self.api::<MachineClass>().create(&make, &class).await.context("failed to create a MachineClass")?;
        }
        self.printer.person("create MachineDeployment pool: three machines of class v1, surge 1, unavailable 0");
        let pool: MachineDeployment = read(objects::pool(3, "v1"))?;
        self.api::<MachineDeployment>().create(&make, &pool).await.context("failed to create the MachineDeployment")?;
        self.until("three machines run", |all| running(all, "v1") == 3 && all.len() == 3).await
    }

    async fn scale_to_six(&self) -> anyhow::Result<()> {
        self.printer.act("six are wanted, and a workload moves in");
        self.printer.person("scale the pool to six");
        self.patch_pool(json!({ "spec": { "replicas": 6 } })).await?;
        let make = PostParams::default();
        self.printer.person(&format!(
            "create Deployment shop with {PODS} pods and a budget that wants {MIN_PODS} of them at any time"
        ));
        let budget: PodDisruptionBudget = read(objects::budget())?;
        self.api::<PodDisruptionBudget>().create(&make, &budget).await.context("failed to create the budget")?;
        let workload: Deployment = read(objects::workload())?;
        self.api::<Deployment>().create(&make, &workload).await.context("failed to create the Deployment")?;
        self.until("six machines run", |all| running(all, "v1") == 6 && all.len() == 6).await?;
        self.until("the workload is up", |_| ready_pods(self.environment) == PODS).await
    }

    async fn roll_to_a_new_class(&self) -> anyhow::Result<()> {
        self.printer.act("all of them roll to a new class, one at a time, while the budget guards the workload");
        self.printer.person("change the class of the pool to v2");
        let template = json!({ "spec": { "class": { "name": "v2" } } });
        self.patch_pool(json!({ "spec": { "template": template } })).await?;
        self.until("six machines of class v2 run", |all| running(all, "v2") == 6 && all.len() == 6).await?;
        self.until("the workload is up again", |_| ready_pods(self.environment) == PODS).await
    }

    async fn a_node_dies(&self) -> anyhow::Result<()> {
        self.printer.act("a node dies");
        let machines = self.environment.cluster.machines().list();
        let victim = machines.iter().min_by_key(|machine| machine.name().to_owned()).context("there is no machine")?;
        let vm = self.environment.cloud.vms_of(victim.name()).into_iter().next().context("it has no VM")?;
        self.printer.world(&format!("the VM of {} loses its power", victim.name()));
        self.environment.cloud.kill(&vm.id);
        let lost = victim.name().to_owned();
        self.until("it is replaced", |all| {
            running(all, "v2") == 6 && all.len() == 6 && all.iter().all(|machine| machine.name() != lost)
        })
        .await
    }

    async fn everything_goes(&self) -> anyhow::Result<()> {
        self.printer.act("everything is drained and deleted");
        self.printer.person("delete Deployment shop with its budget, then MachineDeployment pool");
        let gone = DeleteParams::background();
        self.api::<PodDisruptionBudget>().delete(WORKLOAD, &gone).await.context("failed to delete the budget")?;
        self.api::<Deployment>().delete(WORKLOAD, &gone).await.context("failed to delete the Deployment")?;
        self.api::<MachineDeployment>().delete(POOL, &gone).await.context("failed to delete the MachineDeployment")?;
        self.until("everything is gone", |all| {
            let left = |kind: &str| self.environment.server.objects(kind).len();
            all.is_empty()
                && left("machinedeployments.machine.sapcloud.io") == 0
                && left("machinesets.machine.sapcloud.io") == 0
                && left("nodes") == 0
        })
        .await?;
        self.printer.world("machines, VMs and nodes are gone");
        Ok(())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: api::Object + serde::de::DeserializeOwned,
    {
        Api::namespaced(self.environment.person.clone(), NAMESPACE)
    }

    async fn patch_pool(&self, patch: Value) -> anyhow::Result<()> {
        let pools: Api<MachineDeployment> = self.api();
        pools.patch(POOL, &PatchParams::default(), &Patch::Merge(patch)).await.context("failed to change the pool")?;
        Ok(())
    }

    /// Waits for something to become true, as the controllers' own caches show it.
    async fn until(&self, what: &str, holds: impl Fn(&[std::sync::Arc<Machine>]) -> bool) -> anyhow::Result<()> {
        const GLANCE: Duration = Duration::from_millis(10);
        let machines = self.environment.cluster.machines();
        let watching = async {
            while !holds(&machines.list()) {
                tokio::time::sleep(GLANCE).await;
            }
        };
        if tokio::time::timeout(PATIENCE, watching).await.is_err() {
            let said: Vec<String> = machines
                .list()
                .iter()
                .map(|machine| {
                    format!("{} is {}: {}", machine.name(), machine.phase(), machine.status.last_operation.description)
                })
                .collect();
            bail!("waited {} s in vain until {what}:\n{}", PATIENCE.as_secs(), said.join("\n"));
        }
        self.printer.world(what);
        Ok(())
    }
}

/// How many machines of a class run.
fn running(machines: &[std::sync::Arc<Machine>], class: &str) -> usize {
    let runs = |machine: &Machine| {
        *machine.phase() == MachinePhase::Running && !machine.is_deleting() && machine.spec.class.name == class
    };
    machines.iter().filter(|machine| runs(machine)).count()
}
