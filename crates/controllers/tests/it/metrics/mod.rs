//! Scraped metrics of each component after a run in which every counted event happened.

mod documentation;
mod reference;
mod scrape;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object};
use driver::{Capabilities, Method};
use driver_virtual::{Config, Doubles, Fault, NodeLife, Script};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runtime::client::Api;
use serde_json::{Value, json};

use crate::test_cluster::{NAMESPACE, Shown, TestCluster, class};
use documentation::documented;
use reference::{Component, REFERENCE, Row, Shape};
use scrape::{Scrape, read};

fn deployments(cluster: &TestCluster) -> Api<MachineDeployment> {
    Api::namespaced(cluster.client("person"), NAMESPACE)
}

/// Creates a MachineDeployment with a MachineClass of the same name. Its Machines are in zone `z1`.
async fn deploy(cluster: &TestCluster, name: &str, replicas: i32, more: Value) {
    let mut deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "50%", "maxUnavailable": "50%" } },
            "selector": { "matchLabels": { "name": name } },
            "template": {
                "metadata": { "labels": { "name": name } },
                "spec": {
                    "class": { "kind": "MachineClass", "name": name },
                    "nodeTemplate": { "metadata": { "labels": { "topology.kubernetes.io/zone": "z1" } } },
                },
            },
        },
    });
    for (key, value) in more.as_object().unwrap() {
        deployment["spec"][key] = value.clone();
    }
    deployments(cluster).create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

fn add_class(cluster: &TestCluster, name: &str, spec: &Value) {
    let mut class = class(name, spec);
    class["nodeTemplate"] = json!({
        "capacity": { "cpu": "2", "gpu": "0", "memory": "4Gi" },
        "instanceType": "m5.large", "region": "r", "zone": "z1",
    });
    cluster.server.insert(&class).unwrap();
}

fn machines(cluster: &TestCluster, pool: &str) -> Vec<Machine> {
    let all = cluster.server.objects("machines.machine.sapcloud.io");
    let all = all.iter().map(|machine| serde_json::from_value::<Machine>((**machine).clone()).unwrap());
    all.filter(|machine| machine.label("name") == Some(pool)).collect()
}

fn running(cluster: &TestCluster, pool: &str, count: usize) -> bool {
    let all = machines(cluster, pool);
    all.len() == count && all.iter().all(|machine| *machine.phase() == MachinePhase::Running)
}

fn cluster(seed: u64) -> TestCluster {
    let cluster = TestCluster::with_cloud(
        seed,
        Config {
            doubles: Doubles::Allowed,
            capabilities: Capabilities::ALL,
            node_life: NodeLife { pod_rundown: Duration::from_secs(3), ..NodeLife::default() },
            ..Config::default()
        },
    );
    let quick =
        json!({ "createLatency": "2s", "bootLatency": "10s", "deleteLatency": "5s", "join": { "after": "1s" } });
    add_class(&cluster, "pool", &quick);
    cluster.cloud.inject(Script::always(Fault::Delay(Duration::from_secs(4))).on(Method::Initialize));
    cluster
}

