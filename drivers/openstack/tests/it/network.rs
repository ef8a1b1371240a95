//! Tests of the driver over real connections, in real time.

use std::sync::Arc;
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use bytes::Bytes;
use driver::conformance::{Arranged, Bench, Case, CaseResult, Timing, try_case};
use driver::{Call, Code, Driver};
use driver_common::http::{Client, HttpError, Transport};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::memory::{class, known, request, stub, with_secret};
use crate::target::{Target, driver};

/// The fault that affects requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NetworkFault {
    #[default]
    Good,
    /// The next create is executed, and its response is lost.
    LoseResponse,
    /// No request gets a response.
    Stalled,
    /// Creates exceed the quota of the project.
    Full,
}

/// A network with the selected fault.
#[derive(Clone)]
struct Network {
    client: Client,
    fault: Arc<Mutex<NetworkFault>>,
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let creates = request.method() == "POST" && request.uri().path().ends_with("/servers");
        let fault = *self.fault.lock();
        match fault {
            NetworkFault::Stalled => return call.bound(std::future::pending()).await.map_err(HttpError::Ended),
            NetworkFault::Full if creates => {
                let body = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"}}"#;
                return Ok(Response::builder().status(403).body(Bytes::from_static(body.as_bytes())).unwrap());
            }
            _ => {}
        }
        let answer = self.client.send(call, request).await;
        if fault == NetworkFault::LoseResponse && creates {
            *self.fault.lock() = NetworkFault::Good;
            return Err(HttpError::Broken { host: "nova".into(), reason: "by the test".into() });
        }
        answer
    }
}

struct Environment {
    driver: Arc<driver_openstack::OpenStackDriver>,
    fault: Arc<Mutex<NetworkFault>>,
    spec: Value,
    secret: SecretData,
    machine: String,
}

impl Environment {
    fn new(target: &Target, name: &str) -> Self {
        let fault = Arc::new(Mutex::new(NetworkFault::Good));
        let shared = fault.clone();
        let driver = driver(move |client| Arc::new(Network { client, fault: shared.clone() }));
        let (spec, secret) = (target.spec(&format!("it-{name}")), target.secret());
        Self { driver: Arc::new(driver), fault, spec, secret, machine: format!("it-{name}-x2x5q") }
    }

    fn request(&self) -> driver::MachineRequest {
        let mut request = with_secret(&request(self.spec.clone()), self.secret.clone());
        let mut machine = (*request.machine).clone();
        machine.metadata.name = self.machine.as_str().into();
        request.machine = Arc::new(machine);
        request
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
        self.secret.clone()
    }

    fn timing(&self) -> Timing {
        Timing::real(Duration::ZERO)
    }

    fn machine(&self) -> String {
        self.machine.clone()
    }

    async fn exhaust_quota(&self) -> Arranged {
        *self.fault.lock() = NetworkFault::Full;
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        *self.fault.lock() = NetworkFault::Stalled;
        Arranged::Done
    }
}

/// Shows OST-C6.
#[tokio::test]
async fn openstack_driver_passes_the_contract_over_the_network() {
    let target = Target::find().await;
    for (at, case) in Case::ALL.into_iter().enumerate() {
        let environment = Environment::new(&target, &format!("case-{at}"));
        let result = try_case(case, &environment).await;
        *environment.fault.lock() = NetworkFault::Good;
        let names = driver::conformance::names(&environment);
        driver::conformance::sweep(&environment, &names).await.unwrap();
        let moot = matches!(case, Case::ListOmitsForeignVms | Case::SeveralVmsAreOutOfRange);
        let expected = if moot { CaseResult::Skipped("not supported by the bench") } else { CaseResult::Passed };
        assert_eq!(result, expected, "{case:?}");
    }
}

/// Shows OST-C2.
#[tokio::test]
async fn machine_life_cycle_succeeds_over_the_network() {
    let target = Target::find().await;
    let environment = Environment::new(&target, "life");
    let (driver, call, fresh) = (&environment.driver, Call::default(), environment.request());
    assert_eq!(driver.status(&call, &fresh).await.unwrap_err().code(), Code::NotFound);
    let made = driver.create(&call, &fresh).await.unwrap();
    assert_eq!(made.node_name.as_str(), environment.machine);
    assert_eq!(made.addresses.len(), 1, "{made:?}");
    assert_eq!(driver.create(&call, &fresh).await.unwrap().provider_id, made.provider_id);
    let known = known(&fresh, made.provider_id.as_str());
    driver.initialize(&call, &known).await.unwrap();
    assert_eq!(driver.status(&call, &known).await.unwrap().provider_id, made.provider_id);
    let listed = driver.list(&call, &known.class_request()).await.unwrap();
    assert_eq!(listed.keys().collect::<Vec<_>>(), [&made.provider_id]);
    driver.delete(&call, &stub(&fresh, made.provider_id.as_str())).await.unwrap();
    driver.delete(&call, &known).await.unwrap();
    assert_eq!(driver.status(&call, &known).await.unwrap_err().code(), Code::NotFound);
    assert!(driver.list(&call, &known.class_request()).await.unwrap().is_empty(), "no port is left");
}

