//! The driver keeps the contract of all drivers, on this host and its clock.

use std::fs::{self, File};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use driver::conformance::{Arranged, Bench, Case, CaseResult, Timing, names, sweep, try_case};
use driver::{Call, Driver};
use serde_json::json;

use crate::fixture::{Fixture, processes, request, secret};

struct Environment {
    fixture: Fixture,
    driver: Arc<dyn Driver>,
    stalled: Mutex<Option<File>>,
}

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        self.fixture.class("shoot")
    }

    fn secret(&self) -> SecretData {
        secret()
    }

    fn timing(&self) -> Timing {
        Timing { poll: Duration::from_millis(20), ..Timing::real(Duration::from_millis(100)) }
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        Some(processes(&self.fixture.home(machine)).len())
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        let theirs = request(self.fixture.class("theirs"), "theirs");
        self.driver.create(&Call::default(), &theirs).await.unwrap();
        fs::create_dir_all(self.fixture.state().join("clusters/shoot/lost+found")).unwrap();
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        let home = self.fixture.state().join("clusters/theirs/large");
        fs::create_dir_all(&home).unwrap();
        let record = json!({ "uid": "", "size": { "cpuMillis": u64::MAX, "memory": 0 }, "image": "/" });
        fs::write(home.join("machine.json"), record.to_string()).unwrap();
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        let lock = File::options().append(true).open(self.fixture.state().join("lock")).unwrap();
        lock.lock().unwrap();
        *self.stalled.lock().unwrap() = Some(lock);
        Arranged::Done
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_qemu_driver_keeps_the_contract_and_leaves_nothing_behind() {
    let mut skipped = Vec::new();
    for case in Case::ALL {
        let test = "the_qemu_driver_keeps_the_contract_and_leaves_nothing_behind";
        let Some(fixture) = Fixture::new(test) else { return };
        let environment = Environment { fixture, driver: Arc::new(Fixture::driver()), stalled: Mutex::new(None) };
        match try_case(case, &environment).await {
            CaseResult::Held => {}
            CaseResult::Skipped(_) => skipped.push(case),
            CaseResult::Broken(how) => panic!("{case:?}: {how}"),
        }
        drop(environment.stalled.lock().unwrap().take());
        sweep(&environment, &names(&environment)).await.unwrap();
        let theirs = request(environment.fixture.class("theirs"), "theirs");
        environment.driver.delete(&Call::default(), &theirs).await.unwrap();
        for planted in ["clusters/theirs", "clusters/shoot"] {
            let _ = fs::remove_dir_all(environment.fixture.state().join(planted));
        }
        assert!(environment.fixture.traces().is_empty(), "{case:?} left {:?}", environment.fixture.traces());
    }
    // One name is one directory, so a second machine for it cannot be arranged; and there is nothing to initialise.
    assert_eq!(skipped, [Case::SeveralVmsAreOutOfRange, Case::AnUninitializedVmIsShown]);
}
