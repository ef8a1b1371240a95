//! Orphan VMs are deleted, and no other VMs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Machine, MachineName, MachinePhase, Object, ProviderId};
use driver::{
    Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method, Owners,
};
use driver_virtual::{Fault, Script, Spec, VirtualCloud};
use fake_apiserver::faults::{After, Verb};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use planner::safety::Limit;
use runtime::client::Api;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn plant(cluster: &TestCluster, machine: &str) -> String {
    let spec = Spec::decode(&json!({ "join": "never" })).unwrap();
    cluster.cloud.plant(spec, Some(machine.into())).unwrap().provider_id.to_string()
}

/// Deletes a Machine by force: its finalizer is removed first.
async fn force_delete(cluster: &TestCluster, name: &str) {
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    cluster.machines().patch(name, &PatchParams::default(), &free).await.unwrap();
    cluster.machines().delete(name, &DeleteParams::default()).await.ok();
    while cluster.machine(name).is_some() {
        cluster.machines().patch(name, &PatchParams::default(), &free).await.ok();
    }
}

/// A Machine that was restored from a backup: it runs on a VM that exists.
async fn restore(cluster: &TestCluster, name: &str, id: &str) {
    let mut machine: Machine = serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "class": { "kind": "MachineClass", "name": "small" }, "providerID": id },
    }))
    .unwrap();
    machine.status = serde_json::from_value(json!({ "currentStatus": { "phase": "Running" } })).unwrap();
    cluster.machines().create(&PostParams::default(), &machine).await.unwrap();
}

/// A driver whose list shows other names than the VMs were created with, or VMs that do not exist.
struct ChangedList {
    cloud: VirtualCloud,
    listed: Mutex<BTreeMap<ProviderId, MachineName>>,
}

#[async_trait::async_trait]
impl Driver for ChangedList {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.cloud.create(call, request).await
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.cloud.delete(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let mut owners = self.cloud.list(call, request).await?;
        owners.extend(self.listed.lock().clone());
        Ok(owners)
    }
}

/// Shows LIM-22.
#[tokio::test(start_paused = true)]
async fn vm_of_a_running_machine_stays_when_it_is_renamed() {
    let cluster = TestCluster::new(14);
    let driver = Arc::new(ChangedList { cloud: cluster.cloud.clone(), listed: Mutex::default() });
    let process = cluster.start_with(driver.clone());
    for name in ["m-0", "m-1"] {
        cluster.create(name).await;
    }
    let run = |w: &TestCluster| ["m-0", "m-1"].iter().all(|name| w.phase(name) == Some(MachinePhase::Running));
    cluster.until("both are Running", run).await;
    let id = |name: &str| cluster.machine(name).unwrap().spec.provider_id;
    driver.listed.lock().extend([(id("m-0"), "ghost".into()), (id("m-1"), "m-0".into())]);
    tokio::time::sleep(4 * HOUR).await;
    assert_eq!((cluster.cloud.vms().len(), cluster.cloud.count(Method::Delete)), (2, 0));
    let told = cluster.event_messages("VMNameMismatch");
    assert_eq!(told.len(), 2, "each is reported once: {told:?}");
    assert!(told.iter().any(|message| message.contains("\"ghost\"")), "{told:?}");
    let shown = process.metrics.encode().unwrap();
    assert!(shown.lines().any(|line| line == "millwright_orphan_vms{state=\"misnamed\"} 2"), "{shown}");
}

