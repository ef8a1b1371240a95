//! Tests of VMs that boot, fail, hang, recover and are deleted.

use api::view::PersistentVolumeSpec;
use driver::{Call, Code, Driver, MachineRequest};
use driver_virtual::{CSI_DRIVER, Config, State, Vm};
use serde_json::json;
use tokio::time::Instant;

use crate::bench::{Environment, SECOND};

fn only_vm(environment: &Environment) -> Vm {
    let [vm] = environment.cloud.vms().try_into().unwrap();
    vm
}

fn state(environment: &Environment) -> State {
    only_vm(environment).state(Instant::now())
}

/// Shows VIR-2.
#[tokio::test(start_paused = true)]
async fn a_vm_takes_its_time_to_come_and_to_go() {
    let spec = json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "10s" });
    let environment = Environment::new(Config::default()).with_spec(spec);
    let begun = Instant::now();
    let made = environment.create("m").await.unwrap();
    assert_eq!(begun.elapsed(), 2 * SECOND);
    assert!(made.provider_id.as_str().starts_with("virtual:///default/vm-"), "{}", made.provider_id);
    assert_eq!(state(&environment), State::Booting);
    tokio::time::sleep(28 * SECOND).await;
    assert_eq!(state(&environment), State::Running);

    let begun = Instant::now();
    environment.delete("m").await.unwrap();
    assert_eq!(begun.elapsed(), 10 * SECOND);
    assert!(environment.cloud.vms().is_empty());
}

/// Shows VIR-2.
#[tokio::test(start_paused = true)]
async fn deletion_continues_after_its_caller_ends() {
    let environment = Environment::new(Config::default()).with_spec(json!({ "deleteLatency": "10s" }));
    environment.create("m").await.unwrap();
    let _dropped = tokio::time::timeout(SECOND, environment.delete("m")).await;
    assert_eq!(state(&environment), State::Deleting);
    assert_eq!(
        environment.status("m").await.unwrap_err().code(),
        Code::NotFound,
        "a VM that is being deleted must not be adopted"
    );
    assert_eq!(environment.create("m").await.unwrap_err().code(), Code::Aborted);
    tokio::time::sleep(9 * SECOND).await;
    assert!(environment.cloud.vms().is_empty());
    environment.create("m").await.unwrap();
}

/// Shows VIR-7.
#[tokio::test(start_paused = true)]
async fn vm_without_power_exists_and_boots_when_revived() {
    let environment = Environment::new(Config::default()).with_spec(json!({ "bootLatency": "30s" }));
    environment.create("m").await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let vm = only_vm(&environment);
    environment.cloud.kill(&vm.id);
    assert_eq!(state(&environment), State::Off);
    environment.status("m").await.expect("it still incurs cost");
    environment.cloud.revive(&vm.id);
    assert_eq!((state(&environment), only_vm(&environment).boots), (State::Booting, 2));
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(state(&environment), State::Running);
}

/// Shows VIR-7.
#[tokio::test(start_paused = true)]
async fn revived_hung_vm_continues() {
    let environment = Environment::new(Config::default());
    environment.create("m").await.unwrap();
    tokio::time::sleep(SECOND).await;
    let vm = only_vm(&environment);
    environment.cloud.hang(&vm.id);
    assert_eq!(state(&environment), State::Hung);
    environment.cloud.revive(&vm.id);
    assert_eq!((state(&environment), only_vm(&environment).boots), (State::Running, 1));
}

/// Shows VIR-7.
#[tokio::test(start_paused = true)]
async fn a_reclaimed_vm_is_gone_at_once() {
    let environment = Environment::new(Config::default());
    environment.create("m").await.unwrap();
    environment.cloud.reclaim(&only_vm(&environment).id);
    assert_eq!(environment.status("m").await.unwrap_err().code(), Code::NotFound);
    assert!(environment.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn create_with_another_vm_type_is_rejected() {
    let environment = Environment::new(Config::default());
    environment.create("m").await.unwrap();
    let environment = environment.with_spec(json!({ "cluster": "ours", "instanceType": "huge" }));
    assert_eq!(environment.create("m").await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_name_is_refused() {
    let environment = Environment::new(Config::default());
    assert_eq!(environment.create("").await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn another_clusters_vm_is_not_deleted_even_by_its_id() {
    let environment = Environment::new(Config::default());
    let made = environment.create("m").await.unwrap();
    let environment = environment.with_spec(json!({ "cluster": "theirs" }));
    let request: MachineRequest = environment.request("m", made.provider_id.as_str());
    environment.cloud.delete(&Call::default(), &request).await.unwrap();
    assert_eq!(environment.cloud.vms().len(), 1);
}

/// Shows VIR-10.
#[tokio::test(start_paused = true)]
async fn user_data_reaches_the_vm_and_shows_nowhere_else() {
    let environment = Environment::new(Config::default());
    environment.create("m").await.unwrap();
    let vm = only_vm(&environment);
    assert_eq!(environment.cloud.user_data(&vm.id).as_deref(), Some(b"#!/bin/sh token".as_slice()));
    assert!(!format!("{vm:?} {:?}", environment.cloud).contains("token"));
}

#[tokio::test(start_paused = true)]
async fn volumes_of_this_cloud_are_known_and_foreign_ones_left_out() {
    let volume = |driver: &str| -> PersistentVolumeSpec {
        serde_json::from_value(json!({ "csi": { "driver": driver, "volumeHandle": "vol-1" } })).unwrap()
    };
    let environment = Environment::new(Config::default());
    let volumes = [volume("another.csi.driver"), volume(CSI_DRIVER), PersistentVolumeSpec::default()];
    assert_eq!(environment.cloud.volume_ids(&Call::default(), &volumes).await.unwrap(), ["vol-1"]);
}
