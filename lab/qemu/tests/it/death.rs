//! A driver that is killed without warning at any moment, and the one that comes after it.

use std::fs;
use std::time::Duration;

use cloud_fakes::one_host::OneHost as _;
use cloud_fakes::one_host::death::{Deaths, obey};

use crate::fixture::Fixture;

/// By itself it does nothing: the other test starts it and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim_of_the_other_test() {
    obey::<Fixture>().await;
}

/// Shows HST-22.
#[tokio::test(flavor = "multi_thread")]
async fn a_qemu_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove() {
    let test = "a_qemu_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove";
    let Some(fixture) = Fixture::new(test) else { return };
    let deaths = Deaths { victim: "death::the_victim_of_the_other_test", step: Duration::from_millis(8), most: 250 };
    let left = |name: &str| {
        let files = fs::read_dir(fixture.home(name)).map_or(0, Iterator::count);
        format!("{files} files, {} processes", fixture.running(name))
    };
    deaths.play(&fixture, left).await;
}
