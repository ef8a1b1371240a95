//! Tests of `millwright dev`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::{Machine, MachineClass, MachineDeployment, MachinePhase};
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use runtime::Metrics;
use runtime::client::Api;
use runtime::client::{ClientSpec, Connection, Source, UserAgent};
use serde_json::json;
use tempfile::TempDir;

use crate::program::{Program, run, text};

/// Returns the path of the kubeconfig from the banner.
fn kubeconfig(program: &mut Program) -> PathBuf {
    let line = program.wait_for_line(&["export KUBECONFIG="]);
    PathBuf::from(line.split_once('=').unwrap().1)
}

fn client(kubeconfig: &Path) -> kube::Client {
    let source = Source::Kubeconfig { path: kubeconfig.to_owned(), flag: "--kubeconfig".to_owned() };
    let spec = ClientSpec::new(UserAgent::new("kubectl", "0", "test"));
    Connection::load(&source).unwrap().client(&spec, &Metrics::new().unwrap().rest)
}

async fn until_running(machines: &Api<Machine>, wanted: usize) {
    for _ in 0..1200 {
        let all = machines.list(&kube::api::ListParams::default()).await.unwrap();
        if all.items.iter().filter(|machine| *machine.phase() == MachinePhase::Running).count() == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("timed out after two minutes: {wanted} machines are not Running");
}

/// Shows HTT-8.
#[tokio::test(flavor = "multi_thread")]
async fn dev_runs_and_scales_a_pool_and_leaves_nothing_behind() {
    let mut program = Program::start_reading_stdout(&["dev"]);
    let path = kubeconfig(&mut program);
    assert!(path.exists());
    let machines: Api<Machine> = Api::namespaced(client(&path), "default");
    let pools: Api<MachineDeployment> = Api::namespaced(client(&path), "default");
    until_running(&machines, 3).await;
    let five = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    pools.patch("pool", &PatchParams::default(), &five).await.unwrap();
    until_running(&machines, 5).await;
    program.wait_for_line(&["millwright", "machine deployment pool"]);

    assert_eq!(program.interrupt().code(), Some(0));
    assert!(!path.exists() && !path.parent().unwrap().exists(), "{} is left behind", path.display());
}

/// Shows OPR-21.
#[tokio::test(flavor = "multi_thread")]
async fn dev_restores_machines_and_vms_from_its_data_dir() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let arguments = ["dev", "--data-dir", data.to_str().unwrap()];
    let named = async |path: &Path| {
        let machines: Api<Machine> = Api::namespaced(client(path), "default");
        until_running(&machines, 4).await;
        let all = machines.list(&kube::api::ListParams::default()).await.unwrap();
        let mut ids: Vec<_> =
            all.items.iter().map(|one| (one.metadata.uid.to_string(), one.spec.provider_id.to_string())).collect();
        ids.sort();
        ids
    };
    let mut first = Program::start_reading_stdout(&arguments);
    let path = kubeconfig(&mut first);
    let pools: Api<MachineDeployment> = Api::namespaced(client(&path), "default");
    until_running(&Api::namespaced(client(&path), "default"), 3).await;
    let four = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    pools.patch("pool", &PatchParams::default(), &four).await.unwrap();
    let before = named(&path).await;
    let taken = run(&arguments);
    assert!(
        !taken.status.success() && text(&taken.stderr).contains("another `millwright dev`"),
        "{}",
        text(&taken.stderr)
    );
    assert_eq!(first.interrupt().code(), Some(0));

    let mut second = Program::start_reading_stdout(&arguments);
    let path = kubeconfig(&mut second);
    assert_eq!(named(&path).await, before, "different Machines or VMs");
    let five = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let pools: Api<MachineDeployment> = Api::namespaced(client(&path), "default");
    pools.patch("pool", &PatchParams::default(), &five).await.unwrap();
    until_running(&Api::namespaced(client(&path), "default"), 5).await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client(&path));
    assert_eq!(nodes.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 5);
    assert_eq!(second.interrupt().code(), Some(0));
    std::fs::write(data.join("state.json"), "{").unwrap();
    let odd = run(&arguments);
    assert!(text(&odd.stderr).contains("Remove it to start without saved state"), "{}", text(&odd.stderr));
}

