//! `millwright dev` as somebody who tries it sees it.

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

/// The kubeconfig in what it prints.
fn kubeconfig(program: &mut Program) -> PathBuf {
    let line = program.says(&["export KUBECONFIG="]);
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
    panic!("waited two minutes in vain until {wanted} machines run");
}

/// Shows HTT-8.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_comes_up_can_be_scaled_and_nothing_is_left_behind() {
    let mut program = Program::start_talking(&["dev"]);
    let path = kubeconfig(&mut program);
    assert!(path.exists());
    let machines: Api<Machine> = Api::namespaced(client(&path), "default");
    let pools: Api<MachineDeployment> = Api::namespaced(client(&path), "default");
    until_running(&machines, 3).await;
    let five = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    pools.patch("pool", &PatchParams::default(), &five).await.unwrap();
    until_running(&machines, 5).await;
    program.says(&["millwright", "machine deployment pool"]);

    assert_eq!(program.interrupt().code(), Some(0));
    assert!(!path.exists() && !path.parent().unwrap().exists(), "{} is left behind", path.display());
}

/// Shows OPR-21.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_data_dir_the_same_machines_and_vms_are_there_after_a_restart() {
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
    let mut first = Program::start_talking(&arguments);
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

    let mut second = Program::start_talking(&arguments);
    let path = kubeconfig(&mut second);
    assert_eq!(named(&path).await, before, "other machines, or other VMs");
    let five = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let pools: Api<MachineDeployment> = Api::namespaced(client(&path), "default");
    pools.patch("pool", &PatchParams::default(), &five).await.unwrap();
    until_running(&Api::namespaced(client(&path), "default"), 5).await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client(&path));
    assert_eq!(nodes.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 5);
    assert_eq!(second.interrupt().code(), Some(0));
    std::fs::write(data.join("state.json"), "{").unwrap();
    let odd = run(&arguments);
    assert!(text(&odd.stderr).contains("remove it to begin anew"), "{}", text(&odd.stderr));
}

/// What is answered on loopback, until it ends or so much has come.
fn asked(address: &str, path: &str, enough: impl Fn(&str) -> bool) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let (mut said, mut piece) = (String::new(), [0; 4096]);
    while !enough(&said) {
        let length = socket.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        said.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    said
}

/// Shows OPR-10.
#[test]
fn the_web_view_shows_the_pool_as_it_comes_up_and_explains_it() {
    let mut program = Program::start_talking(&["dev"]);
    let line = program.says(&["  http://127.0.0.1:"]);
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(asked(&address, "/", |_| false).contains("<title>Millwright</title>"));
    let told = asked(&address, "/events", |said| said.matches("\"phase\":\"Running\"").count() >= 3);
    assert!(told.contains("event: everything") && told.contains("\"because\":"), "{told}");
    assert!(!told.contains("cloud-config") && !told.contains("userData"), "{told}");
    let explained = asked(&address, "/explain?kind=machinedeployment&name=pool", |_| false);
    assert!(explained.contains("\"standing\":"), "{explained}");
    assert_eq!(program.interrupt().code(), Some(0));
}

/// Shows OPR-17.
#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_with_little_room_and_failures_makes_what_it_has_room_for() {
    let flags = ["--machines=4", "--boot-time=100ms", "--quota=2", "--fail=Unavailable=1"];
    let mut program = Program::start_talking(&[&["dev"], &flags[..]].concat());
    let first = program.says(&[""]);
    assert!(first.starts_with("A cluster in memory listens on"), "the banner comes first: {first}");
    let client = client(&kubeconfig(&mut program));
    let machines: Api<Machine> = Api::namespaced(client.clone(), "default");
    until_running(&machines, 2).await;
    let all = machines.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 4, "{all:#?}");
    program.says(&["because the call to create its VM failed with Unavailable"]);
    program.says(&["because the call to create its VM failed with ResourceExhausted"]);
    let class = Api::<MachineClass>::namespaced(client, "default").get("small").await.unwrap();
    assert_eq!(class.provider_spec["bootLatency"], "100ms");
    assert_eq!(program.interrupt().code(), Some(0));
}

/// Shows OPR-17.
#[rstest]
#[case("--machines=1001", "0..=1000")]
#[case("--machines=some", "invalid digit")]
#[case("--boot-time=5", "write it like 90s")]
#[case("--boot-time=-5s", "it must not be negative")]
#[case("--quota=-1", "not in 0..=")]
#[case("--fail=Unavailable", "it must be CODE=N for the next N creates, or CODE=P%")]
#[case("--fail=Slow=1", "the code must be one of Canceled, ")]
#[case("--fail=Internal=200%", "the share must be from 1% to 100%")]
fn a_value_of_dev_that_makes_no_sense_is_refused_with_its_flag_and_what_helps(#[case] flag: &str, #[case] helps: &str) {
    let output = run(&["dev", flag]);
    let said = text(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    let (name, _) = flag.split_once('=').unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(first.contains(name) && first.contains(helps), "{said}");
}

/// Shows HTT-8.
#[test]
fn a_file_that_was_there_before_is_neither_overwritten_nor_removed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "mine").unwrap();
    let output = run(&["dev", "--kubeconfig", &path.to_string_lossy()]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("is there already"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_port_that_is_taken_is_told_in_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["dev", "--port", &port]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains(&port), "{}", text(&output.stderr));
}
