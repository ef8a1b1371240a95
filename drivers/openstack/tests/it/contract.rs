//! The driver contract on OpenStack in memory.

use std::sync::Arc;
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Rule};
use driver::Driver;
use driver::conformance::{Arranged, Bench, run};
use driver_openstack::OpenStackDriver;
use serde_json::Value;

use crate::memory::{CLUSTER, Memory, ROLE, class, secret, spec, spec_with_port_and_volume};

struct Environment {
    memory: Memory,
    driver: Arc<OpenStackDriver>,
    spec: Value,
}

impl Environment {
    fn of(spec: Value, settings: Settings) -> Self {
        let memory = Memory::new(settings);
        Self { driver: Arc::new(memory.driver()), memory, spec }
    }
}

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        class("small", self.spec.clone())
    }

    fn secret(&self) -> SecretData {
        secret()
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        self.memory.count();
        Some(self.memory.with(|cloud, _| cloud.servers.iter().filter(|server| server.name == machine).count()))
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        self.memory.with(|cloud, now| {
            cloud.plant(now, "their-machine", &[("kubernetes.io-cluster-theirs", "1"), ROLE]);
            cloud.plant(now, "of-another-role", &[CLUSTER]);
            cloud.plant(now, "", &[CLUSTER, ROLE]);
            cloud.plant(now, "of-no-cluster", &[]);
        });
        Arranged::Done
    }

    async fn plant_double(&self, machine: &str) -> Arranged {
        self.memory.with(|cloud, now| cloud.plant(now, machine, &[CLUSTER, ROLE]));
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        self.memory.with(|cloud, _| cloud.settings.servers = 0);
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.memory.rule(Rule::next(Fault::HangBefore, |_| true).always());
        Arranged::Done
    }
}

/// Shows OST-C1.
#[tokio::test(start_paused = true)]
async fn openstack_driver_passes_every_contract_case() {
    let report = run(|| Environment::of(spec(), Settings::default())).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows OST-C3.
#[tokio::test(start_paused = true)]
async fn openstack_driver_passes_the_contract_in_a_slow_cloud() {
    let second = Duration::from_secs(1);
    let slow =
        Settings { builds_for: 3 * second, deletes_for: 2 * second, volume_builds_for: second, ..Settings::default() };
    let report = run(|| Environment::of(spec_with_port_and_volume(), slow.clone())).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}
