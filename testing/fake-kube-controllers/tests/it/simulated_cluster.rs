//! A cluster with nodes and a control plane, all in memory and under the paused clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use driver::{Call, Driver, MachineRequest};
use driver_virtual::{Config, Monitor, NodeLife, PROVIDER, VirtualCloud, Vm};
use fake_apiserver::{Options, Server};
use fake_kube_controllers::KubeControllers;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::{Value, json};

pub(crate) struct SimulatedCluster {
    pub(crate) server: Server,
    pub(crate) cloud: VirtualCloud,
    pub(crate) client: kube::Client,
    tasks: Tasks,
}

impl SimulatedCluster {
    /// A cluster with nodes of these names, alternately in zones `a` and `b`, and everything played by the simulated kube-controllers.
    pub(crate) async fn with_nodes(nodes: &[&str]) -> Self {
        Self::played_by(KubeControllers::default(), nodes).await
    }

    pub(crate) async fn played_by(kube_controllers: KubeControllers, nodes: &[&str]) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (clock, random) = (Clock::starting_at(start), Random::seeded(1));
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), 1));
        let node_life = NodeLife { monitor: Monitor::Absent, ..NodeLife::default() };
        let cloud = VirtualCloud::new(Config { node_life, ..Config::default() }, now, 1);
        let client = kube::Client::new(server.service(), "default");
        let cluster = Self { server, cloud, client, tasks: Tasks::new() };

        let (house, stop) = (cluster.server.clone(), cluster.tasks.stopping());
        cluster.tasks.spawn("house", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = house.keep_house() => {}
            }
        });
        let (cloud, kubelets, stop) = (cluster.cloud.clone(), cluster.client.clone(), cluster.tasks.stopping());
        cluster.tasks.spawn("kubelets", async move { cloud.run_nodes(kubelets, stop).await });
        let agent = ClientSpec::new(UserAgent::new("kube-controllers", "0", "test")).within(Duration::from_secs(20));
        let client = in_process(cluster.server.service(), "default", &agent, &Metrics::new().unwrap().rest);
        let stop = cluster.tasks.stopping();
        cluster.tasks.spawn("kube-controllers", async move { kube_controllers.run(client, clock, random, stop).await });

        for (i, node) in nodes.iter().enumerate() {
            cluster.add_node(node, if i % 2 == 0 { "a" } else { "b" }).await;
        }
        cluster.pass(3).await;
        cluster
    }

    pub(crate) async fn add_node(&self, name: &str, zone: &str) {
        let mut machine = Machine::default();
        machine.metadata.name = name.into();
        let class = json!({
            "metadata": { "name": "c", "namespace": "default" }, "provider": PROVIDER,
            "providerSpec": { "zone": zone, "capacity": { "pods": "5" } }, "secretRef": { "name": "s", "namespace": "default" },
        });
        let class: MachineClass = serde_json::from_value(class).unwrap();
        let secret = SecretData::from_iter([("userData", "x")]);
        let request = MachineRequest { machine: Arc::new(machine), class: Arc::new(class), secret: Arc::new(secret) };
        self.cloud.create(&Call::default(), &request).await.unwrap();
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn vm(&self, node: &str) -> Vm {
        let [vm] = self.cloud.vms_of(node).try_into().unwrap();
        vm
    }

    pub(crate) fn make(&self, object: &Value) {
        self.server.insert(object).unwrap();
    }

    pub(crate) fn node(&self, name: &str) -> Value {
        self.server.object("nodes", "", name).map(|node| (*node).clone()).unwrap_or_default()
    }

    pub(crate) fn taints(&self, node: &str) -> Vec<String> {
        let node = self.node(node);
        let text = |taint: &Value| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap());
        node["spec"]["taints"].as_array().into_iter().flatten().map(text).collect()
    }

    pub(crate) async fn cordon(&self, node: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.cordon(node).await.unwrap();
    }

    pub(crate) async fn patch_node(&self, node: &str, patch: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete_node(&self, node: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete(node, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Vec<Arc<Value>> {
        self.server.objects("pods")
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Arc<Value>> {
        self.server.object("pods", "default", name)
    }

    /// The pods that run and are ready, by node.
    pub(crate) fn ready(&self) -> BTreeMap<String, Vec<String>> {
        let mut ready: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.pods() {
            if condition(&pod, "Ready")["status"] == "True" {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                ready.entry(text(&pod["spec"]["nodeName"])).or_default().push(text(&pod["metadata"]["name"]));
            }
        }
        ready
    }

    /// How many ready pods there are on each of these nodes.
    pub(crate) fn counts(&self, nodes: &[&str]) -> Vec<usize> {
        let ready = self.ready();
        nodes.iter().map(|node| ready.get(*node).map_or(0, Vec::len)).collect()
    }

    pub(crate) async fn evict(&self, pod: &str) -> Result<(), kube::Error> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        pods.evict(pod, &EvictParams::default()).await.map(drop)
    }

    /// Changes an object of apps/v1.
    pub(crate) async fn merge(&self, kind: &str, name: &str, patch: &Value) {
        let sets = kube::core::Request::new(format!("/apis/apps/v1/namespaces/default/{kind}"));
        let request = sets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    pub(crate) fn budget(&self, name: &str) -> Value {
        let budget = self.server.object("poddisruptionbudgets.policy", "default", name);
        budget.map(|budget| budget["status"].clone()).unwrap_or_default()
    }
}

impl Drop for SimulatedCluster {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

/// What an object's status says under this heading.
pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

fn template(app: &str, spec: &Value) -> Value {
    let mut pod = json!({ "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 30 });
    for (field, value) in spec.as_object().unwrap() {
        pod[field] = value.clone();
    }
    json!({ "metadata": { "labels": { "app": app } }, "spec": pod })
}

/// A set of pods of this kind.
pub(crate) fn set(kind: &str, name: &str, replicas: i32, pod: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": template(name, pod) },
    });
    if kind == "StatefulSet" {
        set["spec"]["serviceName"] = name.into();
    }
    if kind == "DaemonSet" {
        set["spec"].as_object_mut().unwrap().remove("replicas");
    }
    set
}

/// A budget for the pods of a set.
pub(crate) fn budget(name: &str, spec: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name, "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": name } } },
    });
    for (field, value) in spec.as_object().unwrap() {
        budget["spec"][field] = value.clone();
    }
    budget
}
