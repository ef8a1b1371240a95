//! A driver with hostile responses: texts stay readable, and no VM is left behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::MachinePhase;
use controllers::Decision;
use controllers::decision::{DriverCall, Listen};
use controllers::state::ClusterState;
use driver::conformance::hostile::{Attack, Hostile, harm, texts};
use rstest::rstest;
use runtime::logs::LogFormat;
use serde_json::Value;

use crate::captured_log::CapturedLog;
use crate::test_cluster::TestCluster;

/// Records all texts that listeners receive. Traces and `/debug/state` are created from them.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listen for Heard {
    fn decided(&self, decision: &Decision) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(decision.steps.iter().cloned());
        heard.extend([decision.because.clone(), decision.awaits.clone(), decision.outcome.to_string()]);
    }
    fn called(&self, call: &DriverCall) {
        self.0.lock().unwrap().extend(call.provider_id.clone());
    }
}

/// Collects all texts of an object.
fn texts_in(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts_in(value, into)),
        Value::Object(values) => values.values().for_each(|value| texts_in(value, into)),
        _ => {}
    }
}

/// A cluster with a hostile driver, and everything that is visible of it.
struct HostileCluster {
    cluster: TestCluster,
    page: CapturedLog,
    heard: Arc<Heard>,
    process: crate::test_cluster::Process,
    _log: tracing::subscriber::DefaultGuard,
}

impl HostileCluster {
    fn new(seed: u64, attack: Attack) -> Self {
        let (mut cluster, page, heard) = (TestCluster::new(seed), CapturedLog::default(), Arc::new(Heard::default()));
        cluster.listener = Some(heard.clone());
        let log = page.open(&cluster, LogFormat::Text, 5);
        let process = cluster.start_with(Arc::new(Hostile::new(Arc::new(cluster.cloud.clone()), attack)));
        Self { cluster, page, heard, process, _log: log }
    }

    /// Panics if a visible text contains control characters or is too long.
    fn judge(&self) {
        let mut shown = Vec::new();
        for kind in ["machines.machine.sapcloud.io", "events"] {
            self.cluster.server.objects(kind).iter().for_each(|object| texts_in(object, &mut shown));
        }
        texts_in(&serde_json::to_value(ClusterState::of(&self.process.cluster)).unwrap(), &mut shown);
        shown.extend(self.heard.0.lock().unwrap().iter().cloned());
        // A log line has a few texts of Millwright and at most two of the driver. A line that the driver started has no timestamp.
        let log = self.page.text();
        for line in log.lines() {
            assert!(line.starts_with("2026-01-01T"), "a line that the driver started: {line:.300}");
            assert!(line.len() < 16 << 10, "a line of {} bytes: {line:.300}", line.len());
            shown.extend(line.as_bytes().chunks(4 << 10).map(|part| String::from_utf8_lossy(part).into_owned()));
        }
        for text in shown {
            assert_eq!(harm(&text), None, "{:.300}", format!("{text:?}"));
        }
    }

    async fn ends_without_a_vm(&self) {
        self.cluster.delete("m-1").await;
        self.cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
        assert!(self.cluster.cloud.vms().is_empty(), "an orphan VM remains");
        self.judge();
    }
}

/// Shows DRV-7, LIM-16.
#[rstest]
#[tokio::test(start_paused = true)]
async fn driver_error_is_one_line_of_bounded_length(#[values(0, 1, 2, 3, 4, 5, 6)] text: usize) {
    let hostile = HostileCluster::new(91, Attack::Error(texts().swap_remove(text)));
    hostile.cluster.create("m-1").await;
    let failed = |w: &TestCluster| w.machine("m-1").unwrap().status.last_operation.error_code == "Internal";
    hostile.cluster.until("the error is reported", failed).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!hostile.cluster.event_messages("DriverError").is_empty());
    hostile.judge();
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-16.
#[rstest]
#[tokio::test(start_paused = true)]
async fn driver_text_with_deletion_steps_skips_no_step(#[values(5, 6)] text: usize) {
    let hostile = HostileCluster::new(92, Attack::DeleteError(texts().swap_remove(text), 3));
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    hostile.ends_without_a_vm().await;
    assert!(hostile.cluster.node("m-1").is_none(), "its Node is deleted");
}

/// Shows LIM-15.
#[rstest]
#[case::too_long("n".repeat(64), "node name")]
#[case::no_label_value("node one".into(), "node name")]
#[case::escapes("n\u{1b}[31m\n".into(), "node name")]
#[tokio::test(start_paused = true)]
async fn invalid_node_name_is_reported_and_the_vm_is_deleted(#[case] name: String, #[case] told: &str) {
    let hostile = HostileCluster::new(93, Attack::NodeName(name));
    hostile.cluster.create("m-1").await;
    unusable(&hostile, told).await;
    let machine = hostile.cluster.machine("m-1").unwrap();
    assert_eq!(machine.spec.provider_id, hostile.cluster.cloud.vms()[0].provider_id, "the VM is recorded");
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-15.
#[rstest]
#[case::escapes("virtual:///\u{1b}]0;owned\u{7}".into())]
#[case::too_long("i".repeat(3 << 20))]
#[tokio::test(start_paused = true)]
async fn invalid_provider_id_is_reported_and_the_vm_is_deleted(#[case] id: String) {
    let hostile = HostileCluster::new(94, Attack::ProviderId(id));
    hostile.cluster.create("m-1").await;
    unusable(&hostile, "provider id").await;
    assert!(hostile.cluster.machine("m-1").unwrap().spec.provider_id.is_empty());
    hostile.ends_without_a_vm().await;
}

/// Checks that the invalid value is reported in the status and in an Event, and that one VM is created.
async fn unusable(hostile: &HostileCluster, told: &str) {
    let says = |w: &TestCluster| {
        let machine = w.machine("m-1").unwrap();
        let last = &machine.status.last_operation;
        *machine.phase() == MachinePhase::CrashLoopBackOff
            && last.error_code == "Internal"
            && last.description.contains(told)
    };
    hostile.cluster.until("the error is reported", says).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let events = hostile.cluster.event_messages("DriverError");
    assert!(events.iter().any(|event| event.contains(told)), "{events:?}");
    assert_eq!(hostile.cluster.cloud.vms().len(), 1);
    hostile.judge();
}

/// Shows LIM-16.
#[tokio::test(start_paused = true)]
async fn driver_state_of_three_megabytes_is_dropped() {
    let hostile = HostileCluster::new(95, Attack::Note("n".repeat(3 << 20)));
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(hostile.cluster.machine("m-1").unwrap().status.last_known_state, "");
    hostile.judge();
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-16.
#[rstest]
#[case::huge(Attack::List(20_000))]
#[case::escapes(Attack::Owner("never\u{1b}[31m\nthere".into()))]
#[tokio::test(start_paused = true)]
async fn invented_vm_list_deletes_no_vm_of_a_machine(#[case] attack: Attack) {
    let hostile = HostileCluster::new(96, attack);
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(hostile.cluster.cloud.vms().len(), 1);
    assert_eq!(hostile.cluster.phase("m-1"), Some(MachinePhase::Running));
    hostile.judge();
}
