//! Benchmarks of the cache with budgets.
//!
//! Measures the time to list and watch ten thousand objects in process, the cost of a virtual hour of watching, the memory per cached
//! Node, Machine and Secret, and the cost of pods that are not cached. Memory is measured as the bytes that are freed when the cache is
//! dropped.
//!
//! Run with `cargo bench -p runtime --bench cache`. The exit code is 1 if a budget is exceeded.

#![allow(clippy::print_stdout, reason = "a benchmark reports on standard output")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a benchmark may panic")]

use std::alloc::System;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::view::{NodeView, PodView, SecretView};
use api::{Machine, Object};
use fake_apiserver::{Options, Server};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use runtime::cache::{Cache, CacheBuilder, Cached, Index};
use runtime::{Clock, Random, Tasks};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OBJECTS: usize = 10_000;

fn main() -> ExitCode {
    let mut report = Report::default();
    paused(list_and_watch(&mut report));
    paused(bytes_per_object(&mut report));
    paused(pods_elsewhere(&mut report));
    report.end()
}

/// Runs with the paused clock on one thread, as simulations do.
fn paused(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work);
}

/// The results, and whether a budget is exceeded.
#[derive(Default)]
struct Report {
    broken: usize,
}

impl Report {
    fn line(&mut self, what: &str, measured: f64, unit: &str, budget: f64) {
        let freshness = if measured <= budget { "ok" } else { "OVER BUDGET" };
        self.broken += usize::from(measured > budget);
        println!("{what:<58} {measured:>10.1} {unit:<6} (budget {budget:>7.0}) {freshness}");
    }

    fn end(&self) -> ExitCode {
        if self.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn clock() -> Clock {
    Clock::starting_at(Timestamp::UNIX_EPOCH)
}

fn server() -> Server {
    let clock = clock();
    Server::new(Options::new(Arc::new(move || clock.now()), 7))
}

/// Returns a synced cache and its tasks.
async fn fed<K: Cached>(client: Client, builder: CacheBuilder<K>) -> (Cache<K>, Tasks) {
    let (cache, reflector) = builder.build();
    let tasks = Tasks::new();
    tasks.spawn("reflector", reflector.run(client, clock(), Random::seeded(1), tasks.stopping()));
    cache.synced().await.expect("the reflector runs");
    (cache, tasks)
}

/// Returns the bytes that are freed when a cache is dropped.
async fn weigh<K: Cached>(cache: Cache<K>, tasks: Tasks) -> f64 {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let region = Region::new(MEMORY);
    tasks.shut_down(Duration::from_secs(1)).await;
    drop((cache, tasks));
    let change = region.change();
    let freed =
        i128::try_from(change.bytes_deallocated).unwrap_or(0) - i128::try_from(change.bytes_allocated).unwrap_or(0);
    freed as f64
}

async fn list_and_watch(report: &mut Report) {
    let server = server();
    let client = Client::new(server.service(), "default");
    let insert = |n: usize| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": "default", "name": format!("m{n:05}"), "labels": { "app": "bench" } },
            "data": { "key": "x".repeat(500) },
        });
        server.insert(&map).expect("a new object");
    };
    (0..OBJECTS).for_each(insert);
    let start = Instant::now();
    let (cache, tasks) = fed::<ConfigMap>(client, Cache::builder()).await;
    report.line("10,000 objects listed, wall time", millis(start), "ms", 1000.0);
    assert_eq!(cache.len(), OBJECTS, "not all objects were listed");

    tokio::time::sleep(Duration::from_millis(1)).await; // the watch opens
    let start = Instant::now();
    for n in OBJECTS..2 * OBJECTS {
        insert(n);
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    report.line("10,000 objects written and watched, wall time", millis(start), "ms", 1000.0);
    assert_eq!(cache.len(), 2 * OBJECTS, "not all objects were watched");

    let start = Instant::now();
    let before = cache.status().counters;
    tokio::time::sleep(Duration::from_hours(1)).await;
    report.line("a virtual hour of keeping up, wall time", millis(start), "ms", 100.0);
    let after = cache.status().counters;
    let (watches, lists) = (after.watches - before.watches, after.lists - before.lists);
    println!("  in that hour: {watches} watches, {} bookmarks, {lists} lists", after.bookmarks - before.bookmarks);
    tasks.shut_down(Duration::from_secs(1)).await;
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

async fn bytes_per_object(report: &mut Report) {
    const NODES: Index<NodeView> = Index::new("by-label-zone", |node| {
        node.label("topology.kubernetes.io/zone").map(str::to_owned).into_iter().collect()
    });
    const MACHINES: Index<Machine> = Index::new("by-owner", |machine| {
        machine.metadata.owner_references.iter().map(|owner| owner.uid.clone().into()).collect()
    });
    let node = weigh_canned::<NodeView>(Cache::builder().index(NODES), &node_json()).await;
    let machine = weigh_canned::<Machine>(Cache::builder().index(MACHINES), &machine_json()).await;
    let secret = weigh_canned::<SecretView>(Cache::builder().metadata_only(), &secret_json()).await;
    println!(
        "  a Node is {} bytes of JSON here, a Machine {}",
        node_json().to_string().len(),
        machine_json().to_string().len()
    );
    report.line("bytes per cached Node, one index", node, "B", 12_288.0);
    report.line("bytes per cached Machine, one index", machine, "B", 12_288.0);
    report.line("bytes per cached Node and Machine", node + machine, "B", 12_288.0);
    report.line("bytes per cached Secret (metadata)", secret, "B", 2_048.0);
}

/// Returns the bytes per object of a cache with ten thousand copies of `template`, from a server that generates them page by page.
async fn weigh_canned<K: Cached>(builder: CacheBuilder<K>, template: &Value) -> f64 {
    let text = template.to_string();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let text = text.clone();
        async move {
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let from = query.split_once("continue=").map_or(0, |(_, rest)| {
                rest.split('&').next().and_then(|token| token.parse::<usize>().ok()).unwrap_or(0)
            });
            let to = OBJECTS.min(from + 500);
            let items: Vec<_> = (from..to).map(|n| text.replace("@NAME", &format!("{n:05}"))).collect();
            let next = if to < OBJECTS { to.to_string() } else { String::new() };
            let page = format!(
                r#"{{"metadata":{{"resourceVersion":"99999999","continue":"{next}"}},"items":[{}]}}"#,
                items.join(",")
            );
            Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from(page)).boxed_unsync()))
        }
    });
    let (cache, tasks) = fed(Client::new(service, "default"), builder).await;
    assert_eq!((cache.len(), cache.undecodable().len()), (OBJECTS, 0), "not all objects were decoded");
    weigh(cache, tasks).await / OBJECTS as f64
}

