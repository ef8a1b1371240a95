//! Without a cluster that nodes join: machines are made and deleted, and nobody asks for a Node.

use std::time::Duration;

use api::MachinePhase;
use api::names::labels;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::test_cluster::TestCluster;

async fn available(cluster: &TestCluster, name: &str) {
    cluster.create(name).await;
    cluster.until("it is available", |w| w.phase(name) == Some(MachinePhase::Available)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_made_and_deleted_and_no_node_is_asked_for() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start_towards(None);
    available(&cluster, "m-0").await;
    let machine = cluster.machine("m-0").unwrap();
    assert_eq!(machine.status.last_operation.description, "Created machine on cloud provider");
    assert!(!machine.metadata.labels.contains_key(labels::NODE), "nothing is linked");
    assert!(!machine.status.addresses.is_empty(), "that is how it is found");
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Available), "nothing has to join, so nothing is late");

    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    let asked: Vec<_> = cluster
        .requests()
        .into_iter()
        .filter(|request| request.contains("nodes") || request.contains("pods"))
        .collect();
    assert_eq!(asked, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_leftover_link_to_a_node_is_harmless() {
    let cluster = TestCluster::new(2);
    let _process = cluster.start_towards(None);
    available(&cluster, "m-0").await;
    let link = Patch::Merge(json!({ "metadata": { "labels": { labels::NODE: "long-gone" } } }));
    cluster.machines().patch("m-0", &PatchParams::default(), &link).await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Available));
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn vms_without_a_machine_are_collected_all_the_same() {
    let cluster = TestCluster::new(3);
    let _process = cluster.start_towards(None);
    let spec = driver_virtual::Spec::decode(&json!({})).unwrap();
    cluster.cloud.plant(spec, Some("nobody".into())).unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// A cloud that knows more of where a VM can be reached with each answer.
struct Talkative(driver_virtual::VirtualCloud);

fn reached(address: &str) -> api::NodeAddress {
    api::NodeAddress { kind: "InternalIP".into(), address: address.into() }
}

#[async_trait::async_trait]
impl driver::Driver for Talkative {
    fn capabilities(&self) -> driver::Capabilities {
        driver::Capabilities { initialize: driver::Support::Offered, ..self.0.capabilities() }
    }

    async fn create(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Created, driver::DriverError> {
        let created = self.0.create(call, request).await?;
        Ok(driver::Created { addresses: vec![reached("10.0.0.1")], ..created })
    }

    async fn initialize(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Found, driver::DriverError> {
        let found = self.0.status(call, request).await?;
        Ok(driver::Found { addresses: vec![reached("10.0.0.2")], ..found })
    }

    async fn status(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Found, driver::DriverError> {
        let found = self.0.status(call, request).await?;
        Ok(driver::Found { addresses: vec![reached("10.0.0.3")], ..found })
    }

    async fn delete(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Deleted, driver::DriverError> {
        self.0.delete(call, request).await
    }
}

/// Shows MC-S2.
#[tokio::test(start_paused = true)]
async fn addresses_of_every_answer_reach_the_status() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start_towards_with(None, std::sync::Arc::new(Talkative(cluster.cloud.clone())));
    available(&cluster, "m-0").await;
    let machine = cluster.machine("m-0").unwrap();
    let addresses: Vec<_> = machine.status.addresses.iter().map(|a| a.address.as_str()).collect();
    assert_eq!(addresses, ["m-0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}
