//! Without a target cluster: Machines are created and deleted without requests for Nodes.

use std::time::Duration;

use api::MachinePhase;
use api::names::labels;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::test_cluster::TestCluster;

async fn available(cluster: &TestCluster, name: &str) {
    cluster.create(name).await;
    cluster.until("it is Available", |w| w.phase(name) == Some(MachinePhase::Available)).await;
}

#[tokio::test(start_paused = true)]
async fn machine_is_created_and_deleted_without_node_requests() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start_towards(None);
    available(&cluster, "m-0").await;
    let machine = cluster.machine("m-0").unwrap();
    assert_eq!(machine.status.last_operation.description, "Created machine on cloud provider");
    assert!(!machine.metadata.labels.contains_key(labels::NODE), "there is no Node label");
    assert!(!machine.status.addresses.is_empty(), "the addresses are recorded");
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert_eq!(
        cluster.phase("m-0"),
        Some(MachinePhase::Available),
        "there is no creation timeout without a target cluster"
    );

    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    let asked: Vec<_> = cluster
        .requests()
        .into_iter()
        .filter(|request| request.contains("nodes") || request.contains("pods"))
        .collect();
    assert_eq!(asked, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn leftover_node_label_is_ignored() {
    let cluster = TestCluster::new(2);
    let _process = cluster.start_towards(None);
    available(&cluster, "m-0").await;
    let link = Patch::Merge(json!({ "metadata": { "labels": { labels::NODE: "long-gone" } } }));
    cluster.machines().patch("m-0", &PatchParams::default(), &link).await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Available));
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn orphan_vms_are_deleted_without_a_target_cluster() {
    let cluster = TestCluster::new(3);
    let _process = cluster.start_towards(None);
    let spec = driver_virtual::Spec::decode(&json!({})).unwrap();
    cluster.cloud.plant(spec, Some("nobody".into())).unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// A driver that returns one more address in each response.
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
async fn addresses_of_each_response_are_in_the_status() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start_towards_with(None, std::sync::Arc::new(Talkative(cluster.cloud.clone())));
    available(&cluster, "m-0").await;
    let machine = cluster.machine("m-0").unwrap();
    let addresses: Vec<_> = machine.status.addresses.iter().map(|a| a.address.as_str()).collect();
    assert_eq!(addresses, ["m-0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}
