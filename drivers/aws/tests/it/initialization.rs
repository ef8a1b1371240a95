//! Tests of initialize.

use cloud_fakes::ec2::{Script, Settings};
use driver::{Call, Code, Driver};
use serde_json::{Value, json};

use crate::memory::{Memory, known, request, spec, spec_with};

fn wanting() -> Value {
    let nic = |more: Value| {
        let mut nic = json!({ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"] });
        nic.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        nic
    };
    spec_with(&json!({
        "srcAndDstChecksEnabled": false,
        "networkInterfaces": [
            nic(json!({ "ipv6PrefixCount": 2 })),
            nic(json!({})),
            nic(json!({ "interfaceType": "efa-only", "networkCardIndex": 1, "deviceIndex": 1 })),
        ],
    }))
}

/// Shows AWS-W1, AWS-C8.
#[tokio::test(start_paused = true)]
async fn checks_and_prefixes_are_set_once_and_efa_is_skipped() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(wanting())).await.unwrap();
    let request = known(&request(wanting()), made.provider_id.as_str());
    let error = driver.status(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Uninitialized);
    assert_eq!(error.found().unwrap().provider_id, made.provider_id);
    memory.asked();
    driver.initialize(&Call::default(), &request).await.unwrap();
    let changes = ["ModifyNetworkInterfaceAttribute", "ModifyNetworkInterfaceAttribute", "AssignIpv6Addresses"];
    assert_eq!(memory.asked()[1..], changes);
    driver.status(&Call::default(), &request).await.unwrap();
    memory.asked();
    driver.initialize(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.asked(), ["DescribeInstances"], "a repeated call changes nothing");
}

/// Shows AWS-W1.
#[tokio::test(start_paused = true)]
async fn failed_step_does_not_prevent_the_other_steps() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(wanting())).await.unwrap();
    let request = known(&request(wanting()), made.provider_id.as_str());
    memory.with(|cloud, _| cloud.script(Script::refuse("ModifyNetworkInterfaceAttribute", 503, "Unavailable")));
    memory.asked();
    let error = driver.initialize(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Uninitialized);
    assert_eq!(memory.asked().len(), 4);
    driver.initialize(&Call::default(), &request).await.unwrap();
}

/// Shows AWS-15.
#[tokio::test(start_paused = true)]
async fn class_without_initialization_sends_no_request() {
    let memory = Memory::new(Settings::default());
    let request = known(&request(spec()), "aws:///eu-west-1/i-1");
    let mut machine = (*request.machine).clone();
    machine.metadata.labels = [("node", "ip-10-0-0-1")].into();
    let request = driver::MachineRequest { machine: std::sync::Arc::new(machine), ..request };
    let found = memory.driver().initialize(&Call::default(), &request).await.unwrap();
    assert_eq!((found.node_name.as_str(), memory.asked().len()), ("ip-10-0-0-1", 0));
}

#[tokio::test(start_paused = true)]
async fn initialize_of_a_missing_vm_is_uninitialized() {
    let memory = Memory::new(Settings::default());
    let error = memory.driver().initialize(&Call::default(), &request(wanting())).await.unwrap_err();
    assert_eq!(error.code(), Code::Uninitialized);
}