/// Machines that were deleted by force are restored from a backup while the deletions of their VMs wait in the driver queue.
/// Shows LIM-24.
#[tokio::test(start_paused = true)]
async fn orphan_deletion_is_not_sent_when_the_machine_came_back() {
    let mut cluster = TestCluster::new(15);
    cluster.policy.safety.orphan_limit = Limit::Any;
    // At most ten calls of one credential run at once. They take so long that the others are queued.
    cluster.cloud.inject(Script::always(Fault::Delay(5 * MINUTE)).on(Method::Delete));
    let _process = cluster.start();
    let mut ids: Vec<(String, String)> = (0..13)
        .map(|n| {
            let name = format!("gone-{n:02}");
            let id = plant(&cluster, &name);
            (id, name)
        })
        .collect();
    ids.sort(); // the order of the queue
    cluster.until("deletions are sent", |w| w.cloud.count(Method::Delete) > 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!((5..=10).contains(&cluster.cloud.count(Method::Delete)), "{}", cluster.cloud.count(Method::Delete));
    let waiting = &ids[11..];
    restore(&cluster, &waiting[0].1, &waiting[0].0).await; // under its name
    restore(&cluster, "renamed", &waiting[1].0).await; // under another name
    tokio::time::sleep(HOUR).await;
    let left: Vec<String> = cluster.cloud.vms().iter().map(|vm| vm.provider_id.to_string()).collect();
    assert_eq!(left, [waiting[0].0.clone(), waiting[1].0.clone()]);
    assert!(cluster.event_messages("OrphanVMNotDeleted").is_empty(), "nothing failed");
}

/// Shows MC-W45.
#[tokio::test(start_paused = true)]
async fn orphan_vm_is_deleted_after_the_creation_timeout() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start();
    plant(&cluster, "nobody");
    tokio::time::sleep(19 * MINUTE).await;
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 1, "its Machine may still appear");
    tokio::time::sleep(31 * MINUTE).await;
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 0);
    let told = cluster.event_messages("OrphanVMDeleted");
    assert!(told.len() == 1 && told[0].contains("because Machine does not exist"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn vm_of_a_force_deleted_machine_is_deleted() {
    let cluster = TestCluster::new(2);
    let process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    process.kill().await; // otherwise it would add the finalizer again
    force_delete(&cluster, "m-0").await;
    let _process = cluster.start();
    cluster.until("its VM is deleted", |w| w.cloud.vms().is_empty()).await;
}

/// Shows MC-W49.
#[tokio::test(start_paused = true)]
async fn second_vm_of_a_machine_is_deleted() {
    let cluster = TestCluster::new(3);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let own = cluster.machine("m-0").unwrap().spec.provider_id.to_string();
    plant(&cluster, "m-0");
    assert_eq!(cluster.cloud.vms_of("m-0").len(), 2);
    cluster.until("one VM remains", |w| w.cloud.vms_of("m-0").len() == 1).await;
    assert_eq!(cluster.cloud.vms_of("m-0")[0].provider_id, own.as_str());
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Running));
}

/// Shows MC-W33.
#[tokio::test(start_paused = true)]
async fn running_machines_keep_their_vms() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start();
    for n in 0..5 {
        cluster.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(4 * HOUR).await;
    assert_eq!((cluster.cloud.vms().len(), cluster.cloud.count(Method::Delete)), (5, 0));
    assert!(cluster.cloud.count(Method::List) >= 14, "VMs were listed every 15 minutes");
}

/// Shows MC-W45.
#[tokio::test(start_paused = true)]
async fn too_many_orphan_vms_are_kept_until_it_is_allowed() {
    let mut cluster = TestCluster::new(5);
    let process = cluster.start();
    for n in 0..4 {
        plant(&cluster, &format!("gone-{n}"));
    }
    tokio::time::sleep(3 * HOUR).await;
    assert_eq!((cluster.cloud.vms().len(), cluster.cloud.count(Method::Delete)), (4, 0));
    let told = cluster.event_messages("OrphanVMsHeldBack");
    assert!(told.iter().any(|message| message.contains("4 of 4 VMs")), "{told:?}");
    process.kill().await;
    cluster.policy.safety.orphan_limit = Limit::Any;
    let _process = cluster.start();
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
}

/// Shows MC-W46.
#[tokio::test(start_paused = true)]
async fn failed_list_of_one_class_does_not_block_others() {
    let cluster = TestCluster::new(6);
    let mut broken = class("a-broken-one", &json!({}));
    broken["provider"] = json!("elsewhere");
    cluster.server.insert(&broken).unwrap();
    let _process = cluster.start();
    plant(&cluster, "nobody");
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
    assert!(!cluster.event_messages("OrphanScanFailed").is_empty());
}

