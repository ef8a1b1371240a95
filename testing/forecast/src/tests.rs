//! Compares forecasts with what happens afterwards, on clusters in memory.

#![allow(clippy::unwrap_used, reason = "the lint spares tests, but not the functions that tests share")]

use std::sync::Arc;
use std::time::Duration;

use controllers::Decision;
use jiff::Timestamp;
use runtime::Metrics;
use runtime::client::{ClientSpec, UserAgent, in_process};
use serde_json::{Value, json};

use crate::change;
use crate::cluster::Cluster;
use crate::record::Record;
use crate::{Forecast, Options, Snapshot, Times, forecast, read, svg, text};

const DELETE: Duration = Duration::from_secs(25);
const POD_END: Duration = Duration::from_secs(20);
const POD_START: Duration = Duration::from_secs(8);

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// A cluster in memory with boot and deletion times, a running pool and pods.
struct Real {
    cluster: Cluster,
    record: Record,
}

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": name, "namespace": "default" }, "provider": "virtual",
        "providerSpec": {
            "createLatency": "4s", "bootLatency": "75s", "join": { "after": "15s" }, "deleteLatency": "25s",
            "nodeName": "vm", "capacity": { "cpu": "4", "memory": "8Gi", "pods": "20" }, "zone": "zone-a",
        },
        "secretRef": { "name": "cloud", "namespace": "default" },
    })
}

fn pool(replicas: usize, class: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
        "metadata": { "name": "pool", "namespace": "default" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "name": "pool" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": strategy },
            "template": { "metadata": { "labels": { "name": "pool" } }, "spec": { "class": { "kind": "MachineClass", "name": class } } },
        },
    })
}

fn shop(pods: usize) -> Value {
    let spec = json!({
        "terminationGracePeriodSeconds": 60, "priorityClassName": "",
        "containers": [{ "name": "web", "image": "web:1", "resources": { "requests": { "cpu": "1" } } }],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "shop", "namespace": "default" },
        "spec": {
            "replicas": pods, "selector": { "matchLabels": { "app": "shop" } },
            "template": { "metadata": { "labels": { "app": "shop" } }, "spec": spec },
        },
    })
}

fn budget(unavailable: usize) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "shop", "namespace": "default" },
        "spec": { "maxUnavailable": unavailable, "selector": { "matchLabels": { "app": "shop" } } },
    })
}

impl Real {
    async fn with(objects: &[Value]) -> Self {
        let mut times = Times::of(&Snapshot::default(), None, None, Some(POD_END));
        times.pod_start.takes = POD_START;
        let cluster = Cluster::new("default", now(), &times, None).unwrap();
        let record = Record::default();
        record.watch(&cluster.server, &cluster.cloud, &cluster.clock);
        cluster.provide(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": "default" },
            "stringData": { "userData": "c4n4ry" },
        }));
        for object in objects {
            cluster.server.insert(object).unwrap_or_else(|failure| panic!("{failure:?}: {object}"));
        }
        cluster.start(Arc::new(|_: &Decision| {})).unwrap();
        tokio::time::sleep(Duration::from_mins(20)).await;
        Self { cluster, record }
    }

    /// Reads the cluster with the user agent `forecaster`.
    async fn read(&self) -> Snapshot {
        let spec = ClientSpec::new(UserAgent::new("forecaster", "0", "test"));
        let metrics = Metrics::new().unwrap();
        let client = in_process(self.cluster.server.service(), "default", &spec, &metrics.rest);
        read(&client, Some(&client), "default").await.unwrap()
    }

    async fn forecast(&self, changed: &Value, quota: Option<usize>) -> Forecast {
        let snapshot = self.read().await;
        assert!(!snapshot.objects.iter().any(|object| object.to_string().contains("c4n4ry")));
        let times = Times::of(&snapshot, None, Some(DELETE), Some(POD_END));
        let options = Options { quota, horizon: Duration::from_hours(6), now: self.cluster.clock.now() };
        forecast(&snapshot, std::slice::from_ref(changed), &times, options).await.unwrap()
    }

    /// Applies the change. Returns the peak number of Machines and the duration in seconds.
    async fn change(&self, changed: &Value) -> (usize, i64) {
        let started = self.cluster.clock.now();
        self.record.begin();
        let (snapshot, times) = (
            Snapshot { namespace: "default".into(), ..Snapshot::default() },
            Times::of(&Snapshot::default(), None, None, None),
        );
        change::of(changed, &snapshot, &times).unwrap().apply(&self.cluster.client).await.unwrap();
        tokio::time::sleep(Duration::from_hours(3)).await;
        let last = self
            .record
            .timelines()
            .into_values()
            .flat_map(|timeline| [timeline.ready, timeline.deleted])
            .flatten()
            .max()
            .unwrap();
        (self.record.numbers().1, last.duration_since(started).as_secs())
    }
}

