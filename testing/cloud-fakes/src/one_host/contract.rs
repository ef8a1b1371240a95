//! The contract of all drivers, on this host and its clock.

use std::fs::{self, File};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use driver::conformance::{Arranged, Bench, Case, CaseResult, Timing, names, sweep, try_case};
use driver::{Call, Driver, MachineRequest};

use super::{CLUSTER, OneHost};

/// A cluster whose machines must not be changed.
const THEIRS: &str = "theirs";

struct Environment<Host> {
    host: Host,
    driver: Arc<dyn Driver>,
    number: usize,
    stalled: Mutex<Option<File>>,
}

#[async_trait]
impl<Host: OneHost> Bench for Environment<Host> {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        self.host.class(CLUSTER)
    }

    fn secret(&self) -> SecretData {
        Host::secret()
    }

    fn timing(&self) -> Timing {
        Timing { poll: Duration::from_millis(20), ..Timing::real(Duration::from_millis(100)) }
    }

    fn machine(&self) -> String {
        self.host.machine(&format!("case-{}-x2x5q", self.number))
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        Some(self.host.running(machine))
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        self.driver.create(&Call::default(), &self.theirs()).await.unwrap();
        fs::create_dir_all(self.host.home("lost+found")).unwrap();
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        let home = self.host.state().join("clusters").join(THEIRS).join("large");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("machine.json"), self.host.largest().to_string()).unwrap();
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        let lock = File::options().append(true).open(self.host.state().join("lock")).unwrap();
        lock.lock().unwrap();
        *self.stalled.lock().unwrap() = Some(lock);
        Arranged::Done
    }
}

impl<Host: OneHost> Environment<Host> {
    fn theirs(&self) -> MachineRequest {
        self.host.request_of(self.host.class(THEIRS), &self.host.machine(THEIRS))
    }

    /// Removes all that the case made, and what was planted.
    async fn clear(&self) {
        drop(self.stalled.lock().unwrap().take());
        sweep(self, &names(self)).await.unwrap();
        self.driver.delete(&Call::default(), &self.theirs()).await.unwrap();
        for planted in [CLUSTER, THEIRS] {
            let _ = fs::remove_dir_all(self.host.state().join("clusters").join(planted));
        }
    }
}

/// Runs the contract on one host per case until there is none. No machine may be left, and only unsupported cases may
/// be skipped.
pub async fn keeps<Host: OneHost>(fresh: impl Fn() -> Option<Host>) {
    let mut skipped = Vec::new();
    for (number, case) in Case::ALL.into_iter().enumerate() {
        let Some(host) = fresh() else { return };
        let environment = Environment { host, driver: Host::driver(), number, stalled: Mutex::new(None) };
        let before = environment.host.traces();
        match try_case(case, &environment).await {
            CaseResult::Passed => {}
            CaseResult::Skipped(_) => skipped.push(case),
            CaseResult::Failed(how) => panic!("{case:?}: {how}"),
        }
        environment.clear().await;
        assert_eq!(environment.host.traces(), before, "{case:?} left something");
    }
    // A name is a directory, so a duplicate machine is impossible; and no machine needs initialization.
    assert_eq!(skipped, [Case::SeveralVmsAreOutOfRange, Case::UninitializedVmIsReturned]);
}
