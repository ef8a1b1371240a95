//! Tests of `millwright driver check` with correct, slow, hostile and crashing drivers.

use std::io::Write as _;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::view::PersistentVolumeSpec;
use driver::conformance::hostile::{Attack, Hostile};
use driver::{Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners};
use driver_remote::{About, Listener, serve};
use driver_virtual::{Config, Doubles, VirtualCloud};
use runtime::{Clock, Tasks};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{run, text};

const CLASS: &str = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: c, namespace: n}\n\
    provider: virtual\nproviderSpec: {deleteLatency: 0s, bootLatency: 0s}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {userData: hunter2-hunter2}\n";

/// A directory with a MachineClass, a Secret and a driver socket.
struct CheckFixture {
    folder: TempDir,
    tasks: Tasks,
}

impl CheckFixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("class.yaml"), CLASS).unwrap();
        std::fs::write(folder.path().join("secret.yaml"), SECRET).unwrap();
        Self { folder, tasks: Tasks::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn serve(&self, driver: Arc<dyn Driver>) {
        let endpoint = format!("unix:{}", self.path("driver.sock")).parse().unwrap();
        let listener = Listener::bind(&endpoint, None).await.unwrap();
        let about = About { name: "under test".into(), version: "0".into() };
        self.tasks.spawn("callers", serve(driver, about, listener, self.tasks.clone()));
    }

    async fn check(&self, more: &[&str]) -> Output {
        let (endpoint, class, secret) =
            (format!("unix:{}", self.path("driver.sock")), self.path("class.yaml"), self.path("secret.yaml"));
        let base = ["driver", "check", "--endpoint", &endpoint, "--class", &class, "--secret", &secret];
        let line: Vec<String> =
            base.iter().chain(&["--patience", "300ms"]).chain(more).map(|word| (*word).to_owned()).collect();
        let ran = tokio::task::spawn_blocking(move || run(&line.iter().map(String::as_str).collect::<Vec<_>>()));
        ran.await.unwrap()
    }
}

fn cloud(config: Config) -> VirtualCloud {
    let clock = Clock::system();
    VirtualCloud::new(config, Arc::new(move || clock.now()), 1)
}

/// Returns the report in JSON.
fn results(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn result_of<'a>(report: &'a Value, case: &str) -> (&'a str, &'a str) {
    let found = report["cases"].as_array().unwrap().iter().find(|one| one["case"] == case).unwrap();
    (found["result"].as_str().unwrap(), found["why"].as_str().unwrap_or_default())
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn correct_driver_with_a_slow_cloud_passes() {
    let lag = Duration::from_millis(60);
    let (fixture, cloud) = (CheckFixture::new(), cloud(Config { status_lag: lag, list_lag: lag, ..Config::default() }));
    fixture.serve(Arc::new(cloud.clone())).await;
    let output = fixture.check(&[]).await;
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    assert!(printed.contains("pass     Lifecycle\n"), "{printed}");
    assert!(printed.contains("skip     ExhaustedQuotaIsResourceExhausted: not supported by the bench\n"), "{printed}");
    assert!(printed.ends_with(" 0 failed\n"), "{printed}");
    assert!(cloud.vms().is_empty(), "{:?}", cloud.vms());
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn driver_that_creates_duplicates_fails() {
    let fixture = CheckFixture::new();
    fixture.serve(Arc::new(cloud(Config { doubles: Doubles::Allowed, ..Config::default() }))).await;
    let output = fixture.check(&["-o", "json"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = results(&output);
    assert_eq!(report["passed"], false);
    let (result, why) = result_of(&report, "RepeatedCreateMakesOneVm");
    assert_eq!(result, "broken");
    assert!(why.contains("when created and"), "{why}");
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_driver_error_is_printed_on_one_line() {
    let fixture = CheckFixture::new();
    let printed = "\u{1b}[31mhunter2-hunter2\npass     EverythingIsFine".to_owned();
    fixture.serve(Arc::new(Hostile::new(Arc::new(cloud(Config::default())), Attack::Error(printed)))).await;
    let output = fixture.check(&[]).await;
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("FAIL     Lifecycle: "), "{printed}");
    assert!(
        !printed.contains('\u{1b}') && !printed.contains("hunter2") && !printed.contains("\npass     EverythingIsFine")
    );
}

/// What the driver does instead of responding.
#[derive(Clone, Copy)]
enum Trouble {
    /// The create calls never end.
    Hangs,
    /// The driver dies in the third create call.
    Dies,
}

struct Troubled {
    cloud: VirtualCloud,
    trouble: Trouble,
    creates: AtomicUsize,
    process: Tasks,
}

#[async_trait::async_trait]
impl Driver for Troubled {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        match (self.trouble, self.creates.fetch_add(1, Ordering::SeqCst)) {
            (Trouble::Hangs, _) => std::future::pending().await,
            (Trouble::Dies, 2) => {
                self.process.stop();
                std::future::pending().await
            }
            (Trouble::Dies, _) => self.cloud.create(call, request).await,
        }
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.cloud.delete(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        self.cloud.list(call, request).await
    }
    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        self.cloud.volume_ids(call, volumes).await
    }
}

async fn troubled(trouble: Trouble) -> (CheckFixture, Output) {
    let fixture = CheckFixture::new();
    let (cloud, process) = (cloud(Config::default()), fixture.tasks.clone());
    fixture.serve(Arc::new(Troubled { cloud, trouble, creates: AtomicUsize::new(0), process })).await;
    let output = fixture.check(&["-o", "json", "--call-timeout", "300ms", "--case-timeout", "3s"]).await;
    (fixture, output)
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_driver_fails_each_case_at_its_deadline() {
    let (_fixture, output) = troubled(Trouble::Hangs).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = results(&output);
    let (result, why) = result_of(&report, "Lifecycle");
    assert!(result == "broken" && why.contains("DeadlineExceeded"), "{why}");
    assert_eq!(result_of(&report, "OtherProviderIsRejected").0, "broken", "its create call hangs too");
    assert_eq!(report["cases"].as_array().unwrap().len(), 19);
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn crashed_driver_fails_all_remaining_cases() {
    let (_fixture, output) = troubled(Trouble::Dies).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = results(&output);
    assert_eq!(result_of(&report, "Lifecycle").0, "held");
    let (result, why) = result_of(&report, "TextsArePrintable");
    assert!(result == "broken" && why.starts_with("failed to reach the driver: "), "{why}");
    assert!(!report["left"].is_null(), "the VMs could not be deleted");
}

/// Shows REM-12.
#[tokio::test(flavor = "multi_thread")]
async fn check_without_any_case_exits_with_two() {
    let fixture = CheckFixture::new();
    let unreachable = fixture.check(&[]).await;
    assert_eq!(unreachable.status.code(), Some(2), "{unreachable:?}");
    assert!(text(&unreachable.stderr).contains("failed to reach the driver at unix:"), "{unreachable:?}");

    let listener = std::os::unix::net::UnixListener::bind(fixture.path("driver.sock")).unwrap();
    std::thread::spawn(move || {
        for mut caller in listener.incoming().map_while(Result::ok) {
            let _ = caller.write_all(b"HTTP/1.1 418 I'm a teapot\r\n\r\n");
        }
    });
    let garbage = fixture.check(&[]).await;
    assert_eq!(garbage.status.code(), Some(2), "{garbage:?}");

    std::fs::write(fixture.path("class.yaml"), "kind: Secret\n").unwrap();
    let wrong = fixture.check(&[]).await;
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("class.yaml is a Secret, not a MachineClass"), "{wrong:?}");
}
