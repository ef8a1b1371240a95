//! Tests of `millwright run` against an API server on loopback.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{Options, Server, loopback};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::Program;

pub(crate) const MACHINES: &str = "machines.machine.sapcloud.io";

pub(crate) fn server() -> Server {
    let clock = runtime::Clock::system();
    let server = Server::new(Options::new(Arc::new(move || clock.now()), 1));
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    let group = "machine.sapcloud.io/v1alpha1";
    for object in [
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" }, "stringData": { "userData": "x" } }),
        json!({
            "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "c", "namespace": "default" },
            "provider": "virtual", "providerSpec": { "bootLatency": "100ms", "join": { "after": "100ms" } },
            "secretRef": { "name": "s", "namespace": "default" },
        }),
        json!({
            "apiVersion": group, "kind": "Machine", "metadata": { "name": "m", "namespace": "default" },
            "spec": { "class": { "kind": "MachineClass", "name": "c" } },
        }),
    ] {
        server.insert(&object).unwrap();
    }
    server
}

pub(crate) async fn until(server: &Server, what: &str, holds: impl Fn(&Server) -> bool) {
    for _ in 0..1200 {
        if holds(server) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("timed out after a minute while waiting until {what}: {:#?}", server.objects(MACHINES));
}

fn holder(server: &Server) -> Value {
    server
        .object("leases.coordination.k8s.io", "default", "machine-controller")
        .map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
}

/// Shows LEA-5.
#[tokio::test(flavor = "multi_thread")]
async fn run_creates_a_machine_and_releases_its_lease() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let program = Program::start(&["run", "--target-kubeconfig", &path.to_string_lossy(), "--v=4"]);
    let runs = |s: &Server| {
        s.object(MACHINES, "default", "m").is_some_and(|m| m["status"]["currentStatus"]["phase"] == "Running")
    };
    until(&server, "the machine runs", runs).await;
    let held = holder(&server);
    assert!(held.as_str().is_some_and(|who| who.contains('_')), "host name and a random suffix: {held}");

    assert!(program.terminate().success());
    assert_eq!(holder(&server).as_str().unwrap_or_default(), "", "the lease is released");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_replica_waits_until_the_first_is_gone() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let path = path.to_string_lossy().into_owned();
    let arguments = [
        "run",
        "--target-kubeconfig",
        &path,
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    ];
    let mut first = Program::start(&arguments);
    first.wait_for_line(&["started component", "machine controller"]);
    let leader = holder(&server);
    let mut second = Program::start(&arguments);
    second.wait_for_line(&["lease"]);
    assert_eq!(holder(&server), leader);
    first.kill();
    second.wait_for_line(&["started component", "machine controller"]);
    assert_ne!(holder(&server), leader);
}