/// Triggers every counted event: Machines are created, deleted and drained, one is unhealthy and replaced, one never joins, and one
/// cannot be created.
async fn eventful(cluster: &TestCluster) -> Shown {
    add_class(cluster, "silent", &json!({ "join": "never" }));
    add_class(cluster, "full", &json!({ "quota": 0 }));
    let components = cluster.start_components();
    let limits = json!({ "revisionHistoryLimit": 3, "progressDeadlineSeconds": 600 });
    deploy(cluster, "pool", 3, limits).await;
    deploy(cluster, "silent", 1, json!({})).await;
    deploy(cluster, "full", 1, json!({})).await;
    deploy(cluster, "still", 1, json!({ "paused": true, "rollbackTo": { "revision": 7 } })).await;
    cluster.until("the pool is Running", |w| running(w, "pool", 3)).await;
    let counted = json!({ "status": { "collisionCount": 1 } });
    deployments(cluster).patch_status("still", &PatchParams::default(), &Patch::Merge(&counted)).await.unwrap();

    let sets: Api<MachineSet> = Api::namespaced(cluster.client("person"), NAMESPACE);
    let set = machines(cluster, "pool")[0].controller_owner().unwrap().name.clone();
    let told = json!({ "status": { "machineSetCondition": [{ "type": "Audited", "status": "Unknown" }] } });
    sets.patch_status(&set, &PatchParams::default(), &Patch::Merge(&told)).await.unwrap();

    let ill = machines(cluster, "pool")[0].name().to_owned();
    cluster.cloud.vms_of(&ill).iter().for_each(|vm| cluster.cloud.hang(&vm.id));
    cluster.until("the unhealthy one is replaced", |w| w.machine(&ill).is_none() && running(w, "pool", 3)).await;

    let busy = machines(cluster, "pool")[0].name().to_owned();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": NAMESPACE },
        "spec": { "nodeName": busy, "terminationGracePeriodSeconds": 30, "containers": [{ "name": "c", "image": "i" }] },
    });
    cluster.server.insert(&pod).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.delete(&busy).await;
    cluster.until("the drained one is replaced", |w| w.machine(&busy).is_none() && running(w, "pool", 3)).await;
    cluster.until("one is marked Failed", |w| w.clock.now().duration_since(w.began).as_mins() > 25).await;
    components
}

fn of(component: Component) -> impl Iterator<Item = &'static Row> {
    REFERENCE.iter().filter(move |(.., whose)| *whose == component || *whose == Component::Both)
}

fn labels(row: &Row) -> BTreeSet<&'static str> {
    row.2.iter().copied().collect()
}

