//! Provider `local` on kube-apiserver: machines are pods that run on the machines of provider `host`. Their kubelets
//! and the garbage collector are real. No node image is available here, so the pods contain no kubelet, and the
//! controllers run without a target cluster.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::User;
use serde_json::{Value, json};

use super::super::program::this_program;
use super::super::report::Report;
use super::cluster::{Cluster, GROUP, text};
use crate::test_bed::{Process, TestBed, free_port};

/// The program of the driver.
const PROGRAM: &str = "millwright-driver-local";
/// Namespace of the Machines and MachineClasses, and of pods of the first generation.
const GARDEN: &str = "garden";
/// Namespace of the pods of a MachineClass of the second generation.
const INFRA: &str = "infra";
/// User that creates pods there, with exactly the permissions in docs/reference/drivers/local.md.
const CREATOR: &str = "pod-creator";
/// A container that sleeps, with the name of a node image.
const IMAGE: &str = "millwright.local/pause:1";

pub(super) async fn play(cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let program = this_program()?.with_file_name(PROGRAM);
    let bed = cluster.bed_of(program.clone())?;
    let made = report
        .case("provider local: machines of both generations run as pods", async {
            let expected = prepare(cluster, &bed)?;
            let controllers = start(cluster, &bed, &program)?;
            made(cluster, &expected).await?;
            Ok(controllers)
        })
        .await;
    let Some(controllers) = made else { return Ok(()) };
    report.case("provider local: deleted machines leave no objects", gone(cluster, &bed)).await;
    report.case("provider local: the controllers stop on SIGTERM", async { controllers.terminate() }).await;
    Ok(())
}

/// Starts both components in one process. No Node joins, so a machine is complete when its pod runs.
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

/// A machine and the expected objects of its pod.
struct Expected {
    machine: &'static str,
    namespace: &'static str,
    /// Owner kind of its Secret.
    owner: &'static str,
    service: bool,
}

/// Creates namespaces, roles, MachineClasses and Machines, and the objects of a machine of the first generation.
fn prepare(cluster: &Cluster, bed: &TestBed<'_>) -> anyhow::Result<[Expected; 3]> {
    for machine in cluster.homes()? {
        // Pods of machines mount Docker's socket; the kubelet only checks that it exists.
        let socket = format!("/proc/{}/root/run/docker.sock", cluster.host().init_of(&machine)?);
        drop(UnixListener::bind(&socket).with_context(|| format!("failed to create {socket}"))?);
        cluster.host().run_in(
            &machine,
            "[ -L /var/run ] || { mkdir -p /var/run && mount --bind /run /var/run; }",
            &[],
        )?;
    }
    bed.apply("pods-as-machines", &objects(bed.kubeconfig_for(&User::named(CREATOR))?.text()))?;
    let old: Value =
        serde_json::from_str(&bed.kubectl(&["get", "machine", "old", "--namespace", GARDEN, "--output=json"])?)?;
    bed.apply("first-generation", &first_generation_objects(text(&old, "/metadata/uid")))?;
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
    ensure!(ours == expected.len(), "{ours} pods have the label of machines instead of {}", expected.len());
    Ok(())
}

impl Expected {
    fn judge(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let name = format!("machine-{}", self.machine);
        let pod = find(cluster, "pods", self.namespace, &name)?;
        ensure!(text(&pod, "/status/phase") == "Running", "{name} is {}", text(&pod, "/status/phase"));
        let machine = find(cluster, "machines", GARDEN, self.machine)?;
        let phase = text(&machine, "/status/currentStatus/phase");
        ensure!(phase == "Available", "Machine {} is {phase:?}", self.machine);
        let id = text(&machine, "/spec/providerID");
        ensure!(id == name, "Machine {} has provider ID {id:?}", self.machine);
        let secret = find(cluster, "secrets", self.namespace, &format!("{name}-userdata"))?;
        let owner = text(&secret, "/metadata/ownerReferences/0/kind");
        ensure!(owner == self.owner, "the owner of the user data of {} is a {owner:?}", self.machine);
        ensure!(
            find(cluster, "services", self.namespace, &name).is_ok() == self.service,
            "the Service of {name} is not as expected"
        );
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
                ensure!(left.is_empty(), "{kind} still exist: {left:?}");
            }
            Ok(())
        })
        .await
}

fn find(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let place = (namespace, name);
    let mut all = cluster.list(kind)?.into_iter();
    all.find(|one| (text(one, "/metadata/namespace"), text(one, "/metadata/name")) == place)
        .with_context(|| format!("{name} does not exist in {kind}"))
}

/// Returns a MachineClass and a Machine of each generation, and their other objects. `old` is a Machine that the first
/// generation has created.
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
    let place = json!({ "name": CREATOR, "namespace": INFRA });
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
            "roleRef": { "apiGroup": rbac, "kind": "Role", "name": CREATOR },
            "subjects": [{ "apiGroup": rbac, "kind": "User", "name": CREATOR }],
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

/// Returns the objects that MCM's provider-local of 2024 created for a Machine: no Service, no label with the name of
/// the machine, and the Machine owns all objects.
fn first_generation_objects(machine_uid: &str) -> Value {
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
