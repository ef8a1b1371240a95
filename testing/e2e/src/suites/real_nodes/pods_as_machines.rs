//! Provider `local` on the real API server: machines are pods that run on the machines of provider `host`. Their kubelets and their garbage collector are
//! real; what runs in the pods is no kubelet, because no node image can be had here, so the controllers run without a cluster for nodes.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::User;
use serde_json::{Value, json};

use super::super::program::ourselves;
use super::super::report::Report;
use super::cluster::{Cluster, GROUP, text};
use crate::test_bed::{Process, TestBed, free_port};

/// The program around the driver.
const PROGRAM: &str = "millwright-driver-local";
/// Where Machines and classes are, and pods of the first generation.
const GARDEN: &str = "garden";
/// Where a class of the second generation has its pods.
const INFRA: &str = "infra";
/// Who makes pods there, with the rights that docs/reference/drivers/local.md lists and no others.
const MAKER: &str = "maker-of-pods";
/// What sleeps, under the name of a node image.
const IMAGE: &str = "millwright.local/pause:1";

pub(super) async fn play(cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let program = ourselves()?.with_file_name(PROGRAM);
    let bed = cluster.bed_of(program.clone())?;
    let made = report
        .case("provider local: machines of both generations are pods that run, and what goes with them", async {
            let expected = prepare(cluster, &bed)?;
            let controllers = start(cluster, &bed, &program)?;
            made(cluster, &expected).await?;
            Ok(controllers)
        })
        .await;
    let Some(controllers) = made else { return Ok(()) };
    report.case("provider local: machines that are deleted leave no pod, Secret or Service", gone(cluster, &bed)).await;
    report.case("provider local: asked to end, the controllers end cleanly", async { controllers.terminate() }).await;
    Ok(())
}

/// Both components in one process. No node ever joins, so a machine is complete when its pod runs.
fn start(cluster: &Cluster, bed: &TestBed<'_>, program: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(program);
    command.args([
        "run",
        "--target-kubeconfig=none",
        "--namespace",
        GARDEN,
        "--v=3",
        "--machine-safety-orphan-vms-period=10s",
    ]);
    command.arg(format!("--control-kubeconfig={}", cluster.kubeconfig_path().display()));
    command.args([format!("--port={}", free_port()?), format!("--manager-port={}", free_port()?)]);
    bed.start_command("pods-as-machines", &mut command)
}

/// A machine and where its pod is to be.
struct Expected {
    machine: &'static str,
    namespace: &'static str,
    /// What its Secret belongs to.
    owner: &'static str,
    service: bool,
}

/// Namespaces, rights, classes and Machines, and a machine that the first generation made before us.
fn prepare(cluster: &Cluster, bed: &TestBed<'_>) -> anyhow::Result<[Expected; 3]> {
    for machine in cluster.homes()? {
        // Pods of machines mount Docker's socket; that there is one is all that a kubelet asks.
        let socket = format!("/proc/{}/root/run/docker.sock", cluster.host().init_of(&machine)?);
        drop(UnixListener::bind(&socket).with_context(|| format!("failed to make {socket}"))?);
        cluster.host().run_in(
            &machine,
            "[ -L /var/run ] || { mkdir -p /var/run && mount --bind /run /var/run; }",
            &[],
        )?;
    }
    bed.apply("pods-as-machines", &objects(bed.kubeconfig_for(&User::named(MAKER))?.text()))?;
    let old: Value =
        serde_json::from_str(&bed.kubectl(&["get", "machine", "old", "--namespace", GARDEN, "--output=json"])?)?;
    bed.apply("first-generation", &of_the_first_generation(text(&old, "/metadata/uid")))?;
    Ok([
        Expected { machine: "old", namespace: GARDEN, owner: "Machine", service: false },
        Expected { machine: "first", namespace: GARDEN, owner: "Pod", service: true },
        Expected { machine: "second", namespace: INFRA, owner: "Pod", service: true },
    ])
}

async fn made(cluster: &Cluster, expected: &[Expected; 3]) -> anyhow::Result<()> {
    cluster.until(|| expected.iter().try_for_each(|one| one.judge(cluster))).await?;
    let pods = cluster.list("pods")?;
    let ours = pods.iter().filter(|pod| text(pod, "/metadata/labels/machine-provider") == "local").count();
    ensure!(ours == expected.len(), "{ours} pods are machines instead of {}", expected.len());
    Ok(())
}

