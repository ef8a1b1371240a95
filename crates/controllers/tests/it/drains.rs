//! What a drain costs and what it leaves behind. That it works at all is shown by the scenarios, on both API servers.

use std::time::Duration;

use api::MachinePhase;
use api::view::PodView;
use fake_apiserver::faults::Verb;
use kube::api::{DeleteParams, Patch, PatchParams};
use planner::drain::concurrency::Caps;
use runtime::client::Api;
use runtime::logs::LogFormat;
use serde_json::json;

use crate::page::Page;
use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster};

/// Puts pods on the node of a machine.
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
async fn a_drain_asks_for_this_very_pod_and_counts_what_it_costs() {
    const PODS: usize = 100;
    let cluster = TestCluster::new(11);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    add_pods(&cluster, "m-1", PODS);
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.forget_requests();
    let begin = cluster.clock.now();
    cluster.delete("m-1").await;
    cluster.until("its node is empty", |w| w.server.objects("pods").is_empty()).await;
    // Half a second is what each pod takes to end, and the test looks five times a second.
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_millis() <= 800, "a hundred pods leave in the time of the slowest, not one by one: {took}");
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;

    let requests = cluster.requests();
    let about_pods = |what: &str| requests.iter().filter(|request| request.starts_with(what)).count();
    assert_eq!(about_pods("list pods"), 1, "{requests:#?}");
    assert_eq!(about_pods("create pods/eviction"), PODS, "one request for each pod");
    // Eight for the machine and its node, one because it was the last one of its class.
    assert!(requests.len() <= PODS + 9, "and nothing else that grows with them: {requests:#?}");
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty(), "nothing is held once it is over");
    assert_eq!(watches_of_pods(&cluster), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_drains_share_watches_and_leave_none_behind() {
    const MACHINES: usize = 100;
    let cluster = TestCluster::new(12);
    let process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster
        .until("all run", |w| (0..MACHINES).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
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
    assert!(most > before && most <= before + 33, "{before} watches became {most}");
    cluster.until("all are gone", |w| (0..MACHINES).all(|n| w.machine(&format!("m-{n}")).is_none())).await;
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty());
    assert_eq!(cluster.server.open_watches(), before, "every watch of a drain has ended");
}

/// Shows DR-14.
#[tokio::test(start_paused = true)]
async fn no_more_nodes_are_drained_at_once_than_allowed_and_each_gets_its_turn() {
    const MACHINES: usize = 4;
    let mut cluster = TestCluster::new(13);
    cluster.policy.drain.caps = Caps { overall: Some(1), per_deployment: None };
    let _process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster
        .until("all run", |w| (0..MACHINES).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
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
        assert!(cluster.clock.now().duration_since(begin).as_secs() < 60, "whoever ends wakes the next");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.until("all are gone", |w| (0..MACHINES).all(|n| w.machine(&format!("m-{n}")).is_none())).await;
}

fn watches_of_pods(cluster: &TestCluster) -> u64 {
    let of_controller = |tally: &fake_apiserver::ledger::Tally| {
        tally.user_agent.starts_with(crate::test_cluster::CONTROLLER)
            && tally.verb == "watch"
            && tally.resource == "pods"
    };
    cluster.server.request_counts().iter().filter(|(tally, _)| of_controller(tally)).map(|(_, count)| count).sum()
}

/// A StatefulSet's pod with a disk is the one whose drain looks at attachments, and a budget that refuses is what makes it look at budgets.
/// Shows ROL-5.
#[tokio::test(start_paused = true)]
async fn a_role_that_hides_budgets_and_attachments_does_not_hold_up_a_drain() {
    let cluster = TestCluster::new(14);
    for kind in ["poddisruptionbudgets", "volumeattachments"] {
        let asking = cluster.server.faults().on([Verb::List, Verb::Watch]).of(kind);
        asking.by_agent(crate::test_cluster::CONTROLLER).forbid();
    }
    let _process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    add_pod_with_disk(&cluster, "m-1");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begin = cluster.clock.now();
    cluster.delete("m-1").await;
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
    // Far from the two hours after which force would be used, and from the twenty minutes for attachments.
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_secs() < 300, "{took}");
    assert!(cluster.server.objects("pods").is_empty());
    let refused = cluster.requests().iter().filter(|request| request.ends_with("-> 403")).count();
    assert!((2..20).contains(&refused), "asked again now and then, not all the time: {refused}");
}

/// The second drain falls back as the first did, and finds it said.
/// Shows ROL-5.
#[tokio::test(start_paused = true)]
async fn a_role_that_hides_budgets_or_attachments_is_told_of_once_for_each_kind() {
    let (cluster, page) = (TestCluster::new(15), Page::default());
    let _log = page.open(&cluster, LogFormat::Text, 0);
    for kind in ["poddisruptionbudgets", "volumeattachments"] {
        let asking = cluster.server.faults().on([Verb::List, Verb::Watch]).of(kind);
        asking.by_agent(crate::test_cluster::CONTROLLER).forbid();
    }
    let _process = cluster.start();
    for name in ["m-1", "m-2"] {
        cluster.create(name).await;
        cluster.until("it runs", |w| w.phase(name) == Some(MachinePhase::Running)).await;
        add_pod_with_disk(&cluster, name);
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.delete(name).await;
        cluster.until("it is gone", |w| w.machine(name).is_none()).await;
        let text = page.text();
        let said: Vec<_> = text.lines().filter(|line| line.contains("may not see them")).collect();
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
async fn a_cordon_that_a_webhook_reverts_is_backed_off_from_and_force_passes_it() {
    let cluster = TestCluster::new(61);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it runs", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    add_pods(&cluster, "m-0", 1);
    let faults = cluster.server.faults().clone();
    let reverts = faults.on(Verb::Patch).of("nodes").subresource("").by_agent(CONTROLLER).revert();
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("it says why it waits", |w| text(w).starts_with("Drain failed due to - the API server took")).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let cordons = cluster.requests().iter().filter(|request| request.starts_with("patch nodes m-0")).count();
    assert!((5..25).contains(&cordons), "{cordons} writes in half an hour");
    assert_eq!(cluster.cloud.vms().len(), 1);

    let force = Patch::Merge(json!({ "metadata": { "labels": { "force-deletion": "True" } } }));
    cluster.machines().patch("m-0", &PatchParams::default(), &force).await.unwrap();
    cluster.until("its VM is gone", |w| w.cloud.vms().is_empty()).await;
    faults.withdraw(reverts);
    cluster.until("it is gone", |w| w.machine("m-0").is_none() && w.node("m-0").is_none()).await;
}

/// The label of a Machine that is being deleted named the wrong Node, and a user corrects it.
/// Shows DR-16.
#[tokio::test(start_paused = true)]
async fn drain_starts_again_when_the_node_label_changes() {
    let cluster = TestCluster::new(61);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
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
    assert_eq!(cluster.cloud.vms().len(), 1, "the VM outlives the pods of its Node");
    // No kubelet runs on this Node, so the test ends the pod.
    let pods: Api<PodView> = Api::namespaced(cluster.client("person"), NAMESPACE);
    pods.delete("other-p0", &DeleteParams::default().grace_period(0)).await.unwrap();
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.node("other").is_none() && cluster.cloud.vms().is_empty());
    let pods = cluster.server.objects("pods");
    assert_eq!(pods.len(), 1, "the pod of the other Node is not evicted any more: {pods:#?}");
    assert!(process.cluster.machine_controller().drains().unwrap().is_empty());
    cluster.server.faults().withdraw(blocked);
}
