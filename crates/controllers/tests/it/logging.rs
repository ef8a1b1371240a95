//! Log lines of decisions: one line per decision, all with the same fields, and without secrets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{Code, MachinePhase};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers::Decision;
use controllers::decision::{DriverCall, Listen};
use controllers::state::ClusterState;
use driver::{
    Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method, Owners,
};
use driver_virtual::{Fault, Script, VirtualCloud};
use kube::api::PostParams;
use rstest::rstest;
use runtime::client::Api;
use runtime::logs::LogFormat;
use serde_json::{Value, json};

use crate::captured_log::CapturedLog;
use crate::test_cluster::{NAMESPACE, TestCluster, class};

fn runs(name: &'static str) -> impl Fn(&TestCluster) -> bool {
    move |cluster| cluster.phase(name) == Some(MachinePhase::Running)
}

/// Shows EVT-8.
#[tokio::test(start_paused = true)]
async fn each_decision_of_a_machine_is_one_log_line() {
    let (cluster, page) = (TestCluster::new(71), CapturedLog::default());
    let _log = page.open(&cluster, LogFormat::Json, 0);
    let _process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is Running", runs("m-1")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let born = page.about("machine");
    tokio::time::sleep(Duration::from_hours(2)).await;
    assert_eq!(page.about("machine").len(), born.len(), "a Running Machine has no decisions");
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;

    let lines = page.about("machine");
    for line in &lines {
        assert_eq!((&line["machine"], &line["level"]), (&json!("pool/m-1"), &json!("INFO")), "{line}");
        for field in ["step", "reason", "outcome", "message", "timestamp"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field} is missing: {line}");
        }
    }
    let told = |line: &Value| (line["step"].as_str().unwrap().to_owned(), line["outcome"].as_str().unwrap().to_owned());
    let told: Vec<(String, String)> = lines.iter().map(told).collect();
    let place = |step: &str, outcome: &str| {
        let found = told.iter().position(|(s, o)| s.contains(step) && o == outcome);
        found.unwrap_or_else(|| panic!("{step} ({outcome}) is not logged: {told:#?}"))
    };
    let life = [
        place("call the driver to look up the VM", "in progress"),
        place("call the driver to create the VM", "in progress"),
        place("record VM", "done"),
        place("set the phase to Running", "done"),
        place("call the driver to delete the VM", "in progress"),
        place("delete node", "done"),
        place("remove the finalizer", "done"),
    ];
    assert!(life.is_sorted(), "{told:#?}");
    assert!(told.len() <= 20, "too many log lines: {told:#?}");
}

