//! Tests of the HTTP endpoints of a running process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fake_apiserver::loopback;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Program, free_port, run, text};
use crate::serving::{MACHINES, server, until};

/// A secret that no page may contain.
const CANARY: &str = "c4n4ry-in-the-user-data";

/// Returns status and body of a page.
fn get(port: u16, page: &str) -> Option<(u16, String)> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(format!("GET {page} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).ok()?;
    let mut response = String::new();
    socket.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Requests a page for up to a minute until the response is as expected.
async fn wait_for_page(port: u16, page: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
    let mut last = None;
    for _ in 0..600 {
        last = get(port, page);
        if let Some((status, body)) = &last
            && wanted(*status, body)
        {
            return body.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("timed out after a minute while waiting for {page}; the last response was {last:?}");
}

fn start(ports: [u16; 2], kubeconfig: &str, more: &[&str]) -> Program {
    let ports = [format!("--port={}", ports[0]), format!("--manager-port={}", ports[1])];
    let arguments = ["run", "--address=127.0.0.1", &ports[0], &ports[1], "--target-kubeconfig", kubeconfig];
    Program::start(&[&arguments, more].concat())
}

/// Shows HTT-3, DEP-13.
#[tokio::test(flavor = "multi_thread")]
async fn process_waiting_for_its_api_server_is_healthy_not_ready() {
    let folder = TempDir::new().unwrap();
    let running = loopback::serve(server(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    running.shutdown().await;
    let ports = [free_port(), free_port()];
    let program = start(ports, &path.to_string_lossy(), &[]);
    for port in ports {
        wait_for_page(port, "/healthz", |status, body| (status, body) == (200, "OK")).await;
        let (status, body) = get(port, "/readyz").unwrap();
        assert_eq!(status, 503, "{body}");
        let (_, page) = get(port, "/metrics").unwrap();
        let build = page.lines().find(|line| line.starts_with("millwright_build_info")).expect("build information");
        let response = text(&run(&["--version"]).stdout);
        let (version, commit) = response.trim().trim_start_matches("millwright ").split_once(' ').unwrap();
        let commit = commit.trim_matches(['(', ')']);
        assert_eq!(build, format!("millwright_build_info{{commit=\"{commit}\",version=\"{version}\"}} 1"));
    }
    assert!(program.terminate().success());
    assert_eq!(get(ports[0], "/healthz"), None);
}

/// Shows HTT-4.
#[tokio::test(flavor = "multi_thread")]
async fn leader_and_standby_are_ready_during_an_outage_too() {
    let folder = TempDir::new().unwrap();
    let running = loopback::serve(server(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let path = path.to_string_lossy().into_owned();
    let election =
        ["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s", "--leader-elect-retry-period=500ms"];
    let (first, second) = ([free_port(), free_port()], [free_port(), free_port()]);
    let _leader = start(first, &path, &election);
    for port in first {
        wait_for_page(port, "/readyz?verbose", |status, body| status == 200 && body.contains("leader: yes\n")).await;
    }
    let _standby = start(second, &path, &election);
    for port in second {
        let wanted = |status: u16, body: &str| status == 200 && body.contains("leader: no, the leader is ");
        let response = wait_for_page(port, "/readyz?verbose", wanted).await;
        assert!(response.contains("frozen: no\n") && response.ends_with("ok\n"), "{response}");
        assert!(response.lines().any(|line| line.starts_with("machines: 1 objects, last update")), "{response}");
        assert!(response.lines().any(|line| line.starts_with("nodes: ")), "{response}");
        assert_eq!(get(port, "/readyz").unwrap(), (200, "ok\n".to_owned()));
    }

    running.shutdown().await;
    let broken = |_: u16, body: &str| body.contains("retrying at");
    wait_for_page(second[0], "/readyz?verbose", broken).await;
    assert_eq!(get(second[0], "/readyz").unwrap().0, 200);
    assert_eq!(get(first[0], "/healthz").unwrap(), (200, "OK".to_owned()));
}

/// Shows HTT-5, HTT-6.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_state_pages_contain_no_secrets() {
    let folder = TempDir::new().unwrap();
    let server = server();
    server
        .insert(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "canary", "namespace": "default" },
            "stringData": { "userData": CANARY },
        }))
        .unwrap();
    server
        .insert(&json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
            "metadata": { "name": "never-joins", "namespace": "default" }, "provider": "virtual",
            "providerSpec": { "bootLatency": "1h" }, "secretRef": { "name": "canary", "namespace": "default" },
        }))
        .unwrap();
    server
        .insert(&json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": "waits", "namespace": "default" },
            "spec": { "class": { "kind": "MachineClass", "name": "never-joins" } },
        }))
        .unwrap();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let ports = [free_port(), free_port()];
    let program = start(ports, &path.to_string_lossy(), &["--profiling", "--leader-elect=false"]);
    let pending = |s: &fake_apiserver::Server| {
        s.object(MACHINES, "default", "waits").is_some_and(|m| m["status"]["currentStatus"]["phase"] == "Pending")
    };
    until(&server, "the machine is pending", pending).await;

    let [machines, manager] = ports.map(|port| get(port, "/metrics").unwrap().1);
    assert!(machines.contains("mcm_workqueue_adds_total{name=\"machine\"}"), "{machines}");
    assert!(manager.contains("mcm_workqueue_adds_total{name=\"machineset\"}"), "{manager}");
    assert!(!manager.contains("mcm_workqueue_adds_total{name=\"machine\"}"), "{manager}");
    assert!(machines.contains("process_resident_memory_bytes") && manager.contains("process_resident_memory_bytes"));

    let response = wait_for_page(ports[0], "/debug/state?o=json", |_, body| body.contains("default/waits")).await;
    let state: Value = serde_json::from_str(&response).unwrap();
    let names: Vec<&str> = state["queues"].as_array().unwrap().iter().filter_map(|q| q["name"].as_str()).collect();
    assert!(names.contains(&"machine") && names.contains(&"machineset"), "{names:?}");
    let kinds: Vec<&str> = state["caches"].as_array().unwrap().iter().filter_map(|c| c["kind"].as_str()).collect();
    assert!(kinds.contains(&"machines") && kinds.contains(&"nodes"), "{kinds:?}");
    let waits = &state["objects"]["machine"]["default/waits"];
    assert!(waits["because"].as_str().is_some_and(|why| !why.is_empty()), "{waits}");
    assert_eq!(state["leader"], "yes, without an election");
    let readable = get(ports[1], "/debug/state").unwrap().1;
    assert!(readable.contains("default/waits"), "{readable}");
    for page in [&response, &readable, &machines, &manager] {
        assert!(!page.contains(CANARY) && !page.contains(&running.token), "{page}");
    }
    assert!(program.terminate().success());
}

/// Shows HTT-3.
#[test]
fn used_port_ends_the_process_with_255() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--port={}", taken.local_addr().unwrap().port());
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let running = runtime.block_on(loopback::serve(server(), loopback::Options::default())).unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let path = path.to_string_lossy();
    let output = run(&["run", "--provider=virtual", "--address=127.0.0.1", &port, "--target-kubeconfig", &path]);
    assert_eq!(output.status.code(), Some(255));
    let response = text(&output.stderr);
    assert!(response.contains("failed to listen") && response.contains("--port"), "{response}");
}
