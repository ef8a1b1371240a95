//! The driver contract on EC2 in memory.

use std::sync::Arc;
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use cloud_fakes::ec2::{Befalls, Planted, Script, Settings};
use driver::Driver;
use driver::conformance::{Arranged, Bench, Timing, run};
use serde_json::json;

use crate::memory::{Memory, class, secret, spec_with};

struct Environment {
    memory: Memory,
    driver: Arc<driver_aws::AwsDriver>,
    timing: Timing,
}

impl Environment {
    fn fresh() -> Self {
        Self::of(Settings::default(), Timing::IMMEDIATE)
    }

    /// A cloud that shows changes and assigns DNS names with a delay.
    fn late() -> Self {
        let (shows_after, named_after) = (Duration::from_secs(8), Duration::from_secs(12));
        let settings = Settings { shows_after, named_after, shutting_down_for: shows_after, ..Settings::default() };
        Self::of(settings, Timing { shows_within: Duration::from_secs(20), ..Timing::IMMEDIATE })
    }

    /// A cloud that names the instance in RunInstances and shows it in DescribeInstances with a delay.
    fn shown_late() -> Self {
        let shows_after = Duration::from_secs(8);
        let settings = Settings { shows_after, shutting_down_for: shows_after, ..Settings::default() };
        Self::of(settings, Timing { shows_within: Duration::from_secs(20), ..Timing::IMMEDIATE })
    }

    fn of(settings: Settings, timing: Timing) -> Self {
        let memory = Memory::new(settings);
        Self { driver: Arc::new(memory.driver()), memory, timing }
    }

    fn plant(&self, tags: &[(&str, &str)]) {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.memory.with(|cloud, now| cloud.plant(now, Planted { tags }));
    }
}

const CLUSTER: (&str, &str) = ("kubernetes.io/cluster/shoot", "1");
const ROLE: (&str, &str) = ("kubernetes.io/role/node", "1");

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        class("small", spec_with(&json!({ "srcAndDstChecksEnabled": false })))
    }

    fn secret(&self) -> SecretData {
        secret()
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        Some(self.memory.with(|cloud, _| cloud.alive(machine).len()))
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        self.plant(&[("kubernetes.io/cluster/theirs", "1"), ROLE, ("Name", "their-machine")]);
        self.plant(&[CLUSTER, ("Name", "of-another-role")]);
        self.plant(&[CLUSTER, ROLE]);
        self.plant(&[]);
        Arranged::Done
    }

    async fn plant_double(&self, machine: &str) -> Arranged {
        self.plant(&[CLUSTER, ROLE, ("Name", machine)]);
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        self.memory.with(|cloud, _| cloud.script(Script::refuse("RunInstances", 400, "VcpuLimitExceeded").always()));
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.memory.with(|cloud, _| cloud.script(Script::everything(Befalls::NeverAnswered)));
        Arranged::Done
    }
}

/// Shows AWS-14, AWS-W6.
#[tokio::test(start_paused = true)]
async fn aws_driver_passes_every_contract_case() {
    let report = run(Environment::fresh).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows AWS-14.
#[tokio::test(start_paused = true)]
async fn aws_driver_passes_the_contract_if_ec2_shows_vms_late() {
    let report = run(Environment::shown_late).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows AWS-14.
#[tokio::test(start_paused = true)]
async fn aws_driver_passes_the_contract_if_ec2_is_slow() {
    let report = run(Environment::late).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}
