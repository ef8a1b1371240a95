//! A cloud and an in-memory cluster with simulated kubelets.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use driver_virtual::{Config, NodeLife, Vm};
use fake_apiserver::{Options, Server};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bench::{Environment, now};

pub(crate) struct NodeFixture {
    pub(crate) environment: Environment,
    pub(crate) server: Server,
    pub(crate) client: kube::Client,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl NodeFixture {
    /// Creates the fixture with running kubelets.
    pub(crate) fn new(spec: Value, node_life: NodeLife) -> Self {
        let environment = Environment::new(Config { node_life, ..Config::default() }).with_spec(spec);
        let server = Server::new(Options::new(now(), 1));
        let client = kube::Client::new(server.service(), "default");
        let fixture = Self { environment, server, client, stop: CancellationToken::new(), tasks: TaskTracker::new() };
        fixture.start();
        fixture
    }

    /// Starts the kubelets.
    pub(crate) fn start(&self) {
        let (cloud, client, stop) = (self.environment.cloud.clone(), self.client.clone(), self.stop.child_token());
        self.tasks.spawn(async move { cloud.run_nodes(client, stop).await });
    }

    /// Stops the kubelets and waits until they have stopped.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        (self.stop, self.tasks) = (CancellationToken::new(), TaskTracker::new());
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the distinct consecutive texts that a watch of a kind shows.
    pub(crate) fn watch<K>(&self, word: impl Fn(&K) -> Option<String> + Send + 'static) -> Arc<Mutex<Vec<String>>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let (api, words) = (Api::<K>::all(self.client.clone()), Arc::new(Mutex::new(Vec::new())));
        let seen = words.clone();
        self.tasks.spawn(async move {
            let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
                let Some(word) = word(&object) else { continue };
                let mut words: MutexGuard<'_, Vec<String>> = seen.lock().unwrap();
                if words.last() != Some(&word) {
                    words.push(word);
                }
            }
        });
        words
    }

    /// Creates the VM of a machine and waits until its node exists.
    pub(crate) async fn join(&self, machine: &str) -> Vm {
        self.environment.create(machine).await.unwrap();
        self.pass(2).await;
        assert!(self.node(machine).is_some(), "{machine} did not join");
        self.vm(machine)
    }

    pub(crate) fn vm(&self, machine: &str) -> Vm {
        let [vm] = self.environment.cloud.vms_of(machine).try_into().unwrap();
        vm
    }

    pub(crate) fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.server.object("nodes", "", name)
    }

    pub(crate) fn lease(&self, name: &str) -> Option<Arc<Value>> {
        self.server.object("leases.coordination.k8s.io", "kube-node-lease", name)
    }

    /// What a node's condition says; empty when there is none.
    pub(crate) fn condition(&self, node: &str, kind: &str) -> String {
        let node = self.node(node).unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
    }

    pub(crate) fn ready(&self, node: &str) -> String {
        self.condition(node, "Ready")
    }

    /// Binds a pod to a node.
    pub(crate) fn bind(&self, pod: &str, node: &str, metadata: &Value) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": pod, "namespace": "default" },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 30 },
        });
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        self.server.insert(&object).unwrap();
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Arc<Value>> {
        self.server.object("pods", "default", name)
    }

    pub(crate) fn pod_phase(&self, name: &str) -> String {
        self.pod(name).unwrap_or_default()["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// What a pod's condition says of its being ready; empty when it says nothing.
    pub(crate) fn pod_ready(&self, name: &str) -> String {
        let pod = self.pod(name).unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == "Ready");
        found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
    }

    /// Marks a pod not ready, as done for the pods of a node marked Unknown.
    pub(crate) async fn say_pod_not_ready(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Removes a pod immediately, like a forced deletion by a user.
    pub(crate) async fn force_delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Changes a node like another client.
    pub(crate) async fn patch_node(&self, name: &str, patch: Value) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let (patch, params) = (Patch::Merge(patch), PatchParams::default());
        let done = if patch_is_status(&patch) {
            nodes.patch_status(name, &params, &patch).await
        } else {
            nodes.patch(name, &params, &patch).await
        };
        done.unwrap();
    }

    pub(crate) async fn delete_node(&self, name: &str) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        nodes.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns the number of requests of this kind, whatever their response.
    pub(crate) fn requests(&self, verb: &str, resource: &str) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|entry| entry.tally.verb == verb && entry.tally.resource == resource).count()
    }
}

fn patch_is_status(patch: &Patch<Value>) -> bool {
    matches!(patch, Patch::Merge(body) if body.get("status").is_some())
}
