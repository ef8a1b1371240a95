//! Creates a server from the class and the Secret of the OpenStack tutorial.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::MachineClass;
use cloud_fakes::openstack::Settings;
use serde_json::Value;

use crate::memory::{MACHINE, Memory, create_and_initialize, request};

const PAGE: &str = include_str!("../../../../docs/getting-started/openstack.md");

fn object(kind: &str) -> Value {
    let mut blocks = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find_map(|block| serde_saphyr::from_str::<Value>(block).ok().filter(|read| read["kind"] == kind)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn openstack_tutorial_class_and_secret_create_a_server() {
    // The application credential of the fake has another id.
    let mut data: BTreeMap<String, String> = serde_json::from_value(object("Secret")["stringData"].clone()).unwrap();
    data.insert("applicationCredentialID".into(), Settings::CREDENTIAL.into());
    data.insert("authURL".into(), "http://openstack.test/identity/v3".into());
    let password = data["applicationCredentialSecret"].clone();
    let memory = Memory::new(Settings { password, ..Settings::default() });
    let class: MachineClass = serde_json::from_value(object("MachineClass")).unwrap();
    let mut request = request(class.provider_spec.clone());
    assert_eq!(class.provider, request.class.provider);
    request.secret = Arc::new(data.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    assert_eq!((made.node_name.as_str(), memory.count().ports), (MACHINE, 1));
}