/// Shows MC-W47.
#[tokio::test(start_paused = true)]
async fn orphan_vm_listed_by_two_classes_is_deleted_once() {
    let cluster = TestCluster::new(7);
    cluster.server.insert(&class("another", &json!({}))).unwrap();
    let _process = cluster.start();
    plant(&cluster, "nobody");
    tokio::time::sleep(HOUR).await;
    assert_eq!((cluster.cloud.vms().len(), cluster.cloud.count(Method::Delete)), (0, 1));
}

/// Shows MC-W45.
#[tokio::test(start_paused = true)]
async fn late_cache_deletes_no_vm_of_an_existing_machine() {
    let mut cluster = TestCluster::new(8);
    cluster.policy.creation_timeout = Duration::from_secs(30); // shorter than the outage timeout
    cluster.policy.safety.orphan_period = Duration::from_secs(20);
    cluster.policy.safety.orphan_interval = Duration::from_secs(1);
    cluster.server.faults().on(Verb::Watch).of("machines").by_agent(CONTROLLER).times(2).stall_watch(After::Events(0));
    let process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let id = plant(&cluster, "m-0");
    restore(&cluster, "m-0", &id).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(process.cluster.machines().len(), 0, "the cache does not show it");
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(process.cluster.machines().len(), 1);
    assert_eq!((cluster.cloud.vms().len(), cluster.cloud.count(Method::Delete)), (1, 0));
}

/// Shows MC-W45.
#[tokio::test(start_paused = true)]
async fn frozen_controller_deletes_no_orphan_vm() {
    let cluster = TestCluster::new(9);
    let _process = cluster.start();
    tokio::time::sleep(MINUTE).await;
    let until = cluster.clock.now() + jiff::SignedDuration::from_hours(3);
    cluster.server.faults().on_any().by_agent(CONTROLLER).of("nodes").until(until).disconnect();
    tokio::time::sleep(5 * MINUTE).await;
    plant(&cluster, "nobody");
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(cluster.cloud.vms().len(), 1);
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
}

/// Shows MC-W33.
#[tokio::test(start_paused = true)]
async fn failed_orphan_deletion_is_reported_and_retried() {
    let cluster = TestCluster::new(10);
    cluster.cloud.inject(Script::always(Fault::Fail(api::Code::PermissionDenied)).on(Method::Delete).times(2));
    let _process = cluster.start();
    plant(&cluster, "nobody");
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
    assert!(cluster.event_messages("OrphanVMNotDeleted").iter().any(|message| message.contains("PermissionDenied")));
}

/// Shows MC-W33.
#[tokio::test(start_paused = true)]
async fn many_machine_deletions_trigger_few_scans() {
    let cluster = TestCluster::new(11);
    let _process = cluster.start();
    for n in 0..10 {
        cluster.create(&format!("m-{n}")).await;
    }
    let all_run = |w: &TestCluster| (0..10).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running));
    cluster.until("all are Running", all_run).await;
    let before = cluster.cloud.count(Method::List);
    for n in 0..10 {
        cluster.delete(&format!("m-{n}")).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    cluster.until("all are deleted", |w| w.server.objects("machines.machine.sapcloud.io").is_empty()).await;
    tokio::time::sleep(2 * MINUTE).await;
    let scans = cluster.cloud.count(Method::List) - before;
    assert!((1..=4).contains(&scans), "{scans} scans");
    let machines: Api<Machine> = Api::namespaced(cluster.client("person"), NAMESPACE);
    assert!(machines.list(&kube::api::ListParams::default()).await.unwrap().iter().all(|m| m.name().is_empty()));
}

