//! Tests the objects of the AWS tutorial with a fake EC2.

use cloud_fakes::ec2::{Ec2, Image, Settings};
use fake_apiserver::{Options, Server, loopback};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::Program;
use crate::serving::MACHINES;

const PAGE: &str = include_str!("../../../../docs/getting-started/aws.md");
const NAMESPACE: &str = "millwright-system";

/// Returns the objects of the page in their order, without the kustomize overlay.
fn objects() -> Vec<Value> {
    let blocks = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let all = blocks.map(|block| serde_saphyr::from_str::<Value>(block).unwrap());
    all.filter(|object| object["kind"] != "Kustomization").collect()
}

fn server() -> Server {
    let clock = runtime::Clock::system();
    let server = Server::new(Options::new(std::sync::Arc::new(move || clock.now()), 1));
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_the_aws_tutorial_create_its_pool() {
    let objects = objects();
    let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Secret", "MachineClass", "MachineDeployment"]);
    let id = objects[1]["providerSpec"]["ami"].as_str().unwrap().to_owned();
    let image = Image { id, root_device_name: "/dev/xvda".to_owned() };
    let ec2 = Ec2::start(Settings { images: vec![image], ..Settings::default() }).await.unwrap();
    let (server, folder) = (server(), TempDir::new().unwrap());
    // deploy/base creates the namespace.
    server.insert(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } })).unwrap();
    for object in &objects {
        server.insert(object).unwrap();
    }
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let namespace = format!("--namespace={NAMESPACE}");
    let arguments = ["run", "--provider=AWS", &namespace, "--target-kubeconfig", &path.to_string_lossy()];
    let program = Program::start_with(&arguments, &[("AWS_ENDPOINT_URL_EC2", &ec2.endpoint())]);

    let made = |server: &Server| {
        let machines = server.objects(MACHINES);
        let id = |machine: &Value| machine["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
        machines.len() == 2 && machines.iter().all(|machine| id(machine).starts_with("aws:///eu-west-1/i-"))
    };
    crate::serving::until(&server, "both Machines have an instance", made).await;
    let instances = ec2.with(|cloud, _| cloud.instances().to_vec());
    assert_eq!(instances.len(), 2);
    for instance in instances {
        assert!(instance.tags().contains_key("kubernetes.io/cluster/example"), "{:?}", instance.tags());
        assert_eq!(instance.volumes.first().map(|disk| disk.device.as_str()), Some("/dev/xvda"));
    }
    assert!(program.terminate().success());
}