/// Shows EVT-8.
#[tokio::test(start_paused = true)]
async fn set_and_deployment_decisions_have_the_same_form() {
    let (cluster, page) = (TestCluster::new(72), CapturedLog::default());
    let _log = page.open(&cluster, LogFormat::Json, 0);
    let _process = cluster.start();
    let pool = json!({
        "metadata": { "name": "workers" },
        "spec": {
            "replicas": 2,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "selector": { "matchLabels": { "name": "workers" } },
            "template": {
                "metadata": { "labels": { "name": "workers" } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    let pools: Api<api::MachineDeployment> = Api::namespaced(cluster.client("person"), NAMESPACE);
    pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    cluster.until("two VMs exist", |w| w.cloud.vms().len() == 2).await;
    for kind in ["set", "deployment"] {
        let lines = page.about(kind);
        assert!(!lines.is_empty(), "{kind}");
        for line in lines {
            assert!(line[kind].as_str().unwrap().starts_with("pool/workers"), "{line}");
            assert!(["step", "reason", "outcome"].iter().all(|field| line[*field].is_string()), "{line}");
        }
    }
}

/// Shows EVT-9.
#[tokio::test(start_paused = true)]
async fn repeated_creation_failure_is_not_logged_each_time() {
    let (mut cluster, page) = (TestCluster::new(73), CapturedLog::default());
    cluster.policy.creation_timeout = Duration::from_hours(10);
    cluster.cloud.inject(Script::always(Fault::Fail(Code::Internal)).on(Method::Create));
    let _log = page.open(&cluster, LogFormat::Json, 0);
    let _process = cluster.start();
    cluster.create("m-1").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let tries = cluster.cloud.calls().iter().filter(|call| call.method == Method::Create).count();
    assert!(tries >= 10, "the create is retried: {tries}");
    let lines = page.about("machine");
    let told = lines.iter().filter(|line| line["step"].as_str().unwrap().contains("create the VM")).count();
    assert!((1..=8).contains(&told), "{told} lines for {tries} retries: {lines:#?}");
    assert!(
        lines.iter().any(|line| line["suppressed"].as_u64().is_some_and(|n| n > 0)),
        "the number of suppressed lines is logged: {lines:#?}"
    );
}

/// A driver whose errors contain its whole request. The first call of each kind fails.
struct Indiscreet {
    cloud: VirtualCloud,
    failed: Mutex<Vec<Method>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the cloud refused {0}")]
struct Refused(String);

impl Indiscreet {
    fn fail_first(&self, method: Method, request: &MachineRequest) -> Result<(), DriverError> {
        let mut failed = self.failed.lock().unwrap();
        if failed.iter().filter(|m| **m == method).count() >= 2 {
            return Ok(());
        }
        failed.push(method);
        let quote = |key: &str| {
            let value = request.secret.get(key).unwrap_or_default();
            format!("{key}={} ({})", String::from_utf8_lossy(value), STANDARD.encode(value))
        };
        let said = request.secret.keys().map(quote).collect::<Vec<_>>().join("; ");
        let error = DriverError::new(Code::Unavailable, format!("bad request: {said}"));
        Err(error.because(Refused(said.clone())).with_last_known_state(said))
    }
}

#[async_trait::async_trait]
impl Driver for Indiscreet {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.fail_first(Method::Create, request)?;
        self.cloud.create(call, request).await
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.fail_first(Method::Delete, request)?;
        self.cloud.delete(call, request).await
    }
    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.initialize(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.fail_first(Method::Status, request)?;
        self.cloud.status(call, request).await
    }
    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        self.cloud.list(call, request).await
    }
    async fn volume_ids(
        &self,
        call: &Call,
        volumes: &[api::view::PersistentVolumeSpec],
    ) -> Result<Vec<String>, DriverError> {
        self.cloud.volume_ids(call, volumes).await
    }
}

/// Records what listeners receive, from which traces and `/debug/state` are created.
#[derive(Default)]
struct Eavesdropper(Mutex<Vec<String>>);

impl Listen for Eavesdropper {
    fn decided(&self, decision: &Decision) {
        self.0.lock().unwrap().push(format!("{decision:?}"));
    }
    fn called(&self, call: &DriverCall) {
        self.0.lock().unwrap().push(format!("{call:?}"));
    }
}

const CANARIES: [&str; 3] = ["canary-of-the-class-1234", "canary-of-the-credentials", "canary-in-the-user-data"];

/// Adds canary values to the Secrets and the user data of a MachineClass with a bootstrap token.
fn plant_canaries(cluster: &TestCluster) {
    let [of_class, of_credentials, in_user_data] = CANARIES;
    let secret = |name: &str, data: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": NAMESPACE }, "stringData": data });
    let user_data = format!("#cloud-config\nkey: {in_user_data}\njoin: <<BOOTSTRAP_TOKEN>>\nname: <<MACHINE_NAME>>\n");
    cluster.server.insert(&secret("canary", json!({ "userData": user_data, "key": of_class }))).unwrap();
    cluster.server.insert(&secret("canary-credentials", json!({ "password": of_credentials }))).unwrap();
    let mut canary = class("canary", &json!({ "createLatency": "2s", "bootLatency": "5s", "join": { "after": "1s" } }));
    canary["secretRef"] = json!({ "name": "canary", "namespace": NAMESPACE });
    canary["credentialsSecretRef"] = json!({ "name": "canary-credentials", "namespace": NAMESPACE });
    cluster.server.insert(&canary).unwrap();
}

/// Shows EVT-10.
#[rstest]
#[case(LogFormat::Text)]
#[case(LogFormat::Json)]
#[tokio::test(start_paused = true)]
async fn secrets_are_never_exposed_at_the_highest_verbosity(#[case] format: LogFormat) {
    let (mut cluster, page, heard) = (TestCluster::new(74), CapturedLog::default(), Arc::new(Eavesdropper::default()));
    cluster.listener = Some(heard.clone());
    plant_canaries(&cluster);
    let _log = page.open(&cluster, format, 10);
    let process = cluster.start_with(Arc::new(Indiscreet { cloud: cluster.cloud.clone(), failed: Mutex::default() }));
    cluster.create_of_class("m-1", "canary").await;
    let (mut shown, mut states) = (Vec::new(), Vec::new());
    let mut tokens = Vec::new();
    for step in 0..2 {
        let begin = cluster.clock.now();
        loop {
            // Everything that is visible without permission to read Secrets.
            shown.push(format!("{:?}", cluster.server.objects("machines.machine.sapcloud.io")));
            states.push(serde_json::to_string(&ClusterState::of(&process.cluster)).unwrap());
            tokens.extend(
                cluster.tokens().iter().filter_map(|token| token["data"]["token-secret"].as_str().map(str::to_owned)),
            );
            if if step == 0 { runs("m-1")(&cluster) } else { cluster.machine("m-1").is_none() } {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(cluster.clock.now().duration_since(begin).as_hours() < 1, "{:?}", cluster.machine("m-1"));
        }
        if step == 0 {
            cluster.delete("m-1").await;
        }
    }
    tokio::time::sleep(Duration::from_mins(1)).await;

    let events = format!("{:?}", cluster.server.objects("events"));
    let metrics = process.metrics.encode().unwrap() + &cluster.metrics.encode().unwrap();
    let log = page.text();
    let (listeners, shown) = (heard.0.lock().unwrap().join("\n"), shown.join("\n"));
    for (place, text) in [("the log", &log), ("Events", &events), ("the status", &shown)] {
        assert!(text.contains("bad request"), "the driver error is in {place}, so secrets could leak there");
    }
    let states = states.join("\n");
    assert!(
        listeners.contains("DriverCall") && states.contains("pool/m-1"),
        "listeners and state have the objects, so secrets could leak there"
    );
    tokens.dedup();
    assert!(!tokens.is_empty(), "a token was created and read");
    let token = STANDARD.decode(&tokens[0]).unwrap();
    let mut needles: Vec<String> = CANARIES.iter().map(|canary| (*canary).to_owned()).collect();
    needles.push(String::from_utf8(token).unwrap());
    needles.extend(needles.clone().iter().map(|needle| STANDARD.encode(needle)));
    for (place, text) in [
        ("log", &log),
        ("Events", &events),
        ("status", &shown),
        ("metrics", &metrics),
        ("listeners", &listeners),
        ("state", &states),
    ] {
        for needle in &needles {
            let found = text.find(needle.as_str());
            let around = found.map(|at| text.get(at.saturating_sub(300)..(at + 100).min(text.len())));
            assert!(found.is_none(), "{needle} is in the {place}: {around:?}");
        }
    }
}
