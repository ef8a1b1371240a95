//! Tests of lagging reads, and of a cloud that allows duplicates.

use driver::Code;
use driver_virtual::{Config, Doubles};

use crate::bench::{Environment, SECOND};

/// Shows VIR-5.
#[tokio::test(start_paused = true)]
async fn status_and_list_lag_behind_create_and_delete() {
    let environment = Environment::new(Config { status_lag: 5 * SECOND, list_lag: 20 * SECOND, ..Config::default() });
    environment.create("m").await.unwrap();
    assert_eq!(environment.status("m").await.unwrap_err().code(), Code::NotFound);
    tokio::time::sleep(5 * SECOND).await;
    environment.status("m").await.unwrap();
    assert!(environment.list().await.unwrap().is_empty());
    tokio::time::sleep(15 * SECOND).await;
    assert_eq!(environment.list().await.unwrap().len(), 1);

    environment.delete("m").await.unwrap(); // takes a second
    assert!(environment.cloud.vms().is_empty());
    environment.status("m").await.expect("still seen");
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(environment.status("m").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(environment.list().await.unwrap().len(), 1);
    tokio::time::sleep(15 * SECOND).await;
    assert!(environment.list().await.unwrap().is_empty());
}

/// Shows VIR-5.
#[tokio::test(start_paused = true)]
async fn a_create_is_not_fooled_by_the_lag() {
    let environment = Environment::new(Config { status_lag: 60 * SECOND, ..Config::default() });
    let first = environment.create("m").await.unwrap();
    assert_eq!(environment.create("m").await.unwrap().provider_id, first.provider_id);
    assert_eq!(environment.cloud.vms_of("m").len(), 1);
}

/// Shows VIR-6, MC-W49.
#[tokio::test(start_paused = true)]
async fn duplicates_are_visible_in_status_immediately() {
    let config = Config { doubles: Doubles::Allowed, status_lag: 60 * SECOND, ..Config::default() };
    let environment = Environment::new(config);
    let first = environment.create("m").await.unwrap();
    assert_eq!(environment.status("m").await.unwrap().provider_id, first.provider_id);
    let second = environment.create("m").await.unwrap();
    assert_ne!(first.provider_id, second.provider_id);
    assert_eq!(environment.status("m").await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(environment.list().await.unwrap().len(), 2);
    environment.delete("m").await.unwrap();
    assert!(environment.cloud.vms().is_empty(), "a deletion by name deletes all of them");
}
