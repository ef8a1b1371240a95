//! A driver that is killed at any moment, and the next one.

use std::fs;
use std::time::Duration;

use cloud_fakes::one_host::OneHost as _;
use cloud_fakes::one_host::death::{Deaths, obey};

use crate::fixture::{Fixture, inits};
use crate::namespaces::inside;

/// Does nothing by itself: the other test runs it as a process and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    obey::<Fixture>().await;
}

/// Shows HST-4, HST-15.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_driver_can_be_continued_by_the_next_one() {
    if !inside("death::a_killed_driver_can_be_continued_by_the_next_one") {
        return;
    }
    let deaths = Deaths { victim: "death::victim", step: Duration::from_millis(5), most: 200 };
    let fixture = Fixture::new();
    deaths.play(&fixture, |name| left(&fixture, name)).await;
}

/// Describes the progress of the victim for the log.
fn left(fixture: &Fixture, name: &str) -> String {
    let files = fs::read_dir(fixture.home(name)).map_or(0, Iterator::count);
    let traces = fixture.traces();
    let count = |kind: &str| traces.iter().filter(|line| line.starts_with(kind)).count();
    let (cgroups, links) = (count("cgroup"), count("link: mw"));
    format!("{files} files, {cgroups} cgroups, {} inits, {links} links", inits(name).len())
}
