//! Limits of driver calls: exhausted capacity, throttling, hanging calls, and secrets in driver errors.

use std::time::Duration;

use api::{Code, MachinePhase};
use driver::Method;
use driver_virtual::{Fault, Script};
use serde_json::json;

use crate::test_cluster::{NAMESPACE, TestCluster, class};

const RETRY: Duration = Duration::from_mins(10);

fn running(cluster: &TestCluster, name: &str) -> bool {
    cluster.phase(name) == Some(MachinePhase::Running)
}

fn code(cluster: &TestCluster, name: &str) -> String {
    cluster.machine(name).map(|m| m.status.last_operation.error_code).unwrap_or_default()
}

/// Returns the number of create calls for Machines whose names have the prefix.
fn creates(cluster: &TestCluster, prefix: &str) -> usize {
    let of = |call: &&driver_virtual::CallRecord| {
        call.method == Method::Create && call.machine.as_deref().is_some_and(|name| name.starts_with(prefix))
    };
    cluster.cloud.calls().iter().filter(of).count()
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn exhausted_class_blocks_no_others_and_retries_once() {
    let cluster = TestCluster::new(21);
    cluster.server.insert(&class("full", &json!({ "createLatency": "2s", "quota": 0 }))).unwrap();
    let _process = cluster.start();
    for n in 0..1000 {
        cluster.create_of_class(&format!("full-{n}"), "full").await;
    }
    let begin = cluster.clock.now();
    for n in 0..10 {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster.until("the others are Running", |w| (0..10).all(|n| running(w, &format!("m-{n}")))).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took <= 60, "40 s of the cloud, and a short time in the queue: {took} s");
    cluster
        .until("all report the error", |w| (0..1000).all(|n| code(w, &format!("full-{n}")) == "ResourceExhausted"))
        .await;
    let first = creates(&cluster, "full-");
    assert!(first <= 10, "only concurrent creates were rejected by the cloud: {first}");
    let held = (0..1000).filter(|n| {
        let machine = cluster.machine(&format!("full-{n}")).unwrap();
        machine
            .status
            .last_operation
            .description
            .contains("waiting, because creation of another Machine of the MachineClass failed")
    });
    assert!(held.count() >= 980);

    tokio::time::sleep(RETRY * 9 / 10).await;
    assert_eq!(creates(&cluster, "full-"), first, "no create is sent before the period ends");
    let asked = cluster.cloud.calls().len();
    tokio::time::sleep(RETRY / 2).await;
    assert_eq!(creates(&cluster, "full-"), first + 1, "one Machine retries for all");
    let asked = cluster.cloud.calls().len() - asked;
    assert!(asked <= 2, "no more status calls: {asked}");
}

/// Shows LIM-5.
#[tokio::test(start_paused = true)]
async fn successful_trial_create_releases_the_other_machines() {
    let mut cluster = TestCluster::new(22);
    cluster.policy.creation_timeout = Duration::from_hours(1);
    cluster.cloud.set_quotas(driver_virtual::Quotas { total: Some(0), ..Default::default() });
    let _process = cluster.start();
    for n in 0..30 {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster.until("all report the error", |w| (0..30).all(|n| code(w, &format!("m-{n}")) == "ResourceExhausted")).await;
    cluster.cloud.set_quotas(driver_virtual::Quotas::default());
    let begin = cluster.clock.now();
    cluster.until("all are Running", |w| (0..30).all(|n| running(w, &format!("m-{n}")))).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(
        took <= 600 + 60 + 60 + 60,
        "the period with its jitter, the boot, and a few rounds of two seconds: {took} s"
    );
    assert_eq!(cluster.cloud.vms().len(), 30);
}

/// Shows LIM-6.
#[tokio::test(start_paused = true)]
async fn held_back_machine_is_deleted_immediately() {
    let cluster = TestCluster::new(23);
    cluster.server.insert(&class("full", &json!({ "quota": 0 }))).unwrap();
    let _process = cluster.start();
    for n in 0..20 {
        cluster.create_of_class(&format!("full-{n}"), "full").await;
    }
    cluster
        .until("all report the error", |w| (0..20).all(|n| code(w, &format!("full-{n}")) == "ResourceExhausted"))
        .await;
    let begin = cluster.clock.now();
    for n in 0..20 {
        cluster.delete(&format!("full-{n}")).await;
    }
    cluster.until("all are deleted", |w| (0..20).all(|n| w.machine(&format!("full-{n}")).is_none())).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() <= 30);
}

/// Shows LIM-2.
#[tokio::test(start_paused = true)]
async fn queued_machine_is_deleted_immediately() {
    let cluster = TestCluster::new(24);
    // The first nine creates hang until their timeout; later calls are queued.
    cluster.cloud.inject(Script::always(Fault::Hang).on(Method::Create));
    let _process = cluster.start();
    for n in 0..15 {
        cluster.create(&format!("m-{n:02}")).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let out: Vec<_> =
        cluster.cloud.calls().iter().filter(|c| c.method == Method::Create).filter_map(|c| c.machine.clone()).collect();
    let waiting = (0..15).map(|n| format!("m-{n:02}")).find(|name| !out.contains(name)).unwrap();
    cluster.delete(&waiting).await;
    let begin = cluster.clock.now();
    cluster.until("it is deleted", |w| w.machine(&waiting).is_none()).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() <= 10);
}

/// Shows LIM-2.
#[tokio::test(start_paused = true)]
async fn hanging_calls_of_one_deployment_do_not_block_another() {
    let cluster = TestCluster::new(25);
    for n in 0..40 {
        cluster.cloud.inject(Script::always(Fault::Hang).on(Method::Create).of(format!("hangs-{n}")));
    }
    let _process = cluster.start();
    for n in 0..40 {
        cluster.create_in_pool(&format!("hangs-{n}"), "hanging").await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begin = cluster.clock.now();
    for n in 0..3 {
        cluster.create_in_pool(&format!("m-{n}"), "healthy").await;
    }
    cluster.until("the others are Running", |w| (0..3).all(|n| running(w, &format!("m-{n}")))).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() <= 60);
}

/// Shows LIM-4.
#[tokio::test(start_paused = true)]
async fn throttled_calls_are_retried_with_backoff() {
    let cluster = TestCluster::new(26);
    cluster.cloud.inject(Script::always(Fault::Fail(Code::Unavailable)));
    let _process = cluster.start();
    for n in 0..50 {
        cluster.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    let calls = cluster.cloud.calls().len();
    // 50 Machines that retry every 5 s would send 3,000 calls.
    assert!((5..60).contains(&calls), "{calls}");
    cluster.cloud.clear_faults();
    let begin = cluster.clock.now();
    cluster.until("all are Running", |w| (0..50).all(|n| running(w, &format!("m-{n}")))).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took <= 45 + 60 + 20, "one backoff at most, then the time of the cloud: {took} s");
}

/// Shows LIM-7.
#[tokio::test(start_paused = true)]
async fn limiter_metrics_are_labeled_with_the_secret() {
    let cluster = TestCluster::new(27);
    cluster.server.insert(&class("full", &json!({ "quota": 0 }))).unwrap();
    let process = cluster.start();
    cluster.create_of_class("full-1", "full").await;
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| running(w, "m-1")).await;
    let shown = process.metrics.encode().unwrap();
    for line in [
        "millwright_machine_class_held_back{class=\"full\"} 1",
        "millwright_driver_queue_seconds_count{operation=\"create_machine\",secret=\"cloud\"} 2",
        "mcm_cloud_api_driver_request_duration_seconds_count{operation=\"create_machine\",provider=\"virtual\"} 1",
        "mcm_cloud_api_driver_requests_failed_total{error_code=\"8\",operation=\"create_machine\",provider=\"virtual\"} 1",
    ] {
        assert!(shown.lines().any(|l| l == line), "{line} is missing from\n{shown}");
    }
}

