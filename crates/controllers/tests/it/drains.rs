//! Requests and watches of drains. The scenarios show that drains work, on both API servers.

use std::time::Duration;

use api::MachinePhase;
use api::view::PodView;
use fake_apiserver::faults::Verb;
use kube::api::{DeleteParams, Patch, PatchParams};
use planner::drain::concurrency::Caps;
use runtime::client::Api;
use runtime::logs::LogFormat;
use serde_json::json;

use crate::captured_log::CapturedLog;
use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster};

/// Adds pods to a Node.
fn add_pods(cluster: &TestCluster, node: &str, pods: usize) {
    for n in 0..pods {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("{node}-p{n}"), "namespace": NAMESPACE },
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30, "containers": [{ "name": "c", "image": "i" }] },
        });
        cluster.server.insert(&pod).unwrap();
    }
}

/// Shows DR-Q6.
#[tokio::test(start_paused = true)]
async fn drain_stays_within_the_request_budget() {
    const PODS: usize = 100;
    let cluster = TestCluster::new(11);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    add_pods(&cluster, "m-1", PODS);
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.forget_requests();
    let begin = cluster.clock.now();
    cluster.delete("m-1").await;
    cluster.until("the Node is drained", |w| w.server.objects("pods").is_empty()).await;
    // A pod terminates within 0.5 s, and the test checks every 0.2 s.
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_millis() <= 800, "pods are evicted concurrently: {took}");
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;

    let requests = cluster.requests();
    let about_pods = |what: &str| requests.iter().filter(|request| request.starts_with(what)).count();
    assert_eq!(about_pods("list pods"), 1, "{requests:#?}");
    assert_eq!(about_pods("create pods/eviction"), PODS, "one eviction per pod");
    // Eight for the Machine and its Node, and one for the finalizer of its MachineClass.
    assert!(requests.len() <= PODS + 9, "no other requests per pod: {requests:#?}");
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty(), "no drain state remains");
    assert_eq!(watches_of_pods(&cluster), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_drains_share_watches_and_close_them() {
    const MACHINES: usize = 100;
    let cluster = TestCluster::new(12);
    let process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster
        .until("all are Running", |w| (0..MACHINES).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
        .await;
    for n in 0..MACHINES {
        add_pods(&cluster, &format!("m-{n}"), 2);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, mut most) = (cluster.server.open_watches(), 0);
    for n in 0..MACHINES {
        cluster.delete(&format!("m-{n}")).await;
    }
    while cluster.machine("m-0").is_some() || !cluster.server.objects("pods").is_empty() {
        most = most.max(cluster.server.open_watches());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(most > before && most <= before + 33, "{most} watches instead of {before}");
    cluster.until("all are deleted", |w| (0..MACHINES).all(|n| w.machine(&format!("m-{n}")).is_none())).await;
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty());
    assert_eq!(cluster.server.open_watches(), before, "all watches of drains are closed");
}

/// Shows DR-14.
#[tokio::test(start_paused = true)]
async fn drain_concurrency_is_limited_and_fair() {
    const MACHINES: usize = 4;
    let mut cluster = TestCluster::new(13);
    cluster.policy.drain.caps = Caps { overall: Some(1), per_deployment: None };
    let _process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster
        .until("all are Running", |w| (0..MACHINES).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
        .await;
    for n in 0..MACHINES {
        add_pods(&cluster, &format!("m-{n}"), 2);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    for n in 0..MACHINES {
        cluster.delete(&format!("m-{n}")).await;
    }
    let begin = cluster.clock.now();
    while !cluster.server.objects("pods").is_empty() {
        let pods = cluster.server.objects("pods");
        let leaving = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        let nodes: std::collections::BTreeSet<_> = leaving.map(|pod| pod["spec"]["nodeName"].to_string()).collect();
        assert!(nodes.len() <= 1, "{nodes:?}");
        assert!(cluster.clock.now().duration_since(begin).as_secs() < 60, "the end of a drain starts the next one");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.until("all are deleted", |w| (0..MACHINES).all(|n| w.machine(&format!("m-{n}")).is_none())).await;
}

fn watches_of_pods(cluster: &TestCluster) -> u64 {
    let of_controller = |tally: &fake_apiserver::ledger::Tally| {
        tally.user_agent.starts_with(crate::test_cluster::CONTROLLER)
            && tally.verb == "watch"
            && tally.resource == "pods"
    };
    cluster.server.request_counts().iter().filter(|(tally, _)| of_controller(tally)).map(|(_, count)| count).sum()
}

/// The drain reads VolumeAttachments because of the StatefulSet's pod with a volume, and budgets because of the rejected eviction.
/// Shows ROL-5.
#[tokio::test(start_paused = true)]
async fn missing_read_permissions_do_not_block_a_drain() {
    let cluster = TestCluster::new(14);
    for kind in ["poddisruptionbudgets", "volumeattachments"] {
        let asking = cluster.server.faults().on([Verb::List, Verb::Watch]).of(kind);
        asking.by_agent(crate::test_cluster::CONTROLLER).forbid();
    }
    let _process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    add_pod_with_disk(&cluster, "m-1");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begin = cluster.clock.now();
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    // Before the drain timeout of two hours, and before the detach timeout of 20 minutes.
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_secs() < 300, "{took}");
    assert!(cluster.server.objects("pods").is_empty());
    let refused = cluster.requests().iter().filter(|request| request.ends_with("-> 403")).count();
    assert!((2..20).contains(&refused), "the watch is retried with backoff: {refused}");
}

/// The second drain uses the fallback, too, without a log line.
/// Shows ROL-5.
#[tokio::test(start_paused = true)]
async fn missing_read_permission_is_logged_once_per_kind() {
    let (cluster, page) = (TestCluster::new(15), CapturedLog::default());
    let _log = page.open(&cluster, LogFormat::Text, 0);
    for kind in ["poddisruptionbudgets", "volumeattachments"] {
        let asking = cluster.server.faults().on([Verb::List, Verb::Watch]).of(kind);
        asking.by_agent(crate::test_cluster::CONTROLLER).forbid();
    }
    let _process = cluster.start();
    for name in ["m-1", "m-2"] {
        cluster.create(name).await;
        cluster.until("it is Running", |w| w.phase(name) == Some(MachinePhase::Running)).await;
        add_pod_with_disk(&cluster, name);
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.delete(name).await;
        cluster.until("it is deleted", |w| w.machine(name).is_none()).await;
        let text = page.text();
        let said: Vec<_> = text.lines().filter(|line| line.contains("missing permission to list and watch")).collect();
        assert_eq!(said.len(), 2, "{said:#?}");
    }
}

fn add_pod_with_disk(cluster: &TestCluster, node: &str) {
    let (disk, claim) = (format!("disk-{node}"), format!("claim-{node}"));
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": disk },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "csi": { "driver": "d", "volumeHandle": disk } },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim, "namespace": NAMESPACE },
            "spec": { "volumeName": disk, "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("with-{disk}"), "namespace": NAMESPACE },
            "spec": {
                "nodeName": node, "containers": [{ "name": "c", "image": "i" }],
                "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }],
            },
        }),
    ];
    for object in &objects {
        cluster.server.insert(object).unwrap();
    }
}

/// Shows MC-S3.
#[tokio::test(start_paused = true)]
async fn reverted_cordon_is_retried_with_backoff() {
    let cluster = TestCluster::new(61);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    add_pods(&cluster, "m-0", 1);
    let faults = cluster.server.faults().clone();
    let reverts = faults.on(Verb::Patch).of("nodes").subresource("").by_agent(CONTROLLER).revert();
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster
        .until("the reason is reported", |w| text(w).starts_with("Drain failed due to - the API server accepted"))
        .await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let cordons = cluster.requests().iter().filter(|request| request.starts_with("patch nodes m-0")).count();
    assert!((5..25).contains(&cordons), "{cordons} writes in half an hour");
    assert_eq!(cluster.cloud.vms().len(), 1);

    let force = Patch::Merge(json!({ "metadata": { "labels": { "force-deletion": "True" } } }));
    cluster.machines().patch("m-0", &PatchParams::default(), &force).await.unwrap();
    cluster.until("its VM is deleted", |w| w.cloud.vms().is_empty()).await;
    faults.withdraw(reverts);
    cluster.until("it is deleted", |w| w.machine("m-0").is_none() && w.node("m-0").is_none()).await;
}

/// The label of a Machine that is being deleted named the wrong Node, and a user corrects it.
/// Shows DR-16.
#[tokio::test(start_paused = true)]
async fn drain_starts_again_when_the_node_label_changes() {
    let cluster = TestCluster::new(61);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let other = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "other" } });
    cluster.server.insert(&other).unwrap();
    add_pods(&cluster, "m-1", 1);
    add_pods(&cluster, "other", 1);
    let blocked =
        cluster.server.faults().on(Verb::Create).of("pods").subresource("eviction").named("m-1-p0").throttle(None);
    cluster.delete("m-1").await;
    cluster.until("it is drained", |w| w.node("m-1").unwrap()["spec"]["unschedulable"] == true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let corrected = json!({ "metadata": { "labels": { "node": "other" } } });
    cluster.machines().patch("m-1", &PatchParams::default(), &Patch::Merge(&corrected)).await.unwrap();
    let evicted = |w: &TestCluster| {
        let pods = w.server.objects("pods");
        pods.iter().any(|pod| pod["spec"]["nodeName"] == "other" && pod["metadata"]["deletionTimestamp"].is_string())
    };
    cluster.until("the pod of the right node is evicted", evicted).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.cloud.vms().len(), 1, "the VM is not deleted before the pods of its Node");
    // No kubelet runs on this Node, so the test deletes the pod.
    let pods: Api<PodView> = Api::namespaced(cluster.client("person"), NAMESPACE);
    pods.delete("other-p0", &DeleteParams::default().grace_period(0)).await.unwrap();
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.node("other").is_none() && cluster.cloud.vms().is_empty());
    let pods = cluster.server.objects("pods");
    assert_eq!(pods.len(), 1, "the pod of the other Node is not evicted: {pods:#?}");
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty());
    cluster.server.faults().withdraw(blocked);
}
