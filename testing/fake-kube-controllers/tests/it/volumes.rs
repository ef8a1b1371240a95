//! Volumes that follow their pods.

use driver_virtual::CSI_DRIVER;
use fake_apiserver::ChangeKind;
use serde_json::{Value, json};

use crate::simulated_cluster::{SimulatedCluster, condition, set};

fn class(mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "disk" },
        "provisioner": "virtual.millwright.dev", "reclaimPolicy": "Delete", "volumeBindingMode": mode,
    })
}

/// A StatefulSet whose members each have a disk.
fn database(replicas: i32) -> Value {
    let mut set = set("StatefulSet", "db", replicas, &json!({}));
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    set
}

fn attachments(cluster: &SimulatedCluster) -> Vec<(String, bool)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attachments = cluster.server.objects("volumeattachments.storage.k8s.io");
    attachments.iter().map(|one| (text(&one["spec"]["nodeName"]), one["status"]["attached"] == true)).collect()
}

fn listed(cluster: &SimulatedCluster, node: &str, field: &str) -> usize {
    cluster.node(node)["status"][field].as_array().map_or(0, Vec::len)
}

/// Shows STN-5, VIR-11, HST-30.
#[tokio::test(start_paused = true)]
async fn volume_of_a_stateful_pod_is_detached_before_attached() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.make(&class("WaitForFirstConsumer"));
    cluster.make(&database(1));
    cluster.pass(5).await;
    assert_eq!(cluster.ready()["n1"], ["db-0"]);
    assert_eq!(attachments(&cluster), [("n1".to_owned(), true)]);
    assert_eq!((listed(&cluster, "n1", "volumesAttached"), listed(&cluster, "n1", "volumesInUse")), (1, 1));

    cluster.add_node("n2", "a").await;
    cluster.cordon("n1").await;
    cluster.pass(5).await;
    let before = cluster.server.revision();
    cluster.evict("db-0").await.unwrap();
    cluster.pass(10).await;
    assert_eq!(cluster.ready()["n2"], ["db-0"], "with its disk");
    assert_eq!(attachments(&cluster), [("n2".to_owned(), true)]);
    assert_eq!((listed(&cluster, "n1", "volumesAttached"), listed(&cluster, "n1", "volumesInUse")), (0, 0));
    assert_eq!((listed(&cluster, "n2", "volumesAttached"), listed(&cluster, "n2", "volumesInUse")), (1, 1));

    // The steps, as a watch saw them: let go, taken off the list, detached, attached again.
    let of = |kind: &str| cluster.server.changes(kind, before).unwrap();
    let let_go = of("nodes").into_iter().find(|change| {
        change.after["metadata"]["name"] == "n1"
            && change.after["status"]["volumesInUse"].as_array().is_none_or(Vec::is_empty)
    });
    let unlisted = of("nodes").into_iter().find(|change| {
        change.after["metadata"]["name"] == "n1"
            && change.after["status"]["volumesAttached"].as_array().is_none_or(Vec::is_empty)
    });
    let kind = "volumeattachments.storage.k8s.io";
    let detached = of(kind).into_iter().find(|change| change.kind == ChangeKind::Removed);
    let attached =
        of(kind).into_iter().find(|change| change.before.is_none() && change.after["spec"]["nodeName"] == "n2");
    let steps: Vec<u64> = [let_go, unlisted, detached, attached].map(|change| change.unwrap().revision).into();
    assert!(steps.is_sorted(), "{steps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_where_its_volume_is() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await; // in zones a and b
    cluster.make(&class("WaitForFirstConsumer"));
    cluster.make(&database(1));
    cluster.pass(5).await;
    let (node, _) = cluster.ready().into_iter().next().unwrap();
    cluster.cordon(&node).await;
    cluster.evict("db-0").await.unwrap();
    cluster.pass(5).await;
    let said = condition(&cluster.pod("db-0").unwrap(), "PodScheduled");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("1 node(s) didn't match PersistentVolume's node affinity"), "{message}");
    assert!(message.contains("1 node(s) were unschedulable"), "{message}");
}

/// Shows STN-5.
#[tokio::test(start_paused = true)]
async fn volume_of_a_dead_node_waits_unless_out_of_service() {
    for vouched in [false, true] {
        let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
        cluster.make(&class("WaitForFirstConsumer"));
        cluster.make(&database(1));
        cluster.pass(5).await;
        cluster.add_node("n2", "a").await;
        cluster.pass(5).await;
        cluster.cloud.kill(&cluster.vm("n1").id);
        cluster.pass(60).await;
        if vouched {
            let taint =
                json!({ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" });
            let mut taints = cluster.node("n1")["spec"]["taints"].as_array().cloned().unwrap();
            taints.push(taint);
            cluster.patch_node("n1", json!({ "spec": { "taints": taints } })).await;
            cluster.pass(10).await;
            assert_eq!(cluster.counts(&["n2"]), [1], "at once");
            continue;
        }
        cluster.pass(300).await;
        assert!(cluster.pod("db-0").unwrap()["metadata"]["deletionTimestamp"].is_string());
        cluster.delete_node("n1").await;
        cluster.pass(45).await;
        assert_eq!(cluster.pod("db-0").unwrap()["spec"]["nodeName"], "n2", "the old pod is collected");
        assert_eq!(attachments(&cluster), [("n1".to_owned(), true)], "but the disk may still be written to");
        assert_eq!(cluster.counts(&["n2"]), [0]);
        cluster.pass(400).await;
        assert_eq!(attachments(&cluster), [("n2".to_owned(), true)]);
        assert_eq!(cluster.counts(&["n2"]), [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_to_a_volume_that_was_made_for_it_by_hand() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "by-hand" },
        "spec": {
            "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": CSI_DRIVER, "volumeHandle": "vol-hand" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"] }] }] } },
        },
    }));
    cluster.make(&database(1));
    cluster.pass(5).await;
    assert_eq!(cluster.ready()["n2"], ["db-0"]);
    let claim = cluster.server.object("persistentvolumeclaims", "default", "data-db-0").unwrap();
    assert_eq!((&claim["spec"]["volumeName"], &claim["status"]["phase"]), (&json!("by-hand"), &json!("Bound")));
}