/// Shows DEP-11.
#[tokio::test(start_paused = true)]
async fn cloud_counters_are_exported_as_zero_initially() {
    let cluster = TestCluster::new(28);
    cluster.cloud.inject(Script::always(Fault::Fail(Code::InvalidArgument)).on(Method::Create));
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("the create was rejected", |w| code(w, "m-1") == "InvalidArgument").await;
    let shown = process.metrics.encode().unwrap();
    for line in [
        "mcm_cloud_api_driver_request_duration_seconds_count{operation=\"create_machine\",provider=\"virtual\"} 0",
        "mcm_cloud_api_driver_requests_failed_total{error_code=\"14\",operation=\"create_machine\",provider=\"virtual\"} 0",
    ] {
        assert!(shown.lines().any(|l| l == line), "{line} is missing from\n{shown}");
    }
    assert!(!shown.contains("error_code=\"0\""), "a success is not counted as a failure");
    assert!(!shown.contains("operation=\"delete_machine\""), "no deletion was requested");
}

/// A driver whose errors contain its whole request.
struct Chatterbox(driver_virtual::VirtualCloud);

#[async_trait::async_trait]
impl driver::Driver for Chatterbox {
    fn capabilities(&self) -> driver::Capabilities {
        self.0.capabilities()
    }
    async fn create(
        &self,
        _: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Created, driver::DriverError> {
        let said: Vec<String> =
            request.secret.keys().map(|key| format!("{key}={:?}", request.secret.text(key))).collect();
        let said = said.join("; ");
        Err(driver::DriverError::new(Code::Internal, format!("bad request: {said}")).with_last_known_state(said))
    }
    async fn delete(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Deleted, driver::DriverError> {
        self.0.delete(call, request).await
    }
    async fn status(
        &self,
        call: &driver::Call,
        request: &driver::MachineRequest,
    ) -> Result<driver::Found, driver::DriverError> {
        self.0.status(call, request).await
    }
}

/// Shows MC-W57, LIM-8.
#[tokio::test(start_paused = true)]
async fn driver_error_is_scrubbed_in_status_and_events() {
    let cluster = TestCluster::new(28);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": NAMESPACE },
        "stringData": { "userData": "join with <<BOOTSTRAP_TOKEN>>", "password": "correct horse battery", "region": "eu-1" },
    });
    let mut chatty = class("chatty", &json!({}));
    chatty["credentialsSecretRef"] = json!({ "name": "keys", "namespace": NAMESPACE });
    cluster.server.insert(&secret).unwrap();
    cluster.server.insert(&chatty).unwrap();
    let _process = cluster.start_with(std::sync::Arc::new(Chatterbox(cluster.cloud.clone())));
    cluster.create_of_class("m-1", "chatty").await;
    cluster.until("the error is reported", |w| code(w, "m-1") == "Internal").await;
    tokio::time::sleep(Duration::from_mins(1)).await;

    let tokens = cluster.tokens();
    let token = tokens[0]["data"]["token-secret"].as_str().unwrap();
    let token =
        String::from_utf8(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, token).unwrap()).unwrap();
    let machine = serde_json::to_string(&cluster.machine("m-1").unwrap()).unwrap();
    let events = format!("{:?}", cluster.server.objects("events"));
    for said in [&machine, &events] {
        assert!(said.contains("bad request") && said.contains("eu-1"), "{said}");
        for secret in ["correct horse battery", "join with", token.as_str()] {
            assert!(!said.contains(secret), "{secret:?} is in {said}");
        }
    }
}
