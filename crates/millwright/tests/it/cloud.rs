//! Tests of the virtual cloud as a separate process, which outlives the controller.

use std::sync::Arc;
use std::time::Duration;

use api::MachineClass;
use driver::{Call, ClassRequest, Driver};
use driver_remote::{Caller, RemoteDriver};
use fake_apiserver::loopback::Running;
use fake_apiserver::{Options, Server, loopback};
use runtime::{Random, Tasks};
use serde_json::json;
use tempfile::TempDir;

use crate::program::{Program, run, text};

const MACHINES: usize = 10;
const RESOURCE: &str = "machines.machine.sapcloud.io";

fn name(n: usize) -> String {
    format!("m-{n}")
}

/// An API server on loopback with a MachineClass and ten Machines, and a directory for sockets.
struct CloudFixture {
    server: Server,
    _running: Running,
    folder: TempDir,
}

impl CloudFixture {
    async fn new() -> Self {
        let (clock, folder) = (runtime::Clock::system(), TempDir::new().unwrap());
        let server = Server::new(Options::new(Arc::new(move || clock.now()), 1));
        for definition in api::crd::definitions() {
            server.insert(&definition).unwrap();
        }
        let group = "machine.sapcloud.io/v1alpha1";
        let meta = |name: &str| json!({ "name": name, "namespace": "default" });
        server
            .insert(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta("s"), "stringData": { "userData": "x" } }))
            .unwrap();
        let spec = json!({ "createLatency": "200ms", "bootLatency": "100ms", "join": { "after": "100ms" } });
        server
            .insert(&json!({
                "apiVersion": group, "kind": "MachineClass", "metadata": meta("c"), "provider": "virtual",
                "providerSpec": spec, "secretRef": { "name": "s", "namespace": "default" },
            }))
            .unwrap();
        for n in 0..MACHINES {
            let spec = json!({ "class": { "kind": "MachineClass", "name": "c" } });
            server
                .insert(&json!({ "apiVersion": group, "kind": "Machine", "metadata": meta(&name(n)), "spec": spec }))
                .unwrap();
        }
        let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
        running.write_kubeconfig(folder.path().join("kubeconfig")).unwrap();
        Self { server, _running: running, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.path("cloud.sock"))
    }

    fn cloud(&self) -> Program {
        let (listen, kubeconfig) = (self.endpoint(), self.path("kubeconfig"));
        Program::start(&["virtual-cloud", "--listen", &listen, "--kubeconfig", &kubeconfig, "--allow-doubles"])
    }

    fn controller(&self) -> Program {
        let (endpoint, kubeconfig) = (self.endpoint(), self.path("kubeconfig"));
        let arguments =
            ["run", "--leader-elect=false", "--driver-endpoint", &endpoint, "--target-kubeconfig", &kubeconfig];
        Program::start(&arguments)
    }

    fn running(&self) -> usize {
        let machines = self.server.objects(RESOURCE);
        machines.iter().filter(|machine| machine["status"]["currentStatus"]["phase"] == "Running").count()
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..1200 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("timed out after a minute while waiting until {what}: {:#?}", self.server.objects(RESOURCE));
    }

    /// Returns the number of VMs in the cloud, listed as a controller does.
    async fn vms(&self, tasks: &Tasks) -> usize {
        let caller = Caller { name: "test/0".into(), random: Random::seeded(1), tasks: tasks.clone() };
        let driver = RemoteDriver::new(&self.endpoint().parse().unwrap(), None, caller).unwrap();
        let mut class = MachineClass { provider: "virtual".into(), ..MachineClass::default() };
        class.provider_spec = json!({});
        let request = ClassRequest { class: Arc::new(class), secret: Arc::default() };
        driver.list(&Call::default(), &request).await.map_or(0, |owners| owners.len())
    }
}

/// Shows REM-8.
#[tokio::test(flavor = "multi_thread")]
async fn killed_controller_creates_no_duplicate_vms_after_restart() {
    let (fixture, tasks) = (CloudFixture::new().await, Tasks::new());
    let mut cloud = fixture.cloud();
    cloud.wait_for_line(&["started virtual cloud", "cloud.sock"]);
    let mut controller = fixture.controller();
    controller.wait_for_line(&["connected to the driver", "virtual"]);
    fixture.until("some VMs exist", async || fixture.vms(&tasks).await > 0).await;
    controller.kill();

    let controller = fixture.controller();
    fixture.until("all Machines are Running", async || fixture.running() == MACHINES).await;
    assert_eq!(fixture.vms(&tasks).await, MACHINES, "a duplicate create call would be visible");

    let requests = fixture.server.requests();
    let of_nodes = requests.iter().filter(|entry| entry.tally.resource == "nodes" && entry.tally.verb == "create");
    let agents: Vec<_> = of_nodes.map(|entry| entry.tally.user_agent.clone()).collect();
    assert_eq!(agents.len(), MACHINES);
    assert!(agents.iter().all(|agent| agent.starts_with("millwright-virtual-cloud/")), "{agents:?}");

    tasks.stop();
    assert!(controller.terminate().success());
    assert!(cloud.terminate().success());
    assert!(!std::path::Path::new(&fixture.path("cloud.sock")).exists(), "the socket is removed");
}

/// Shows REM-5.
#[tokio::test(flavor = "multi_thread")]
async fn controller_waits_for_its_driver() {
    let fixture = CloudFixture::new().await;
    let mut controller = fixture.controller();
    let printed = controller.wait_for_line(&["waiting for the driver"]);
    assert!(printed.contains(&fixture.endpoint()) && printed.contains("start it"), "{printed}");
    let _cloud = fixture.cloud();
    controller.wait_for_line(&["connected to the driver"]);
    controller.wait_for_line(&["started component"]);
    assert!(controller.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_cloud_does_not_replace_the_socket_of_the_first() {
    let fixture = CloudFixture::new().await;
    let mut cloud = fixture.cloud();
    cloud.wait_for_line(&["started virtual cloud"]);
    let output = run(&["virtual-cloud", "--listen", &fixture.endpoint(), "--kubeconfig=none"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("another process already does"), "{}", text(&output.stderr));
}

#[test]
fn tls_endpoint_without_certificates_is_rejected() {
    let output = run(&["run", "--target-kubeconfig=none", "--driver-endpoint=tcp+mtls://localhost:1"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--driver-cert-file"), "{}", text(&output.stderr));
}
