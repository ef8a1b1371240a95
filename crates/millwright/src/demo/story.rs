//! What happens in the demo, and what must be true in the end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::{Machine, MachineClass, MachinePhase, Object};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stage::{CONTROLLER, NAMESPACE, Stage};
use super::voice::Voice;

const NAME: &str = "worker-1";
/// No act of this play takes longer than a few seconds; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// Writes to the API server that a machine's whole life may cost.
const MOST_WRITES: u64 = 12;

/// Plays it. True if everything went as promised.
pub(super) async fn tell(voice: Voice) -> anyhow::Result<bool> {
    voice.title("One machine's life, on an embedded API server and an embedded cloud.\n");
    let narrator = voice.clone();
    let stage =
        Stage::set(Arc::new(move |decision| narrator.millwright(&decision.did.join(", then "), &decision.because)))?;
    let outcome = play(&stage, &voice).await;
    stage.clear().await;
    outcome?;

    voice.title("\nWhat was promised:");
    let kept = review(&stage, &voice);
    voice.end(kept);
    Ok(kept)
}

async fn play(stage: &Stage, voice: &Voice) -> anyhow::Result<()> {
    let machines: Api<Machine> = Api::namespaced(stage.person.clone(), NAMESPACE);
    set_the_scene(stage, voice).await?;

    voice.person(&format!("create Machine {NAME}"));
    machines.create(&PostParams::default(), &machine()?).await.context("failed to create the Machine")?;
    until(stage, "the Machine is Running", |s| phase(s) == Some(MachinePhase::Running)).await?;
    let running = stage.cluster.machines.list().into_iter().next().context("the Machine vanished")?;
    voice.world(&format!("the Machine says: {}", running.status.last_operation.description));
    for node in stage.cluster.target.iter().flat_map(|target| target.nodes.list()) {
        voice.world(&format!("node {:?} is Ready on {}", node.name(), node.spec.provider_id));
    }

    voice.person(&format!("delete Machine {NAME}"));
    machines.delete(NAME, &DeleteParams::default()).await.context("failed to delete the Machine")?;
    until(stage, "the Machine is gone", |s| s.cluster.machines.is_empty()).await?;
    voice.world("Machine, VM and node are gone");
    Ok(())
}

async fn set_the_scene(stage: &Stage, voice: &Voice) -> anyhow::Result<()> {
    let make = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(stage.person.clone());
    let secrets: Api<Secret> = Api::namespaced(stage.person.clone(), NAMESPACE);
    let classes: Api<MachineClass> = Api::namespaced(stage.person.clone(), NAMESPACE);
    voice.person("create namespace demo, Secret cloud and MachineClass small (boots in 1 s, joins 0.5 s later)");
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    namespaces.create(&make, &read(namespace)?).await.context("failed to create the namespace")?;
    let user_data = "#cloud-config\nhostname: <<MACHINE_NAME>>\n";
    let secret = json!({ "metadata": { "name": "cloud" }, "stringData": { "userData": user_data } });
    secrets.create(&make, &read(secret)?).await.context("failed to create the Secret")?;
    let class = json!({
        "metadata": { "name": "small" },
        "provider": virtual_cloud::PROVIDER,
        "providerSpec": {
            "createLatency": "200ms",
            "bootLatency": "1s",
            "deleteLatency": "300ms",
            "join": { "after": "500ms" },
        },
        "secretRef": { "name": "cloud", "namespace": NAMESPACE },
    });
    classes.create(&make, &read(class)?).await.context("failed to create the MachineClass")?;
    Ok(())
}

fn machine() -> anyhow::Result<Machine> {
    read(json!({ "metadata": { "name": NAME }, "spec": { "class": { "kind": "MachineClass", "name": "small" } } }))
}

/// What must be true, whatever the order in which things happened.
fn review(stage: &Stage, voice: &Voice) -> bool {
    let created = stage.cloud.count(driver::Method::Create);
    let left = stage.cloud.vms().len();
    let nodes = stage.server.objects("nodes").len();
    let counts = stage.server.request_counts();
    let ours = || counts.iter().filter(|(tally, _)| tally.user_agent.starts_with(CONTROLLER));
    let is_write = |verb: &str| ["create", "update", "patch", "delete"].contains(&verb);
    // The finalizers of its class and Secret are written once for all machines of the class, not for each.
    let of_all = |resource: &str| ["machineclasses", "secrets"].iter().any(|kind| resource.starts_with(kind));
    let of_machine = ours().filter(|(tally, _)| is_write(&tally.verb) && !of_all(&tally.resource));
    let writes: u64 = of_machine.map(|(_, n)| n).sum();
    let conflicts: u64 = ours().filter(|(tally, _)| tally.code == 409).map(|(_, n)| n).sum();

    let mut all = true;
    let mut check = |promise: &str, kept: bool, detail: String| {
        voice.promise(promise, kept, detail);
        all &= kept;
    };
    check("one VM for one machine", created == 1, format!("{created} created"));
    check("nothing is left behind", left == 0 && nodes == 0, format!("{left} VMs, {nodes} nodes"));
    check("a handful of writes", writes <= MOST_WRITES, format!("{writes} to the API server for a whole life"));
    check("no conflict with ourselves", conflicts == 0, format!("{conflicts} writes refused as outdated"));
    all
}

fn phase(stage: &Stage) -> Option<MachinePhase> {
    stage.cluster.machines.list().first().map(|machine| machine.phase().clone())
}

/// Waits for something to become true in the controller's own caches.
async fn until(stage: &Stage, what: &str, holds: impl Fn(&Stage) -> bool) -> anyhow::Result<()> {
    const GLANCE: Duration = Duration::from_millis(10);
    let watching = async {
        while !holds(stage) {
            tokio::time::sleep(GLANCE).await;
        }
    };
    if tokio::time::timeout(PATIENCE, watching).await.is_err() {
        let waiting = stage.cluster.caches.waiting_for().join("; ");
        bail!("waited {} s in vain until {what}. {waiting}", PATIENCE.as_secs());
    }
    Ok(())
}

fn read<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("failed to build an object of the demo")
}