async fn compare(real: &Real, changed: &Value) -> Forecast {
    let forecast = real.forecast(changed, None).await;
    let (at_once, took) = real.change(changed).await;
    assert!(forecast.finished, "{}", text(&forecast));
    assert_eq!(forecast.machines_at_once, at_once, "{}", text(&forecast));
    let off = (forecast.seconds - took).abs();
    assert!(off * 5 <= took, "forecast {} s, it took {took} s\n{}", forecast.seconds, text(&forecast));
    forecast
}

/// Shows OPR-13.
#[tokio::test(start_paused = true)]
async fn forecast_of_a_rollout_one_by_one_is_right() {
    let strategy = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    let real = Real::with(&[class("small"), class("large"), pool(4, "small", &strategy)]).await;
    let forecast = compare(&real, &pool(4, "large", &strategy)).await;
    assert_eq!((forecast.created, forecast.deleted, forecast.machines_after), (4, 4, 4));
    assert!(forecast.delayed_by.is_empty(), "{}", text(&forecast));
    let drawn = svg(&forecast);
    assert_eq!(drawn.matches("text-anchor=\"end\"").count(), 8, "{drawn}");
}

/// Shows OPR-13.
#[tokio::test(start_paused = true)]
async fn forecast_of_a_rollout_delayed_by_a_budget_is_right() {
    let strategy = json!({ "maxSurge": 2, "maxUnavailable": 0 });
    let objects = [class("small"), class("large"), pool(4, "small", &strategy), shop(12), budget(1)];
    let real = Real::with(&objects).await;
    let forecast = compare(&real, &pool(4, "large", &strategy)).await;
    let obstacles: Vec<&str> = forecast.delayed_by.iter().map(|delay| delay.what.as_str()).collect();
    assert_eq!(obstacles, ["PodDisruptionBudget default/shop"], "{}", text(&forecast));
}

/// Shows OPR-13.
#[tokio::test(start_paused = true)]
async fn forecast_of_a_rollout_with_scale_up_is_right() {
    let strategy = json!({ "maxSurge": 0, "maxUnavailable": 2 });
    let real = Real::with(&[class("small"), class("large"), pool(5, "small", &strategy), shop(6), budget(3)]).await;
    let forecast = compare(&real, &pool(9, "large", &strategy)).await;
    assert_eq!((forecast.machines_before, forecast.machines_after), (5, 9));
}

/// Shows OPR-14.
#[tokio::test(start_paused = true)]
async fn forecast_only_lists_the_cluster() {
    let strategy = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    let real = Real::with(&[class("small"), class("large"), pool(2, "small", &strategy), shop(2)]).await;
    let before = real.cluster.server.revision();
    real.forecast(&pool(2, "large", &strategy), None).await;
    let requests = real.cluster.server.request_counts();
    let from_forecast = requests.keys().filter(|tally| tally.user_agent.starts_with("forecaster"));
    let verbs: std::collections::BTreeSet<&str> = from_forecast.map(|tally| tally.verb.as_str()).collect();
    assert_eq!(verbs, ["list"].into());
    let written = |kind: &str| real.cluster.server.changes(kind, before).unwrap().len();
    assert_eq!((written("machines.machine.sapcloud.io"), written("pods"), written("nodes")), (0, 0, 0));
}

/// Shows OPR-15.
#[tokio::test(start_paused = true)]
async fn forecast_reports_a_quota_that_is_too_small() {
    let strategy = json!({ "maxSurge": 2, "maxUnavailable": 0 });
    let real = Real::with(&[class("small"), class("large"), pool(3, "small", &strategy)]).await;
    let tight = real.forecast(&pool(3, "large", &strategy), Some(4)).await;
    assert!(tight.vms_at_once <= 4 && tight.quota_refusals > 0, "{}", text(&tight));
    let none = real.forecast(&pool(3, "large", &strategy), Some(3)).await;
    assert!(!none.finished && !none.incomplete.is_empty(), "{}", text(&none));
}

#[tokio::test(start_paused = true)]
async fn forecast_without_a_change_creates_and_deletes_nothing() {
    let strategy = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    let real = Real::with(&[class("small"), pool(3, "small", &strategy)]).await;
    let same = real.forecast(&pool(3, "small", &strategy), None).await;
    assert_eq!((same.created, same.deleted, same.machines_at_once), (0, 0, 3), "{}", text(&same));
    assert!(text(&same).contains("no changes; 3 machines unchanged"), "{}", text(&same));
}

#[tokio::test(start_paused = true)]
async fn forecast_rejects_kinds_that_it_cannot_simulate() {
    let real = Real::with(&[]).await;
    let snapshot = real.read().await;
    let times = Times::of(&snapshot, None, None, None);
    let options = Options { quota: None, horizon: Duration::from_mins(1), now: now() };
    let odd = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
    let error = forecast(&snapshot, &[odd], &times, options).await.unwrap_err();
    assert!(error.contains("ConfigMap") && error.contains("MachineDeployment"), "{error}");
}