#[tokio::test(start_paused = true)]
async fn all_mcm_metrics_have_the_same_type_labels_and_buckets() {
    let cluster = cluster(1);
    let components = eventful(&cluster).await;
    for (component, metrics) in [(Component::Manager, &components.manager), (Component::Machines, &components.machines)]
    {
        let scrape = read(&metrics.encode().unwrap());
        for row in of(component) {
            let (name, shape, ..) = row;
            let family = scrape.get(*name).unwrap_or_else(|| panic!("{component:?} does not export {name}"));
            let expected = match shape {
                Shape::Gauge => "gauge",
                Shape::Counter => "counter",
                Shape::Histogram(_) => "histogram",
            };
            assert_eq!(family.shape, expected, "{name}");
            assert_eq!(family.labels(), labels(row), "{name}");
            if let Shape::Histogram(bounds) = shape {
                let found = family.bounds();
                let same =
                    found.len() == bounds.len() && found.iter().zip(*bounds).all(|(a, b)| (a / b - 1.0).abs() < 1e-9);
                assert!(same, "{name}: {found:?}");
            }
        }
        let known: BTreeSet<&str> = of(component).map(|row| row.0).collect();
        let ours: BTreeSet<&str> = scrape.keys().map(String::as_str).filter(|name| name.starts_with("mcm_")).collect();
        assert!(ours.is_subset(&known), "{component:?} exports metrics of the other component: {:?}", &ours - &known);
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_reference_page_is_complete() {
    let shown = cluster(6).start_components();
    let both = documented("Both\n");
    for (heading, metrics) in [("Manager\n", &shown.manager), ("Machine controller\n", &shown.machines)] {
        let there: BTreeMap<String, Vec<String>> =
            metrics.declared().into_iter().map(|family| (family.name, family.labels)).collect();
        let mut written = documented(heading);
        written.extend(both.clone());
        assert_eq!(there, written, "{heading}");
    }
}

/// Shows HTT-9, MC-W60, DEP-11.
#[tokio::test(start_paused = true)]
async fn metric_values_match_objects_and_events() {
    let cluster = cluster(2);
    let components = eventful(&cluster).await;
    let (manager, machines_component) =
        (read(&components.manager.encode().unwrap()), read(&components.machines.encode().unwrap()));
    let at = |scrape: &Scrape, name: &str, labels: &[(&str, &str)]| scrape[name].at(labels);
    let pool = &[("name", "pool"), ("namespace", NAMESPACE)];

    assert_eq!(at(&manager, "mcm_machine_deployment_items_total", &[]), Some(4.0));
    assert_eq!(at(&manager, "mcm_machine_deployment_status_ready_replicas", pool), Some(3.0));
    // Percentages are exported as numbers: 50 % of 3, rounded up and down.
    assert_eq!(at(&manager, "mcm_machine_deployment_info_spec_rolling_update_max_surge", pool), Some(2.0));
    assert_eq!(at(&manager, "mcm_machine_deployment_info_spec_rolling_update_max_unavailable", pool), Some(1.0));
    assert_eq!(at(&manager, "mcm_machine_deployment_info_spec_revision_history_limit", pool), Some(3.0));
    assert_eq!(
        at(&manager, "mcm_machine_deployment_info_spec_rollback_to_revision", pool),
        None,
        "not exported if unset"
    );
    assert_eq!(at(&manager, "mcm_machine_deployment_info_spec_paused", &[("name", "still")]), Some(1.0));
    assert_eq!(
        at(&manager, "mcm_machine_deployment_status_condition", &[("name", "pool"), ("condition", "Available")]),
        Some(1.0)
    );
    assert_eq!(at(&manager, "mcm_machine_stale_machines_total", &[]), Some(1.0), "the unhealthy one");
    let made = cluster.began.as_second().to_string();
    assert_eq!(at(&manager, "mcm_machine_deployment_info", &[("name", "pool"), ("createdAt", &made)]), Some(1.0));

    let kind =
        &[("namespace", NAMESPACE), ("machine_deployment", "pool"), ("instance_type", "m5.large"), ("zone", "z1")];
    for (name, seconds) in [("create", 2.0), ("initialize", 4.0), ("join", 11.0), ("delete", 8.0)] {
        let name = format!("mcm_machine_{name}_duration_seconds");
        let found =
            at(&machines_component, &name, kind).unwrap_or_else(|| panic!("{name}: {:?}", machines_component[&name]));
        assert!((found - seconds).abs() <= 1.0, "{name} is {found}");
    }
    for step in ["create", "join", "drain", "delete"] {
        let counted = format!("millwright_machine_{step}_duration_seconds");
        let of_pool = &[("namespace", NAMESPACE), ("machine_deployment", "pool"), ("le", "+Inf")];
        assert!(at(&machines_component, &counted, of_pool) >= Some(1.0), "{counted}");
    }
    let joined = |within: &str| {
        let of_pool = &[("machine_deployment", "pool"), ("le", within)];
        at(&machines_component, "millwright_machine_join_duration_seconds", of_pool)
    };
    assert_eq!((joined("10"), joined("20")), (Some(0.0), joined("+Inf")), "11 s each");
    assert_eq!(
        at(&machines_component, "mcm_machine_drain_duration_seconds", &[("machine_deployment", "pool")]),
        Some(3.0)
    );
    assert_eq!(at(&machines_component, "mcm_machine_num_failed_join", &[("machine_deployment", "silent")]), Some(1.0));
    let failed = &[("provider", "virtual"), ("operation", "create_machine"), ("error_code", "8")];
    assert!(
        at(&machines_component, "mcm_cloud_api_driver_requests_failed_total", failed) >= Some(1.0),
        "the quota is 0"
    );
    assert!(at(&machines_component, "mcm_cloud_api_requests_failed_total", &[("service", "vm_create")]) >= Some(1.0));
    let name = machines(&cluster, "pool")[0].name().to_owned();
    assert_eq!(at(&machines_component, "mcm_machine_current_status_phase", &[("name", &name)]), Some(1.0));
    assert_eq!(at(&machines_component, "mcm_machine_info", &[("name", &name), ("node_name", &name)]), Some(1.0));
    assert_eq!(
        at(&machines_component, "mcm_machine_num_failed_join", &[("machine_deployment", "pool")]),
        Some(0.0),
        "from zero"
    );
    assert_eq!(at(&machines_component, "millwright_machines", &[("phase", "Running")]), Some(3.0));
    assert_eq!(at(&machines_component, "millwright_machines", &[("phase", "Available")]), Some(0.0));
    assert_eq!(
        at(
            &machines_component,
            "mcm_misc_scrape_failure_total",
            &[("kind", "Machine-count"), ("binary", "machine-controller-manager-provider")]
        ),
        Some(0.0)
    );
    for kind in ["Machineset-count", "Machinedeployment-count"] {
        assert_eq!(
            at(&manager, "mcm_misc_scrape_failure_total", &[("kind", kind), ("binary", "machine-controller-manager")]),
            Some(0.0)
        );
    }
}

/// Shows MS-W14.
#[tokio::test(start_paused = true)]
async fn status_replicas_metric_counts_all_machines() {
    let cluster = cluster(3);
    let components = cluster.start_components();
    deploy(&cluster, "pool", 2, json!({})).await;
    let statuses = |w: &TestCluster| -> Vec<MachineSet> {
        w.server
            .objects("machinesets.machine.sapcloud.io")
            .iter()
            .map(|set| serde_json::from_value((**set).clone()).unwrap())
            .collect()
    };
    cluster
        .until("the Machines exist and are not ready", |w| statuses(w).iter().any(|set| set.status.replicas == 2))
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let scrape = read(&components.manager.encode().unwrap());
    assert_eq!(scrape["mcm_machine_set_status_replicas"].at(&[]), Some(2.0));
    assert_eq!(scrape["mcm_machine_set_status_ready_replicas"].at(&[]), Some(0.0));
}

/// Shows MC-W55.
#[tokio::test(start_paused = true)]
async fn durations_need_a_deployment_but_no_node_template() {
    let cluster = TestCluster::new(7);
    let shown = cluster.start_components();
    cluster.create_in_pool("m-1", "plain").await;
    cluster.create("m-2").await;
    cluster
        .until("both are Running", |w| ["m-1", "m-2"].iter().all(|name| w.phase(name) == Some(MachinePhase::Running)))
        .await;
    let scrape = read(&shown.machines.encode().unwrap());
    for name in ["mcm_machine_create_duration_seconds", "mcm_machine_join_duration_seconds"] {
        let family = &scrape[name];
        assert_eq!(family.lines.len(), 1, "{family:?}");
        assert!(
            family.at(&[("machine_deployment", "plain"), ("instance_type", ""), ("zone", "")]).is_some(),
            "{family:?}"
        );
    }
}

/// Shows HTT-9, MC-W60, MS-W14.
#[tokio::test(start_paused = true)]
async fn metrics_of_deleted_objects_are_removed() {
    let cluster = cluster(4);
    cluster.start_garbage_collector();
    let components = cluster.start_components();
    deploy(&cluster, "pool", 2, json!({})).await;
    cluster.until("all are Running", |w| running(w, "pool", 2)).await;
    let shown = |metrics: &runtime::Metrics| metrics.encode().unwrap();
    let name = machines(&cluster, "pool")[0].name().to_owned();
    assert!(shown(&components.machines).contains(&name));
    assert!(shown(&components.manager).contains("mcm_machine_set_info{"));
    deployments(&cluster).delete("pool", &DeleteParams::default()).await.unwrap();
    cluster
        .until("all objects are deleted", |w| w.server.objects("machinedeployments.machine.sapcloud.io").is_empty())
        .await;
    cluster
        .until("the MachineSets are deleted", |w| w.server.objects("machinesets.machine.sapcloud.io").is_empty())
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let (manager, machines_component) = (shown(&components.manager), shown(&components.machines));
    assert!(!manager.contains("name=\"pool"), "{manager}");
    assert!(
        manager.contains("mcm_machine_set_items_total 0\n")
            && machines_component.contains("mcm_machine_items_total 0\n")
    );
    assert!(!machines_component.contains(&name), "{machines_component}");
    assert!(
        machines_component.contains("mcm_machine_delete_duration_seconds{"),
        "the duration of the last deletion can still be scraped"
    );
    tokio::time::sleep(Duration::from_mins(61)).await;
    assert!(!shown(&components.machines).contains("machine_deployment=\"pool\""));
}

/// Objects that the API server rejects today, but that older versions accepted.
/// Shows MC-W55.
#[tokio::test(start_paused = true)]
async fn invalid_objects_do_not_break_a_scrape() {
    let cluster = cluster(5);
    let strange = |kind: &str, name: &str, spec: Value, status: Value| {
        json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind,
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec, "status": status })
    };
    let twice = json!([{ "type": "Ready", "status": "True" }, { "type": "Ready", "status": "Maybe" }, { "type": "Q\"\n", "status": "Unknown" }]);
    let failed = json!({ "name": "a\"b", "ownerRef": "s" });
    for object in [
        strange(
            "MachineDeployment",
            "bare",
            json!({ "template": {}, "strategy": { "type": "RollingUpdate" } }),
            json!({}),
        ),
        strange(
            "MachineDeployment",
            "odd",
            json!({ "template": {}, "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "5", "maxUnavailable": "5" } } }),
            json!({ "conditions": twice, "failedMachines": [failed, failed] }),
        ),
        strange(
            "MachineSet",
            "odd",
            json!({ "template": {} }),
            json!({ "machineSetCondition": twice, "failedMachines": [failed, failed] }),
        ),
        strange(
            "Machine",
            "odd",
            json!({}),
            json!({ "conditions": twice, "currentStatus": { "phase": "Hibernating" } }),
        ),
    ] {
        cluster.server.insert(&object).unwrap();
    }
    let components = cluster.start_components();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (manager, machines_component) =
        (read(&components.manager.encode().unwrap()), read(&components.machines.encode().unwrap()));
    assert_eq!(manager["mcm_machine_deployment_items_total"].at(&[]), Some(2.0));
    assert_eq!(manager["mcm_machine_set_items_total"].at(&[]), Some(1.0));
    assert_eq!(machines_component["mcm_machine_items_total"].at(&[]), Some(1.0));
    assert!(
        !manager.contains_key("mcm_machine_deployment_info_spec_rolling_update_max_surge"),
        "\"5\" is not an integer"
    );
    assert_eq!(machines_component["mcm_machine_current_status_phase"].at(&[("name", "odd")]), Some(0.0));
}

/// Shows DEP-12.
#[tokio::test(start_paused = true)]
async fn invalid_objects_are_counted_until_they_are_corrected() {
    let cluster = cluster(9);
    let components = cluster.start_components();
    let short = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": "short", "namespace": NAMESPACE }, "provider": "virtual", "providerSpec": {},
        "nodeTemplate": { "capacity": {}, "instanceType": "t", "region": "r", "zone": "z" },
    });
    cluster.server.insert(&short).unwrap();
    deploy(&cluster, "pool", 1, json!({ "strategy": { "type": "Sometimes" } })).await;
    let count = |metrics: &runtime::Metrics, kind: &str| {
        read(&metrics.encode().unwrap())["millwright_invalid_objects"].at(&[("kind", kind)])
    };
    cluster.until("both are counted", |_| count(&components.manager, "machinedeployments") == Some(1.0)).await;
    assert_eq!(count(&components.manager, "machinesets"), Some(0.0));
    assert_eq!(count(&components.machines, "machineclasses"), Some(1.0));
    assert_eq!(count(&components.machines, "machines"), Some(0.0));
    let mended = json!({ "spec": { "strategy": { "type": "Recreate" } } });
    deployments(&cluster).patch("pool", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    cluster.until("it is valid again", |_| count(&components.manager, "machinedeployments") == Some(0.0)).await;
}
