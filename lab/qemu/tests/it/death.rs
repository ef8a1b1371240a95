//! A driver that is killed at any moment, and the next one.

use std::fs;
use std::time::Duration;

use cloud_fakes::one_host::OneHost as _;
use cloud_fakes::one_host::death::{Deaths, obey};

use crate::fixture::Fixture;

/// Does nothing by itself: the other test runs it as a process and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    obey::<Fixture>().await;
}

/// Shows HST-22.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_qemu_driver_can_be_continued_by_the_next_one() {
    let test = "a_killed_qemu_driver_can_be_continued_by_the_next_one";
    let Some(fixture) = Fixture::new(test) else { return };
    let deaths = Deaths { victim: "death::victim", step: Duration::from_millis(8), most: 250 };
    let left = |name: &str| {
        let files = fs::read_dir(fixture.home(name)).map_or(0, Iterator::count);
        format!("{files} files, {} processes", fixture.running(name))
    };
    deaths.play(&fixture, left).await;
}
