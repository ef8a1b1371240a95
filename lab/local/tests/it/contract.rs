//! The contract of all drivers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use driver::Driver;
use driver::conformance::{self, Arranged, Bench, Case};
use serde_json::json;

use crate::fixture::{Fixture, MACHINES, PODS, class, secret};

struct Environment {
    fixture: Fixture,
    driver: Arc<dyn Driver>,
}

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        class(json!({ "image": "node", "namespace": PODS }))
    }

    fn secret(&self) -> SecretData {
        secret()
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        Some(usize::from(self.fixture.object("pods", &format!("machine-{machine}")).is_some()))
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        let labels = json!({ "machine-provider": "local" });
        for (name, namespace, labels) in [("machine-theirs", MACHINES, labels), ("web", PODS, json!({}))] {
            let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
            let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
            let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
            self.fixture.server.insert(&pod).unwrap();
        }
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.fixture.stalled.store(true, Ordering::Relaxed);
        Arranged::Done
    }
}

/// Shows HST-27.
#[tokio::test(start_paused = true)]
async fn the_local_driver_satisfies_the_contract() {
    let report = conformance::run(|| {
        let fixture = Fixture::new(true);
        Environment { driver: Arc::new(fixture.driver()), fixture }
    })
    .await;
    assert!(report.passed(), "{report}");
    // A name identifies one pod, a namespace has no quota here, and there is no initialization.
    let moot =
        [Case::SeveralVmsAreOutOfRange, Case::ExhaustedQuotaIsResourceExhausted, Case::UninitializedVmIsReturned];
    assert_eq!(report.skipped(), moot, "{report}");
}
