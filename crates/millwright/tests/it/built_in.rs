//! Tests of several built-in drivers in one process.

use cloud_fakes::ec2::{Ec2, Settings};
use fake_apiserver::{Server, loopback};
use serde_json::json;
use tempfile::TempDir;

use crate::program::Program;
use crate::serving::{MACHINES, server, until};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// Adds a Machine in AWS, and one of an unknown provider.
fn with_aws(server: &Server) {
    let meta = |name: &str| json!({ "name": name, "namespace": "default" });
    let spec = json!({
        "ami": Settings::IMAGE, "region": "eu-west-1", "machineType": "m5.large", "iam": { "name": "nodes" },
        "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3" } }],
        "networkInterfaces": [{ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"] }],
        "tags": { "kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1" },
    });
    let keys = json!({ "accessKeyID": "AKIA1", "secretAccessKey": "hunter2hunter2", "userData": "#!/bin/sh" });
    server
        .insert(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta("keys"), "stringData": keys }))
        .unwrap();
    for (name, provider) in [("aws", "AWS"), ("mars", "mars")] {
        for object in [
            json!({
                "apiVersion": GROUP, "kind": "MachineClass", "metadata": meta(name), "provider": provider,
                "providerSpec": spec, "secretRef": { "name": "keys", "namespace": "default" },
            }),
            json!({
                "apiVersion": GROUP, "kind": "Machine", "metadata": meta(name),
                "spec": { "class": { "kind": "MachineClass", "name": name } },
            }),
        ] {
            server.insert(&object).unwrap();
        }
    }
}

fn field(server: &Server, machine: &str, pointer: &str) -> String {
    let machine = server.object(MACHINES, "default", machine).unwrap_or_default();
    machine.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Shows AWS-30.
#[tokio::test(flavor = "multi_thread")]
async fn built_in_drivers_handle_only_their_own_classes() {
    let folder = TempDir::new().unwrap();
    let (server, ec2) = (server(), Ec2::start(Settings::default()).await.unwrap());
    with_aws(&server);
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let path = folder.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let arguments = ["run", "--provider=AWS,virtual", "--target-kubeconfig", &path.to_string_lossy()];
    let program = Program::start_with(&arguments, &[("AWS_ENDPOINT_URL_EC2", &ec2.endpoint())]);

    until(&server, "each driver has created its VM", |server| {
        field(server, "m", "/spec/providerID").starts_with("virtual:")
            && field(server, "aws", "/spec/providerID").starts_with("aws:///eu-west-1/i-")
    })
    .await;
    until(&server, "the third Machine is rejected", |server| {
        let description = field(server, "mars", "/status/lastOperation/description");
        description.contains("no driver serves \"mars\"; this process has AWS, virtual")
            && description.contains("--provider")
    })
    .await;
    let made: Vec<_> = ec2.with(|cloud, _| cloud.instances().iter().map(|vm| vm.tags()["Name"].clone()).collect());
    assert_eq!(made, ["aws"], "EC2 received only its own Machine");
    assert!(program.terminate().success());
}