async fn pods_elsewhere(report: &mut Report) {
    let server = server();
    for n in 0..30_000 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "default", "name": format!("p{n:05}") },
            "spec": { "nodeName": "elsewhere", "containers": [{ "name": "c", "image": "i" }] },
        });
        server.insert(&pod).expect("a new object");
    }
    let client = Client::new(server.service(), "default");
    let (cache, tasks) = fed::<PodView>(client, Cache::builder().fields("spec.nodeName=here")).await;
    assert!(cache.is_empty(), "an object was cached");
    report.line("30,000 pods elsewhere, all of them together", weigh(cache, tasks).await, "B", 65_536.0);
}

fn node_json() -> Value {
    let condition = |kind: &str, reason: &str| {
        json!({ "type": kind, "status": "False", "reason": reason, "message": format!("kubelet has {reason}"),
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let image = |n: usize| {
        json!({ "names": [format!("europe-docker.pkg.dev/gardener-project/releases/some/component-{n}@sha256:{n:064}"),
            format!("europe-docker.pkg.dev/gardener-project/releases/some/component-{n}:v1.{n}.0")], "sizeBytes": 123_456_789 })
    };
    let fields: serde_json::Map<_, _> =
        (0..40).map(|n| (format!("f:some.well-known.io/field-{n}"), json!({}))).collect();
    let managed = |manager: &str| {
        json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": { "f:labels": fields.clone() } } })
    };
    json!({
        "metadata": {
            "name": "shoot--project--cluster-worker-z1-abcde-@NAME",
            "uid": "0b9f4e9c-7c1f-4b63-9d5a-00000000@NAME", "resourceVersion": "123@NAME",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "shoot--project--cluster-worker-z1-abcde-@NAME", "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.xlarge", "node.kubernetes.io/role": "node",
                "topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a",
                "worker.gardener.cloud/pool": "worker", "worker.gardener.cloud/system-components": "true",
            },
            "annotations": {
                "checksum/cloud-config-data": "d5a4f4a3e2c1b0a9988776655443322110ffeeddccbbaa99887766554433221100",
                "csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-0123456789@NAME\"}",
                "node.alpha.kubernetes.io/ttl": "0", "node.machine.sapcloud.io/last-applied-anno-labels-taints":
                "{\"ObjectMeta\":{\"labels\":{\"node.kubernetes.io/role\":\"node\",\"worker.gardener.cloud/pool\":\"worker\"}}}",
                "projectcalico.org/IPv4Address": "10.250.0.1/19", "projectcalico.org/IPv4IPIPTunnelAddr": "100.64.0.1",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "worker.gardener.cloud/kubernetes-version": "1.33.4",
            },
            "managedFields": [managed("kubelet"), managed("machine-controller-manager"), managed("kube-controller-manager")],
        },
        "spec": { "podCIDR": "100.64.0.0/24", "podCIDRs": ["100.64.0.0/24"],
            "providerID": "aws:///eu-west-1a/i-0123456789@NAME" },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "10.250.0.1" }, { "type": "Hostname", "address": "ip-10-250-0-1" }],
            "allocatable": { "cpu": "3920m", "ephemeral-storage": "50Gi", "memory": "14Gi", "pods": "110" },
            "capacity": { "cpu": "4", "ephemeral-storage": "50Gi", "memory": "16Gi", "pods": "110" },
            "conditions": [
                condition("Ready", "KubeletReady"), condition("MemoryPressure", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "KubeletHasNoDiskPressure"), condition("PIDPressure", "KubeletHasSufficientPID"),
                condition("NetworkUnavailable", "CalicoIsUp"), condition("KernelDeadlock", "KernelHasNoDeadlock"),
                condition("ReadonlyFilesystem", "FilesystemIsNotReadOnly"), condition("FrequentKubeletRestart", "NoFrequentRestart"),
            ],
            "images": (0..30).map(image).collect::<Vec<_>>(),
            "nodeInfo": { "kubeletVersion": "v1.33.4", "osImage": "Garden Linux 1877.5", "architecture": "amd64" },
            "volumesAttached": [{ "name": "kubernetes.io/csi/ebs.csi.aws.com^vol-0123456789", "devicePath": "" }],
            "volumesInUse": ["kubernetes.io/csi/ebs.csi.aws.com^vol-0123456789"],
        },
    })
}