/// Returns the response of a server on loopback. Reads until it ends or is sufficient.
fn get(address: &str, path: &str, is_sufficient: impl Fn(&str) -> bool) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let (mut response, mut piece) = (String::new(), [0; 4096]);
    while !is_sufficient(&response) {
        let length = socket.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        response.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    response
}

/// Shows OPR-10.
#[test]
fn web_view_shows_and_explains_the_pool() {
    let mut program = Program::start_reading_stdout(&["dev"]);
    let line = program.wait_for_line(&["  http://127.0.0.1:"]);
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(get(&address, "/", |_| false).contains("<title>Millwright</title>"));
    let events = get(&address, "/events", |events| events.matches("\"phase\":\"Running\"").count() >= 3);
    assert!(events.contains("event: everything") && events.contains("\"because\":"), "{events}");
    assert!(!events.contains("cloud-config") && !events.contains("userData"), "{events}");
    let explained = get(&address, "/explain?kind=machinedeployment&name=pool", |_| false);
    assert!(explained.contains("\"standing\":"), "{explained}");
    assert_eq!(program.interrupt().code(), Some(0));
}

/// Shows OPR-17.
#[tokio::test(flavor = "multi_thread")]
async fn dev_injects_quota_and_driver_errors() {
    let flags = ["--machines=4", "--boot-time=100ms", "--quota=2", "--fail=Unavailable=1"];
    let mut program = Program::start_reading_stdout(&[&["dev"], &flags[..]].concat());
    let first = program.wait_for_line(&[""]);
    assert!(first.starts_with("The in-memory cluster listens on"), "the banner comes first: {first}");
    let client = client(&kubeconfig(&mut program));
    let machines: Api<Machine> = Api::namespaced(client.clone(), "default");
    until_running(&machines, 2).await;
    let all = machines.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 4, "{all:#?}");
    program.wait_for_line(&["reason: the driver call to create the VM failed with Unavailable"]);
    program.wait_for_line(&["reason: the driver call to create the VM failed with ResourceExhausted"]);
    let class = Api::<MachineClass>::namespaced(client, "default").get("small").await.unwrap();
    assert_eq!(class.provider_spec["bootLatency"], "100ms");
    assert_eq!(program.interrupt().code(), Some(0));
}

/// Shows OPR-17.
#[rstest]
#[case("--machines=1001", "0..=1000")]
#[case("--machines=some", "invalid digit")]
#[case("--boot-time=5", "use a value such as 90s")]
#[case("--boot-time=-5s", "must not be negative")]
#[case("--quota=-1", "not in 0..=")]
#[case("--fail=Unavailable", "must be CODE=N for the next N create calls, or CODE=P%")]
#[case("--fail=Slow=1", "the code must be one of Canceled, ")]
#[case("--fail=Internal=200%", "the percentage must be from 1% to 100%")]
fn invalid_flag_of_dev_is_rejected_with_a_fix(#[case] flag: &str, #[case] expected: &str) {
    let output = run(&["dev", flag]);
    let printed = text(&output.stderr);
    let first = printed.lines().next().unwrap_or_default();
    let (name, _) = flag.split_once('=').unwrap();
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(first.contains(name) && first.contains(expected), "{printed}");
}

/// Shows HTT-8.
#[test]
fn dev_does_not_overwrite_an_existing_kubeconfig() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "mine").unwrap();
    let output = run(&["dev", "--kubeconfig", &path.to_string_lossy()]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("already exists"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn dev_reports_a_used_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["dev", "--port", &port]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains(&port), "{}", text(&output.stderr));
}
