//! The driver over real connections, in real time.

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

/// What befalls the next requests that create a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Day {
    #[default]
    Good,
    /// The next one is done, and its answer is lost.
    LosesAnAnswer,
    /// None is answered.
    Stalled,
    /// The project's quota is used up.
    Full,
}

/// The network on a chosen day.
#[derive(Clone)]
struct Network {
    client: Client,
    day: Arc<Mutex<Day>>,
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let creates = request.method() == "POST" && request.uri().path().ends_with("/servers");
        let day = *self.day.lock();
        match day {
            Day::Stalled => return call.bound(std::future::pending()).await.map_err(HttpError::Ended),
            Day::Full if creates => {
                let body = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"}}"#;
                return Ok(Response::builder().status(403).body(Bytes::from_static(body.as_bytes())).unwrap());
            }
            _ => {}
        }
        let answer = self.client.send(call, request).await;
        if day == Day::LosesAnAnswer && creates {
            *self.day.lock() = Day::Good;
            return Err(HttpError::Broken { host: "nova".into(), reason: "by the test".into() });
        }
        answer
    }
}

struct Environment {
    driver: Arc<driver_openstack::OpenStackDriver>,
    day: Arc<Mutex<Day>>,
    spec: Value,
    secret: SecretData,
    machine: String,
}

impl Environment {
    fn new(target: &Target, name: &str) -> Self {
        let day = Arc::new(Mutex::new(Day::Good));
        let shared = day.clone();
        let driver = driver(move |client| Arc::new(Network { client, day: shared.clone() }));
        let (spec, secret) = (target.spec(&format!("it-{name}")), target.secret());
        Self { driver: Arc::new(driver), day, spec, secret, machine: format!("it-{name}-x2x5q") }
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
        *self.day.lock() = Day::Full;
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        *self.day.lock() = Day::Stalled;
        Arranged::Done
    }
}

/// Shows OST-C6.
#[tokio::test]
async fn the_openstack_driver_keeps_the_contract_over_the_network_in_real_time() {
    let target = Target::find().await;
    for (at, case) in Case::ALL.into_iter().enumerate() {
        let environment = Environment::new(&target, &format!("case-{at}"));
        let result = try_case(case, &environment).await;
        *environment.day.lock() = Day::Good;
        let names = driver::conformance::names(&environment);
        driver::conformance::sweep(&environment, &names).await.unwrap();
        let moot = matches!(case, Case::ListOmitsForeignVms | Case::SeveralVmsAreOutOfRange);
        let expected = if moot { CaseResult::Skipped("not supported by the bench") } else { CaseResult::Passed };
        assert_eq!(result, expected, "{case:?}");
    }
}

/// Shows OST-C2.
#[tokio::test]
async fn a_machine_lives_and_dies_over_the_network() {
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
async fn a_root_disk_of_its_own_is_gone_with_its_server_over_the_network() {
    let target = Target::find().await;
    if !target.has_volumes("a_root_disk_of_its_own_is_gone_with_its_server_over_the_network") {
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
async fn an_answer_that_is_lost_over_the_network_leaves_one_server() {
    let target = Target::find().await;
    let environment = Environment::new(&target, "lost");
    let (driver, call, request) = (&environment.driver, Call::default(), environment.request());
    *environment.day.lock() = Day::LosesAnAnswer;
    assert_eq!(driver.create(&call, &request).await.unwrap_err().code(), Code::Unavailable);
    driver.create(&call, &request).await.unwrap();
    assert_eq!(driver.list(&call, &request.class_request()).await.unwrap().len(), 1);
    driver.delete(&call, &request).await.unwrap();
    assert!(driver.list(&call, &request.class_request()).await.unwrap().is_empty());
}

/// Shows OST-C5.
#[tokio::test]
async fn a_flavor_without_a_host_and_a_wrong_password_have_their_codes_over_the_network() {
    let target = Target::find().await;
    let mut environment = Environment::new(&target, "huge");
    environment.spec["spec"]["flavorName"] = json!(target.text("hugeFlavorName"));
    let (driver, call, request) = (&environment.driver, Call::default(), environment.request());
    let error = driver.create(&call, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(driver.list(&call, &request.class_request()).await.unwrap().is_empty(), "it was cleaned up");
    let keys = ["authURL", "username", "domainName", "tenantName"];
    let wrong: SecretData =
        keys.iter().map(|key| (*key, target.text(key))).chain([("password", "hunter2"), ("userData", "x")]).collect();
    let error = driver.status(&call, &with_secret(&request, wrong)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
}

/// Shows OST-C5.
#[tokio::test]
async fn a_cloud_where_nobody_listens_is_unavailable_and_one_that_is_silent_ends_with_the_call() {
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
    *environment.day.lock() = Day::Stalled;
    let call = Call::within(Duration::from_millis(200));
    let error = driver.create(&call, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
}

/// How long a call took, and how long OpenStack took to answer in it.
async fn timed<T>(work: impl AsyncFnOnce(&Call) -> T) -> (T, usize, Duration, Duration) {
    let kept = Arc::new(driver::MeterBuffer::default());
    let (call, begun) = (Call::default().metered(kept.clone()), tokio::time::Instant::now());
    let answer = work(&call).await;
    let (whole, asked) = (begun.elapsed(), kept.take());
    (answer, asked.len(), asked.iter().map(|asked| asked.took).sum(), whole)
}

/// What is printed here is what docs/reference/drivers/openstack.md says of a real OpenStack.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "whoever measures reads it")]
async fn the_time_of_a_machine_is_that_of_answers_and_of_pauses_between_looks() {
    let target = Target::find().await;
    let mut environment = Environment::new(&target, "time");
    if target.has_volumes("the root disk of a machine that is timed") {
        environment.spec["spec"]["rootDiskSize"] = json!(1);
        environment.spec["spec"]["rootDiskType"] = json!(target.text("volumeType"));
    }
    let (driver, request) = (&environment.driver, environment.request());
    let told = |what: &str, requests: usize, answers: Duration, whole: Duration| {
        println!("{what}: {requests} requests, answered in {answers:?} of {whole:?}");
        assert!(requests > 0 && answers <= whole, "{what}");
    };
    // The first one asks for a token and for the ids of what the class names.
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
