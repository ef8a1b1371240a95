//! A driver that says the worst it can: what people are shown stays readable, and no VM is left behind.

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

use crate::page::Page;
use crate::test_cluster::TestCluster;

/// Keeps every text that is told to listeners: traces and `/debug/state` are made of them.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listen for Heard {
    fn decided(&self, decision: &Decision) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(decision.did.iter().cloned());
        heard.extend([decision.because.clone(), decision.awaits.clone(), decision.outcome.to_string()]);
    }
    fn called(&self, call: &DriverCall) {
        self.0.lock().unwrap().extend(call.provider_id.clone());
    }
}

/// Every text that stands somewhere in an object.
fn texts_in(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts_in(value, into)),
        Value::Object(values) => values.values().for_each(|value| texts_in(value, into)),
        _ => {}
    }
}

/// A cluster in which one driver is hostile, and everything that is shown of it.
struct HostileCluster {
    cluster: TestCluster,
    page: Page,
    heard: Arc<Heard>,
    process: crate::test_cluster::Process,
    _log: tracing::subscriber::DefaultGuard,
}

impl HostileCluster {
    fn new(seed: u64, attack: Attack) -> Self {
        let (mut cluster, page, heard) = (TestCluster::new(seed), Page::default(), Arc::new(Heard::default()));
        cluster.listener = Some(heard.clone());
        let log = page.open(&cluster, LogFormat::Text, 5);
        let process = cluster.start_with(Arc::new(Hostile::new(Arc::new(cluster.cloud.clone()), attack)));
        Self { cluster, page, heard, process, _log: log }
    }

    /// Fails if anything that is shown could harm whoever reads it.
    fn judge(&self) {
        let mut shown = Vec::new();
        for kind in ["machines.machine.sapcloud.io", "events"] {
            self.cluster.server.objects(kind).iter().for_each(|object| texts_in(object, &mut shown));
        }
        texts_in(&serde_json::to_value(ClusterState::of(&self.process.cluster)).unwrap(), &mut shown);
        shown.extend(self.heard.0.lock().unwrap().iter().cloned());
        // A line of log holds a few texts of ours and two of the driver's at most; a line that a driver began has no time in front.
        let log = self.page.text();
        for line in log.lines() {
            assert!(line.starts_with("2026-01-01T"), "a line that nobody wrote: {line:.300}");
            assert!(line.len() < 16 << 10, "a line of {} bytes: {line:.300}", line.len());
            shown.extend(line.as_bytes().chunks(4 << 10).map(|part| String::from_utf8_lossy(part).into_owned()));
        }
        for text in shown {
            assert_eq!(harm(&text), None, "{:.300}", format!("{text:?}"));
        }
    }

    async fn ends_without_a_vm(&self) {
        self.cluster.delete("m-1").await;
        self.cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
        assert!(self.cluster.cloud.vms().is_empty(), "a VM is left behind and paid for");
        self.judge();
    }
}

/// Shows DRV-7, LIM-16.
#[rstest]
#[tokio::test(start_paused = true)]
async fn whatever_a_driver_says_when_it_fails_is_shown_on_one_line_of_bounded_length(
    #[values(0, 1, 2, 3, 4, 5, 6)] text: usize,
) {
    let hostile = HostileCluster::new(91, Attack::Error(texts().swap_remove(text)));
    hostile.cluster.create("m-1").await;
    let failed = |w: &TestCluster| w.machine("m-1").unwrap().status.last_operation.error_code == "Internal";
    hostile.cluster.until("it says why not", failed).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!hostile.cluster.told("DriverError").is_empty());
    hostile.judge();
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-16.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_text_that_names_the_steps_of_a_deletion_skips_none_of_them(#[values(5, 6)] text: usize) {
    let hostile = HostileCluster::new(92, Attack::DeleteError(texts().swap_remove(text), 3));
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    hostile.ends_without_a_vm().await;
    assert!(hostile.cluster.node("m-1").is_none(), "nor a Node");
}

/// Shows LIM-15.
#[rstest]
#[case::too_long("n".repeat(64), "node name")]
#[case::no_label_value("node one".into(), "node name")]
#[case::escapes("n\u{1b}[31m\n".into(), "node name")]
#[tokio::test(start_paused = true)]
async fn a_node_name_that_cannot_be_used_is_told_and_its_vm_goes_with_its_machine(
    #[case] name: String,
    #[case] told: &str,
) {
    let hostile = HostileCluster::new(93, Attack::NodeName(name));
    hostile.cluster.create("m-1").await;
    unusable(&hostile, told).await;
    let machine = hostile.cluster.machine("m-1").unwrap();
    assert_eq!(machine.spec.provider_id, hostile.cluster.cloud.vms()[0].provider_id, "the VM is known");
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-15.
#[rstest]
#[case::escapes("virtual:///\u{1b}]0;owned\u{7}".into())]
#[case::too_long("i".repeat(3 << 20))]
#[tokio::test(start_paused = true)]
async fn a_provider_id_that_cannot_be_used_is_told_and_its_vm_goes_with_its_machine(#[case] id: String) {
    let hostile = HostileCluster::new(94, Attack::ProviderId(id));
    hostile.cluster.create("m-1").await;
    unusable(&hostile, "provider id").await;
    assert!(hostile.cluster.machine("m-1").unwrap().spec.provider_id.is_empty());
    hostile.ends_without_a_vm().await;
}

/// The machine says in its status and in an Event what cannot be used, and its VM is made once.
async fn unusable(hostile: &HostileCluster, told: &str) {
    let says = |w: &TestCluster| {
        let machine = w.machine("m-1").unwrap();
        let last = &machine.status.last_operation;
        *machine.phase() == MachinePhase::CrashLoopBackOff
            && last.error_code == "Internal"
            && last.description.contains(told)
    };
    hostile.cluster.until("it says what is wrong", says).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let events = hostile.cluster.told("DriverError");
    assert!(events.iter().any(|event| event.contains(told)), "{events:?}");
    assert_eq!(hostile.cluster.cloud.vms().len(), 1);
    hostile.judge();
}

/// Shows LIM-16.
#[tokio::test(start_paused = true)]
async fn a_note_of_three_megabytes_is_not_kept_and_holds_up_nothing() {
    let hostile = HostileCluster::new(95, Attack::Note("n".repeat(3 << 20)));
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(hostile.cluster.machine("m-1").unwrap().status.last_known_state, "");
    hostile.judge();
    hostile.ends_without_a_vm().await;
}

/// Shows LIM-16.
#[rstest]
#[case::huge(Attack::List(20_000))]
#[case::escapes(Attack::Owner("never\u{1b}[31m\nthere".into()))]
#[tokio::test(start_paused = true)]
async fn a_list_that_was_made_up_costs_no_machine_its_vm(#[case] attack: Attack) {
    let hostile = HostileCluster::new(96, attack);
    hostile.cluster.create("m-1").await;
    hostile.cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(hostile.cluster.cloud.vms().len(), 1);
    assert_eq!(hostile.cluster.phase("m-1"), Some(MachinePhase::Running));
    hostile.judge();
}
