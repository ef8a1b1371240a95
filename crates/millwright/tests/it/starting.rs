//! A start that cannot succeed says why in one sentence; a start that may yet succeed waits and says for what.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fake_apiserver::{Options, Server, loopback};
use tempfile::TempDir;

use crate::program::{Program, run, text};

fn failing(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    assert!(said.starts_with("millwright: "), "{said}");
    said
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
fn a_kubeconfig_that_is_not_there_ends_the_start_with_its_path_and_its_flag() {
    let said = failing(&["run", "--provider=virtual", "--target-kubeconfig=/no/such/kubeconfig"]);
    assert!(said.contains("/no/such/kubeconfig") && said.contains("--target-kubeconfig"), "{said}");
}

/// Shows CLI-10.
#[test]
fn a_kubeconfig_that_is_no_kubeconfig_ends_the_start() {
    let folder = TempDir::new().unwrap();
    let path = written(&folder, "clusters: [unclosed");
    let said = failing(&[
        "run",
        "--provider=virtual",
        "--target-kubeconfig=none",
        "--control-kubeconfig",
        &path.to_string_lossy(),
    ]);
    assert!(said.contains("--control-kubeconfig") && said.contains("line 1"), "{said}");
}

#[test]
fn without_any_cluster_the_start_says_which_flag_is_missing() {
    let said = failing(&["run", "--provider=virtual", "--target-kubeconfig=none"]);
    assert!(said.contains("--control-kubeconfig"), "{said}");
}

#[test]
fn outside_a_pod_the_start_says_that_it_needs_a_kubeconfig() {
    let said = failing(&["run", "--provider=virtual"]);
    assert!(said.contains("kubeconfig") || said.contains("KUBERNETES_SERVICE_HOST"), "{said}");
}

/// Shows FLG-11.
#[test]
fn without_a_cloud_the_start_is_refused_by_the_two_flags_that_choose_one() {
    for command in ["run", "machine-controller"] {
        let said = failing(&[command, "--target-kubeconfig=/no/such/kubeconfig"]);
        assert!(said.contains("--driver-endpoint") && said.contains("--provider=virtual"), "{command}: {said}");
    }
    let manager = failing(&["manager", "--target-kubeconfig=/no/such/kubeconfig"]);
    assert!(manager.contains("/no/such/kubeconfig"), "the manager needs no cloud: {manager}");
}

/// Shows THR-9.
#[test]
fn a_wrong_flag_is_told_with_exit_code_two() {
    let output = run(&["run", "--machine-creation-timeout=20"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("write it like 90s"), "{}", text(&output.stderr));
}

#[test]
fn election_durations_that_make_no_sense_are_refused() {
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
async fn an_api_server_that_does_not_answer_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let running = loopback::serve(server(), loopback::Options::default()).await.unwrap();
    let (address, path) = (running.address, written(&folder, &running.kubeconfig()));
    running.shutdown().await;
    let mut program = start(&path);
    program.says(&["waiting", &address.port().to_string()]);
    assert!(program.terminate().success(), "asked to end while waiting, it ends cleanly");
}

/// Shows FLG-12.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_vouches_for_is_warned_about_once() {
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
    program.says(&["all caches are up to date"]);
    let warnings: Vec<&String> =
        program.heard_so_far().iter().filter(|line| line.contains("insecure-skip-tls-verify")).collect();
    let [warning] = warnings.as_slice() else { panic!("{:#?}", program.heard_so_far()) };
    assert!(warning.contains("kubeconfig") && warning.contains("certificate-authority"), "{warning}");
    assert!(program.terminate().success());
}

/// Shows CLI-11.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_waited_for_and_named() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = written(&folder, &running.kubeconfig());
    server.revoke(&running.token);
    let mut program = start(&path);
    let said = program.says(&["waiting", "401"]);
    assert!(!said.contains(&running.token), "the token itself must not be told");
    program.kill();
}

/// Shows CLI-11.
#[tokio::test(flavor = "multi_thread")]
async fn missing_definitions_are_waited_for_until_they_are_there() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = written(&folder, &running.kubeconfig());
    let mut program = start(&path);
    program.says(&["waiting", "machines", "machine.sapcloud.io"]);
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    program.says(&["all caches are up to date"]);
    assert!(program.terminate().success());
}
