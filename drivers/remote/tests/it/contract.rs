//! The driver contract over the wire.

use driver::conformance::{Case, Report, Timing, try_case};
use driver::{Capabilities, Support};
use driver_remote::{Endpoint, Listener, RemoteDriver, serve};
use driver_virtual::Config;
use runtime::Tasks;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::{Environment, about, caller};

async fn report(config: &Config) -> Report {
    let mut results = Vec::new();
    for case in Case::ALL {
        results.push((case, try_case(case, &Environment::new(config.clone()).await).await));
    }
    Report { results }
}

/// Shows REM-1.
#[tokio::test(start_paused = true)]
async fn virtual_cloud_passes_the_contract_over_the_wire() {
    for initialize in [Support::Offered, Support::NotOffered] {
        let capabilities = Capabilities { initialize, ..Capabilities::ALL };
        let report = report(&Config { capabilities, ..Config::default() }).await;
        assert!(report.passed(), "{report}");
        let moot = usize::from(initialize == Support::NotOffered);
        assert_eq!(report.skipped().len(), moot, "{report}");
    }
}

/// Shows REM-1.
#[tokio::test(start_paused = true)]
async fn cloud_without_optional_calls_passes_over_the_wire() {
    let report = report(&Config { capabilities: Capabilities::MINIMAL, ..Config::default() }).await;
    assert!(report.passed(), "{report}");
}

/// Lag of the cloud on the real clock.
const LAG: Duration = Duration::from_millis(100);

/// Covers a real socket, a real clock and a lagging cloud.
/// Shows REM-1.
#[tokio::test]
async fn virtual_cloud_passes_the_contract_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(folder.path().join("driver.sock"));
    let mut results = Vec::new();
    for case in Case::ALL {
        let mut environment = Environment::new(Config { status_lag: LAG, list_lag: LAG, ..Config::default() }).await;
        environment.timing = Timing { poll: LAG / 5, ..Timing::real(4 * LAG) };
        let tasks = Tasks::new();
        let listener = Listener::bind(&endpoint, None).await.unwrap();
        tasks.spawn("callers", serve(Arc::new(environment.cloud.clone()), about(), listener, tasks.clone()));
        environment.driver = RemoteDriver::new(&endpoint, None, caller(&environment.tasks)).unwrap();
        environment.driver.reach().await.unwrap();
        results.push((case, try_case(case, &environment).await));
        environment.tasks.shut_down(Duration::from_secs(5)).await;
        tasks.shut_down(Duration::from_secs(5)).await;
    }
    let report = Report { results };
    assert!(report.passed(), "{report}");
}
