//! A driver that is killed without warning at any moment, and the one that comes after it.

use std::fs;
use std::time::Duration;

use cloud_fakes::one_host::OneHost as _;
use cloud_fakes::one_host::death::{Deaths, obey};

use crate::fixture::{Fixture, inits};
use crate::namespaces::inside;

/// By itself it does nothing: the other test starts it and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim_of_the_other_test() {
    obey::<Fixture>().await;
}

/// Shows HST-4, HST-15.
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove() {
    if !inside("death::a_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove") {
        return;
    }
    let deaths = Deaths { victim: "death::the_victim_of_the_other_test", step: Duration::from_millis(5), most: 200 };
    let fixture = Fixture::new();
    deaths.play(&fixture, |name| left(&fixture, name)).await;
}

/// How far the victim came, for a person who reads the log.
fn left(fixture: &Fixture, name: &str) -> String {
    let files = fs::read_dir(fixture.home(name)).map_or(0, Iterator::count);
    let traces = fixture.traces();
    let count = |kind: &str| traces.iter().filter(|line| line.starts_with(kind)).count();
    let (cgroups, links) = (count("cgroup"), count("link: mw"));
    format!("{files} files, {cgroups} cgroups, {} inits, {links} links", inits(name).len())
}
