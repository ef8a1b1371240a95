//! Tests of the startup: permanent errors end the process with one message, temporary obstacles are waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fake_apiserver::{Options, Server, loopback};
use tempfile::TempDir;

use crate::program::{Program, run, text};

fn failing(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success());
    let printed = text(&output.stderr);
    assert_eq!(printed.trim_end().lines().count(), 1, "one line: {printed}");
    assert!(printed.starts_with("millwright: "), "{printed}");
    printed
}

fn server() -> Server {
    let clock = runtime::Clock::system();
    Server::new(Options::new(Arc::new(move || clock.now()), 1))
}

fn written(folder: &TempDir, kubeconfig: &str) -> PathBuf {
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig).unwrap();
    path
}

fn start(kubeconfig: &Path) -> Program {
    Program::start(&["run", "--target-kubeconfig", &kubeconfig.to_string_lossy(), "--leader-elect=false"])
}

/// Shows CLI-10.
#[test]
fn missing_kubeconfig_is_reported_with_path_and_flag() {
    let printed = failing(&["run", "--provider=virtual", "--target-kubeconfig=/no/such/kubeconfig"]);
    assert!(printed.contains("/no/such/kubeconfig") && printed.contains("--target-kubeconfig"), "{printed}");
}

/// Shows CLI-10.
#[test]
fn malformed_kubeconfig_is_reported() {
    let folder = TempDir::new().unwrap();
    let path = written(&folder, "clusters: [unclosed");
    let printed = failing(&[
        "run",
        "--provider=virtual",
        "--target-kubeconfig=none",
        "--control-kubeconfig",
        &path.to_string_lossy(),
    ]);
    assert!(printed.contains("--control-kubeconfig") && printed.contains("line 1"), "{printed}");
}

#[test]
fn missing_control_kubeconfig_is_reported() {
    let printed = failing(&["run", "--provider=virtual", "--target-kubeconfig=none"]);
    assert!(printed.contains("--control-kubeconfig"), "{printed}");
}

#[test]
fn missing_kubeconfig_outside_a_pod_is_reported() {
    let printed = failing(&["run", "--provider=virtual"]);
    assert!(printed.contains("kubeconfig") || printed.contains("KUBERNETES_SERVICE_HOST"), "{printed}");
}

/// Shows FLG-11.
#[test]
fn missing_driver_is_reported_with_both_flags() {
    for command in ["run", "machine-controller"] {
        let printed = failing(&[command, "--target-kubeconfig=/no/such/kubeconfig"]);
        assert!(
            printed.contains("--driver-endpoint") && printed.contains("--provider=virtual"),
            "{command}: {printed}"
        );
    }
    let manager = failing(&["manager", "--target-kubeconfig=/no/such/kubeconfig"]);
    assert!(manager.contains("/no/such/kubeconfig"), "the manager needs no driver: {manager}");
}

/// Shows THR-9.
#[test]
fn malformed_flag_exits_with_two() {
    let output = run(&["run", "--machine-creation-timeout=20"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("use a value such as 90s"), "{}", text(&output.stderr));
}

#[test]
fn invalid_leader_election_durations_are_rejected() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = server();
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    let running = runtime.block_on(loopback::serve(server, loopback::Options::default())).unwrap();
    let path = written(&folder, &running.kubeconfig());
    let path = path.to_string_lossy();
    let output = run(&["run", "--provider=virtual", "--target-kubeconfig", &path, "--leader-elect-lease-duration=5s"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("lease"), "{}", text(&output.stderr));
}

/// Shows CLI-11.
#[tokio::test(flavor = "multi_thread")]
async fn process_waits_for_an_unreachable_api_server() {
    let folder = TempDir::new().unwrap();
    let running = loopback::serve(server(), loopback::Options::default()).await.unwrap();
    let (address, path) = (running.address, written(&folder, &running.kubeconfig()));
    running.shutdown().await;
    let mut program = start(&path);
    program.wait_for_line(&["waiting", &address.port().to_string()]);
    assert!(program.terminate().success(), "a shutdown while waiting succeeds");
}

/// Shows FLG-12.
#[tokio::test(flavor = "multi_thread")]
async fn insecure_kubeconfig_logs_one_warning() {
    let folder = TempDir::new().unwrap();
    let server = server();
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    let running = loopback::serve(server, loopback::Options::default()).await.unwrap();
    let kubeconfig = running.kubeconfig();
    let careless = kubeconfig.lines().map(|line| match line.split_once("certificate-authority-data:") {
        Some((indent, _)) => format!("{indent}insecure-skip-tls-verify: true\n"),
        None => format!("{line}\n"),
    });
    let path = written(&folder, &careless.collect::<String>());
    let mut program = start(&path);
    program.wait_for_line(&["started component"]);
    let warnings: Vec<&String> =
        program.lines_so_far().iter().filter(|line| line.contains("insecure-skip-tls-verify")).collect();
    let [warning] = warnings.as_slice() else { panic!("{:#?}", program.lines_so_far()) };
    assert!(warning.contains("kubeconfig") && warning.contains("certificate-authority"), "{warning}");
    assert!(program.terminate().success());
}

/// Shows CLI-11.
#[tokio::test(flavor = "multi_thread")]
async fn process_waits_while_its_token_is_rejected() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = written(&folder, &running.kubeconfig());
    server.revoke(&running.token);
    let mut program = start(&path);
    let printed = program.wait_for_line(&["waiting", "401"]);
    assert!(!printed.contains(&running.token), "the token must not be logged");
    program.kill();
}

/// Shows CLI-11.
#[tokio::test(flavor = "multi_thread")]
async fn process_waits_for_missing_crds() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = written(&folder, &running.kubeconfig());
    let mut program = start(&path);
    program.wait_for_line(&["waiting", "machines", "machine.sapcloud.io"]);
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    program.wait_for_line(&["started component"]);
    assert!(program.terminate().success());
}