/// Shows OST-C8.
#[tokio::test]
async fn own_root_disk_is_deleted_with_its_server() {
    let target = Target::find().await;
    if !target.has_volumes("own_root_disk_is_deleted_with_its_server") {
        return;
    }
    let mut environment = Environment::new(&target, "disk");
    environment.spec["spec"]["rootDiskSize"] = json!(1);
    environment.spec["spec"]["rootDiskType"] = json!(target.text("volumeType"));
    let (driver, call, request) = (&environment.driver, Call::default(), environment.request());
    let made = driver.create(&call, &request).await.unwrap();
    driver.delete(&call, &known(&request, made.provider_id.as_str())).await.unwrap();
    assert!(driver.list(&call, &request.class_request()).await.unwrap().is_empty(), "no volume is left");
}

/// Shows OST-C3.
#[tokio::test]
async fn lost_response_over_the_network_leaves_one_server() {
    let target = Target::find().await;
    let environment = Environment::new(&target, "lost");
    let (driver, call, request) = (&environment.driver, Call::default(), environment.request());
    *environment.fault.lock() = NetworkFault::LoseResponse;
    assert_eq!(driver.create(&call, &request).await.unwrap_err().code(), Code::Unavailable);
    driver.create(&call, &request).await.unwrap();
    assert_eq!(driver.list(&call, &request.class_request()).await.unwrap().len(), 1);
    driver.delete(&call, &request).await.unwrap();
    assert!(driver.list(&call, &request.class_request()).await.unwrap().is_empty());
}

/// Shows OST-C5.
#[tokio::test]
async fn huge_flavor_and_wrong_password_have_their_codes() {
    let target = Target::find().await;
    let mut environment = Environment::new(&target, "huge");
    environment.spec["spec"]["flavorName"] = json!(target.text("hugeFlavorName"));
    let (driver, call, request) = (&environment.driver, Call::default(), environment.request());
    let error = driver.create(&call, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(driver.list(&call, &request.class_request()).await.unwrap().is_empty(), "the server was deleted");
    let keys = ["authURL", "username", "domainName", "tenantName"];
    let wrong: SecretData =
        keys.iter().map(|key| (*key, target.text(key))).chain([("password", "hunter2"), ("userData", "x")]).collect();
    let error = driver.status(&call, &with_secret(&request, wrong)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
}

/// Shows OST-C5.
#[tokio::test]
async fn refused_connection_is_unavailable_and_silence_times_out() {
    let target = Target::find().await;
    let environment = Environment::new(&target, "away");
    let (driver, request) = (&environment.driver, environment.request());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/v3", listener.local_addr().unwrap());
    drop(listener);
    let keys = ["username", "password", "domainName", "tenantName"];
    let away: SecretData = keys
        .iter()
        .map(|key| (*key, target.text(key)))
        .chain([("authURL", nobody.as_str()), ("userData", "x")])
        .collect();
    let error = driver.create(&Call::default(), &with_secret(&request, away)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    *environment.fault.lock() = NetworkFault::Stalled;
    let call = Call::within(Duration::from_millis(200));
    let error = driver.create(&call, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
}

/// Returns the result of a call, its number of requests, the time of their responses and the duration of the call.
async fn timed<T>(work: impl AsyncFnOnce(&Call) -> T) -> (T, usize, Duration, Duration) {
    let kept = Arc::new(driver::MeterBuffer::default());
    let (call, begun) = (Call::default().metered(kept.clone()), tokio::time::Instant::now());
    let answer = work(&call).await;
    let (whole, asked) = (begun.elapsed(), kept.take());
    (answer, asked.len(), asked.iter().map(|asked| asked.took).sum(), whole)
}

/// The output is the source of the measurements in docs/reference/drivers/openstack.md.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the output is the measurement")]
async fn duration_of_a_call_is_that_of_responses_and_polling() {
    let target = Target::find().await;
    let mut environment = Environment::new(&target, "time");
    if target.has_volumes("the root disk of a machine that is timed") {
        environment.spec["spec"]["rootDiskSize"] = json!(1);
        environment.spec["spec"]["rootDiskType"] = json!(target.text("volumeType"));
    }
    let (driver, request) = (&environment.driver, environment.request());
    let told = |what: &str, requests: usize, answers: Duration, whole: Duration| {
        println!("{what}: {requests} requests, responses took {answers:?} of {whole:?}");
        assert!(requests > 0 && answers <= whole, "{what}");
    };
    // The first round also requests a token and the ids of the class's resources.
    for round in ["first", "second"] {
        let (made, requests, answers, whole) = timed(async |call| driver.create(call, &request).await).await;
        told(&format!("{round} create"), requests, answers, whole);
        let known = known(&request, made.unwrap().provider_id.as_str());
        let (outcome, requests, answers, whole) = timed(async |call| driver.initialize(call, &known).await).await;
        outcome.unwrap();
        told("initialize", requests, answers, whole);
        let (outcome, requests, answers, whole) = timed(async |call| driver.status(call, &known).await).await;
        outcome.unwrap();
        told("status", requests, answers, whole);
        let (outcome, requests, answers, whole) =
            timed(async |call| driver.list(call, &known.class_request()).await).await;
        outcome.unwrap();
        told("list", requests, answers, whole);
        let (outcome, requests, answers, whole) = timed(async |call| driver.delete(call, &known).await).await;
        outcome.unwrap();
        told("delete", requests, answers, whole);
    }
}
