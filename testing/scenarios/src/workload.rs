//! Pods, and machines with capacity for them.

use std::time::Duration;

use api::MachinePhase;
use driver_virtual::CSI_DRIVER;
use json_patch::merge;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fixture::create;
use crate::result::ensure;
use crate::{Failure, Fixture};

/// The class of machines with pods. Their nodes have the name of the fixture as a label, which the pods select.
const POD_CLASS: &str = "roomy";
const FIXTURE_LABEL: &str = "fixture.millwright.dev/name";

/// Termination grace period of the pods, in seconds.
const GRACE: i64 = 30;

impl Fixture {
    /// Creates a class for nodes with pods, and the ServiceAccount of the pods.
    pub(crate) async fn create_pod_class(&self) -> Result<(), Failure> {
        let account = json!({ "metadata": { "name": "web" } });
        create(&self.api::<ServiceAccount>(), "create a ServiceAccount", account).await?;
        let mut spec = self.environment.pace.provider_spec();
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("labels".into(), json!({ FIXTURE_LABEL: self.namespace }));
            fields.insert("capacity".into(), json!({ "pods": "250" }));
        }
        self.add_class(POD_CLASS, "virtual", &spec).await
    }

    /// Creates machine number `n`, with further fields of its spec, and waits until it runs.
    pub(crate) async fn add_node(&self, n: usize, more: &Value) -> Result<(), Failure> {
        self.begin_node(n, more).await?;
        self.until_phase(n, MachinePhase::Running).await.map(drop)
    }

    /// Creates machine number `n`.
    pub(crate) async fn begin_node(&self, n: usize, more: &Value) -> Result<(), Failure> {
        let mut spec = json!({ "class": { "kind": "MachineClass", "name": POD_CLASS } });
        merge(&mut spec, more);
        self.create_with(n, spec).await
    }

    /// Template of a pod that is scheduled only to nodes of this fixture. `more` is merged into it.
    fn pod_template(&self, app: &str, more: &Value) -> Value {
        let mut template = json!({
            "metadata": { "labels": { "app": app } },
            "spec": {
                "serviceAccountName": "web",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": GRACE,
                "nodeSelector": { FIXTURE_LABEL: self.namespace },
                "containers": [{ "name": "c", "image": "i" }],
            },
        });
        merge(&mut template, more);
        template
    }

    /// A Deployment of this many pods.
    pub(crate) async fn deploy(&self, app: &str, replicas: usize, more: &Value) -> Result<(), Failure> {
        let deployment = json!({
            "metadata": { "name": app },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": app } },
                "template": self.pod_template(app, more),
            },
        });
        create(&self.api::<Deployment>(), "create a Deployment", deployment).await
    }

    /// Creates a StatefulSet of this many pods. Each pod has a disk of its own, which is created here.
    pub(crate) async fn deploy_database(&self, app: &str, replicas: usize) -> Result<(), Failure> {
        let disks = self.namespace.clone();
        for n in 0..replicas {
            self.add_disk(&format!("{disks}-{app}-{n}"), &disks, "ReadWriteOnce").await?;
        }
        let set = json!({
            "metadata": { "name": app },
            "spec": {
                "replicas": replicas,
                "serviceName": app,
                "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": { "app": app } },
                "template": self.pod_template(app, &json!({})),
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim(&disks, "ReadWriteOnce") }],
            },
        });
        create(&self.api::<StatefulSet>(), "create a StatefulSet", set).await
    }

    /// A claim that several pods share, and its disk.
    pub(crate) async fn add_shared_claim(&self, name: &str) -> Result<(), Failure> {
        let disks = format!("{}-shared", self.namespace);
        self.add_disk(&disks, &disks, "ReadWriteMany").await?;
        let claim = json!({ "metadata": { "name": name }, "spec": claim(&disks, "ReadWriteMany") });
        create(&self.api::<PersistentVolumeClaim>(), "create a claim", claim).await
    }

    async fn add_disk(&self, name: &str, class: &str, mode: &str) -> Result<(), Failure> {
        let volume = json!({
            "metadata": { "name": name },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "accessModes": [mode],
                "storageClassName": class,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": { "driver": CSI_DRIVER, "volumeHandle": format!("vol-{name}") },
            },
        });
        create(&self.all::<PersistentVolume>(), "create a volume", volume).await
    }

    /// A pod without an owner on the node of machine number `n`.
    pub(crate) async fn place(&self, name: &str, n: usize, more: &Value) -> Result<(), Failure> {
        let mut pod = self
            .pod_template(name, &json!({ "metadata": { "name": name }, "spec": { "nodeName": self.machine_name(n) } }));
        merge(&mut pod, more);
        create(&self.api::<Pod>(), "create a Pod", pod).await
    }

    /// A budget for the pods with this label.
    pub(crate) async fn budget(&self, label: &Value, rule: &Value) -> Result<(), Failure> {
        let mut spec = json!({ "selector": { "matchLabels": label } });
        merge(&mut spec, rule);
        let budget = json!({ "metadata": { "name": "budget" }, "spec": spec });
        create(&self.api::<PodDisruptionBudget>(), "create a PodDisruptionBudget", budget).await
    }

    /// All pods of the fixture.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>, Failure> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await;
        pods.map(|list| list.items).map_err(Failure::api("list Pods"))
    }

    /// Waits until as many pods as wanted are ready on the node of machine number `n`.
    pub(crate) async fn until_ready_on(&self, n: usize, wanted: usize) -> Result<(), Failure> {
        let node = self.machine_name(n);
        let what = format!("{wanted} pods are ready on {node}");
        self.until_pods(&what, |pods| pods.iter().filter(|pod| is_ready(pod) && is_on(pod, &node)).count() == wanted)
            .await
    }

    /// Waits until the pods are as wanted.
    pub(crate) async fn until_pods(&self, what: &str, wanted: impl Fn(&[Pod]) -> bool) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let pods = self.pods().await?;
            if wanted(&pods) {
                return Ok(());
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                let seen: Vec<_> = pods.iter().map(|pod| (pod.name_any(), node_of(pod), is_ready(pod))).collect();
                format!("timed out waiting until {what}: {seen:?}")
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Returns the time until Machine number `n` is gone, without the time that the cloud needs.
    pub(crate) async fn time_to_delete(&self, n: usize) -> Result<Duration, Failure> {
        let begin = self.environment.clock.instant();
        self.until_gone(n).await?;
        Ok(begin.elapsed().saturating_sub(self.environment.pace.delete))
    }
}

/// Whether a pod runs and serves.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        && !is_leaving(pod)
}

/// Whether it has a deletionTimestamp.
pub(crate) fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it is bound to this node.
pub(crate) fn is_on(pod: &Pod, node: &str) -> bool {
    node_of(pod) == node
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn claim(class: &str, mode: &str) -> Value {
    json!({ "accessModes": [mode], "storageClassName": class, "resources": { "requests": { "storage": "1Gi" } } })
}
