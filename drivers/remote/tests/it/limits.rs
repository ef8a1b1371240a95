//! Deadlines and cancellation reach the driver.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use driver::{Call, Capabilities, Code, Created, Deleted, Driver, DriverError, MachineRequest, Method};
use driver_virtual::{CallEnd, Config, Fault, Script};
use parking_lot::Mutex;
use runtime::Tasks;
use tokio_util::sync::CancellationToken;

use crate::wire::{Environment, Process, request};

const MINUTE: Duration = Duration::from_mins(1);

/// Never responds and records the limits of a call.
#[derive(Clone, Default)]
struct Patient {
    told: Arc<Mutex<Option<(Duration, CancellationToken)>>>,
}

#[async_trait]
impl Driver for Patient {
    fn capabilities(&self) -> Capabilities {
        Capabilities::MINIMAL
    }
    async fn create(&self, call: &Call, _request: &MachineRequest) -> Result<Created, DriverError> {
        *self.told.lock() = Some((call.remaining(), call.canceled().clone()));
        std::future::pending().await
    }
    async fn delete(&self, _call: &Call, _request: &MachineRequest) -> Result<Deleted, DriverError> {
        std::future::pending().await
    }
}

/// Shows REM-3.
#[tokio::test(start_paused = true)]
async fn deadline_of_a_call_reaches_the_driver() {
    let (patient, tasks) = (Patient::default(), Tasks::new());
    let driver = Process::start(Arc::new(patient.clone())).caller(&tasks);
    let answer = driver.create(&Call::within(7 * MINUTE), &request("m")).await;
    assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded);
    let (patience, _) = patient.told.lock().clone().unwrap();
    assert!(patience <= 7 * MINUTE && patience + Duration::from_secs(1) > 7 * MINUTE, "{patience:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_ends_at_the_driver() {
    let (patient, tasks) = (Patient::default(), Tasks::new());
    let driver = Process::start(Arc::new(patient.clone())).caller(&tasks);
    let (call, question) = (Call::default(), request("m"));
    let dropped = tokio::time::timeout(Duration::from_secs(1), driver.create(&call, &question)).await;
    assert!(dropped.is_err());
    let (_, canceled) = patient.told.lock().clone().unwrap();
    let learned = tokio::time::timeout(Duration::from_secs(1), canceled.cancelled()).await;
    assert!(learned.is_ok(), "the driver still works for a disconnected caller");
}

/// Shows REM-3.
#[tokio::test(start_paused = true)]
async fn canceled_call_ends_at_the_driver() {
    let environment = Environment::new(Config::default()).await;
    environment.cloud.inject(Script::next(Method::Create, Fault::Hang));
    let token = CancellationToken::new();
    let (call, question) = (Call::default().canceled_by(token.clone()), request("m"));
    let (answer, ()) = tokio::join!(environment.driver.create(&call, &question), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(environment.cloud.calls()[0].end, CallEnd::Open);
        token.cancel();
    });
    assert_eq!(answer.unwrap_err().code(), Code::Canceled);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(environment.cloud.calls()[0].end, CallEnd::Abandoned);
}

/// Shows REM-3.
#[tokio::test(start_paused = true)]
async fn disconnected_caller_ends_its_calls_at_the_driver() {
    let environment = Environment::new(Config::default()).await;
    environment.cloud.inject(Script::next(Method::Create, Fault::Hang));
    let (call, question) = (Call::default(), request("m"));
    let (answer, ()) = tokio::join!(environment.driver.create(&call, &question), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        environment.tasks.stop();
    });
    assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(environment.cloud.calls()[0].end, CallEnd::Abandoned);
}