impl Expected {
    fn judge(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let name = format!("machine-{}", self.machine);
        let pod = find(cluster, "pods", self.namespace, &name)?;
        ensure!(text(&pod, "/status/phase") == "Running", "{name} is {}", text(&pod, "/status/phase"));
        let machine = find(cluster, "machines", GARDEN, self.machine)?;
        let phase = text(&machine, "/status/currentStatus/phase");
        ensure!(phase == "Available", "the Machine {} is {phase:?}", self.machine);
        let id = text(&machine, "/spec/providerID");
        ensure!(id == name, "the Machine {} has the provider id {id:?}", self.machine);
        let secret = find(cluster, "secrets", self.namespace, &format!("{name}-userdata"))?;
        let owner = text(&secret, "/metadata/ownerReferences/0/kind");
        ensure!(owner == self.owner, "the user data of {} belongs to a {owner:?}", self.machine);
        ensure!(find(cluster, "services", self.namespace, &name).is_ok() == self.service, "the Service of {name}");
        Ok(())
    }
}

async fn gone(cluster: &Cluster, bed: &TestBed<'_>) -> anyhow::Result<()> {
    bed.kubectl(&["delete", "machines", "--all", "--namespace", GARDEN, "--wait=false"])?;
    cluster
        .until(|| {
            for kind in ["machines", "pods", "secrets", "services"] {
                let left = cluster.list(kind)?.into_iter().filter(|one| {
                    kind == "machines" && text(one, "/metadata/namespace") == GARDEN
                        || text(one, "/metadata/name").starts_with("machine-")
                });
                let left: Vec<String> = left.map(|one| text(&one, "/metadata/name").to_owned()).collect();
                ensure!(left.is_empty(), "the {kind} {left:?} are left");
            }
            Ok(())
        })
        .await
}

fn find(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let place = (namespace, name);
    let mut all = cluster.list(kind)?.into_iter();
    all.find(|one| (text(one, "/metadata/namespace"), text(one, "/metadata/name")) == place)
        .with_context(|| format!("there is no {name} among the {kind}"))
}

/// A class and a Machine of each generation, and what both need. `old` is a Machine that the first generation has begun.
fn objects(kubeconfig: &str) -> Value {
    let namespace = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let secret = |name: &str, data: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": GARDEN }, "stringData": data });
    let reference = |name: &str| json!({ "name": name, "namespace": GARDEN });
    let class = |name: &str, more: Value| {
        let mut class = json!({
            "apiVersion": GROUP, "kind": "MachineClass", "metadata": { "name": name, "namespace": GARDEN }, "provider": "local",
            "secretRef": reference("user-data"),
        });
        json_patch::merge(&mut class, &more);
        class
    };
    let machine = |name: &str, class: &str, id: &str| {
        json!({
            "apiVersion": GROUP, "kind": "Machine", "metadata": { "name": name, "namespace": GARDEN },
            "spec": { "class": { "kind": "MachineClass", "name": class }, "providerID": id },
        })
    };
    let rule = |resource: &str, verbs: &[&str]| json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs });
    let rbac = "rbac.authorization.k8s.io";
    let place = json!({ "name": MAKER, "namespace": INFRA });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        namespace(GARDEN),
        namespace(INFRA),
        {
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": place,
            "rules": [
                rule("pods", &["get", "list", "patch", "create", "delete"]),
                rule("secrets", &["patch", "create"]), rule("services", &["patch", "create"]),
            ],
        },
        {
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": place,
            "roleRef": { "apiGroup": rbac, "kind": "Role", "name": MAKER },
            "subjects": [{ "apiGroup": rbac, "kind": "User", "name": MAKER }],
        },
        secret("user-data", json!({ "userData": "#!/bin/sh\n" })),
        secret("credentials", json!({ "kubeconfig": kubeconfig })),
        class("first", json!({ "providerSpec": { "apiVersion": "mcm.gardener.cloud/v1alpha1", "image": IMAGE } })),
        class("second", json!({
            "providerSpec": { "image": IMAGE, "namespace": INFRA }, "credentialsSecretRef": reference("credentials"),
        })),
        machine("old", "first", "machine-old"),
        machine("first", "first", ""),
        machine("second", "second", ""),
    ] })
}

/// What MCM's provider-local of 2024 made of a Machine: no Service, no label that names the machine, and all of it belongs to the Machine.
fn of_the_first_generation(machine_uid: &str) -> Value {
    let owner = json!({
        "apiVersion": GROUP, "kind": "Machine", "name": "old", "uid": machine_uid, "controller": true, "blockOwnerDeletion": true,
    });
    let metadata = |name: &str| {
        json!({
            "name": name, "namespace": GARDEN, "ownerReferences": [owner],
            "labels": { "app": "machine", "machine-provider": "local" },
        })
    };
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata("machine-old-userdata"), "stringData": { "userdata": "#!/bin/sh\n" },
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata("machine-old"),
            "spec": {
                "terminationGracePeriodSeconds": 2,
                "containers": [{
                    "name": "node", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "securityContext": { "privileged": true },
                    "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                    "volumeMounts": [{ "name": "userdata", "mountPath": "/etc/machine" }],
                }],
                "volumes": [{ "name": "userdata", "secret": { "secretName": "machine-old-userdata", "defaultMode": 0o777 } }],
            },
        },
    ] })
}