/// Shows LIM-20.
#[tokio::test(start_paused = true)]
async fn vm_of_a_lost_machine_is_kept_by_the_next_leader() {
    let cluster = TestCluster::new(12);
    let first = cluster.start_replica("replica-a");
    let running = |name: &'static str| move |w: &TestCluster| w.phase(name) == Some(MachinePhase::Running);
    cluster.create("m-0").await;
    cluster.until("it is Running", running("m-0")).await;
    let backup = cluster.server.revision();
    cluster.create("m-1").await;
    cluster.until("it is Running", running("m-1")).await;
    tokio::time::sleep(2 * MINUTE).await;
    cluster.server.restore(backup).unwrap();
    tokio::time::sleep(10 * MINUTE).await;
    assert!(cluster.machine("m-1").is_none() && cluster.cloud.vms_of("m-1").len() == 1);
    first.kill().await;
    let _next = cluster.start_replica("replica-b");
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(cluster.cloud.vms_of("m-1").len(), 1, "its Machine was not deleted");
    assert_eq!(cluster.cloud.count(Method::Delete), 0);
}

/// Shows LIM-20.
#[tokio::test(start_paused = true)]
async fn orphan_vm_is_deleted_despite_short_lived_leaders() {
    let cluster = TestCluster::new(13);
    plant(&cluster, "nobody");
    let mut left = 0;
    for n in 0..6 {
        let process = cluster.start_replica(&format!("replica-{n}"));
        tokio::time::sleep(12 * MINUTE).await;
        process.kill().await;
        left = cluster.cloud.vms_of("nobody").len();
        assert!(n > 0 || left == 1, "its Machine may still appear");
    }
    assert_eq!(left, 0, "each new leader starts the period again");
}

/// VMs of other clusters, as a broken driver may list them.
fn strangers(count: usize) -> impl Iterator<Item = (ProviderId, MachineName)> {
    (0..count).map(|n| (format!("virtual:///elsewhere/vm-{n}").into(), format!("stranger-{n}").into()))
}

/// Shows LIM-26.
#[tokio::test(start_paused = true)]
async fn list_beyond_the_bound_is_reported_and_changes_nothing() {
    let mut cluster = TestCluster::new(16);
    cluster.policy.safety.orphan_list_entries = 50;
    let driver = Arc::new(ChangedList { cloud: cluster.cloud.clone(), listed: Mutex::default() });
    let process = cluster.start_with(driver.clone());
    plant(&cluster, "nobody");
    tokio::time::sleep(19 * MINUTE).await;
    driver.listed.lock().extend(strangers(50));
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!((cluster.cloud.vms_of("nobody").len(), cluster.cloud.count(Method::Delete)), (1, 0));
    let told = cluster.event_messages("OrphanVMsHeldBack");
    assert!(told.iter().any(|message| message.contains("51 VMs, at most 50 are allowed")), "{told:?}");
    let shown = process.metrics.encode().unwrap();
    assert!(shown.lines().any(|line| line == "millwright_orphan_vms{state=\"held_back\"} 51"), "{shown}");
    driver.listed.lock().clear();
    tokio::time::sleep(16 * MINUTE).await;
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 0, "it was suspected");
}

/// A list with more than 2,000 VMs is evaluated in a separate thread.
/// Shows LIM-26.
#[tokio::test(start_paused = true)]
async fn large_list_is_evaluated_like_a_small_one() {
    let mut cluster = TestCluster::new(17);
    cluster.policy.safety.orphan_limit = Limit::Share { at_least: 3000, percent: 0 };
    let driver = Arc::new(ChangedList { cloud: cluster.cloud.clone(), listed: Mutex::default() });
    let _process = cluster.start_with(driver.clone());
    cluster.create("m-0").await;
    plant(&cluster, "nobody");
    driver.listed.lock().extend(strangers(3000));
    tokio::time::sleep(HOUR).await;
    assert_eq!((cluster.cloud.vms_of("nobody").len(), cluster.cloud.vms_of("m-0").len()), (1, 1), "3001 are too many");
    assert!(cluster.event_messages("OrphanVMsHeldBack").iter().any(|message| message.contains("3001 of 3002 VMs")));
    driver.listed.lock().retain(|id, _| id.as_str().ends_with("00"));
    tokio::time::sleep(HOUR).await;
    assert_eq!((cluster.cloud.vms_of("nobody").len(), cluster.cloud.vms_of("m-0").len()), (0, 1));
}