fn machine_json() -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": {
            "name": "shoot--project--cluster-worker-z1-abcde-@NAME", "namespace": "shoot--project--cluster",
            "uid": "1c9f4e9c-7c1f-4b63-9d5a-00000000@NAME", "resourceVersion": "124@NAME", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
            "labels": { "machine-template-hash": "1234567890", "name": "shoot--project--cluster-worker-z1",
                "node": "shoot--project--cluster-worker-z1-abcde-@NAME" },
            "ownerReferences": [{ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "controller": true,
                "blockOwnerDeletion": true, "name": "shoot--project--cluster-worker-z1-abcde", "uid": "2c9f4e9c-7c1f-4b63-9d5a-0123456789ab" }],
        },
        "spec": {
            "class": { "kind": "MachineClass", "name": "shoot--project--cluster-worker-z1-12345" },
            "nodeTemplate": { "metadata": { "labels": { "node.kubernetes.io/role": "node", "worker.gardener.cloud/pool": "worker",
                "worker.gardener.cloud/system-components": "true", "worker.gardener.cloud/image-name": "gardenlinux" },
                "annotations": { "worker.gardener.cloud/kubernetes-version": "1.33.4" } }, "spec": {} },
            "providerID": "aws:///eu-west-1a/i-0123456789@NAME",
        },
        "status": {
            "currentStatus": { "lastUpdateTime": "2026-01-01T00:00:00Z", "phase": "Running" },
            "conditions": (0..8).map(|n| json!({ "type": format!("Condition{n}"), "status": "False", "reason": "KubeletIsFine",
                "message": "kubelet has nothing to say about this", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })).collect::<Vec<_>>(),
            "lastOperation": { "description": "Machine shoot--project--cluster-worker-z1-abcde-@NAME successfully joined the cluster",
                "lastUpdateTime": "2026-01-01T00:00:00Z", "state": "Successful", "type": "Create" },
            "node": "shoot--project--cluster-worker-z1-abcde-@NAME",
        },
    })
}

fn secret_json() -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": { "name": "shoot--project--cluster-worker-z1-@NAME", "namespace": "shoot--project--cluster",
            "uid": "3c9f4e9c-7c1f-4b63-9d5a-00000000@NAME", "resourceVersion": "125@NAME", "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["machine.sapcloud.io/machine-controller"], "labels": { "gardener.cloud/purpose": "machineclass" } },
    })
}
