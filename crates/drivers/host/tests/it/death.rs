//! A driver that is killed without warning at any moment, and the one that comes after it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use driver::{Call, Driver};

use crate::fixture::{Fixture, class, inits, machine, request, traces};
use crate::namespaces::inside;

/// What the process that is killed is told.
const ORDER: &str = "MILLWRIGHT_HOST_TEST_ORDER";
const VICTIM: &str = "death::the_victim_of_the_other_tests";

/// Makes or removes a machine. By itself it does nothing: another test starts it and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim_of_the_other_tests() {
    #[allow(clippy::disallowed_methods, reason = "how a test tells its victim what to do")]
    let Ok(order) = std::env::var(ORDER) else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let [verb, image, state, name] = words[..] else { panic!("{order}") };
    let request = request(class(Path::new(image), Path::new(state), "shoot"), name);
    match verb {
        "create" => drop(Fixture::driver().create(&Call::default(), &request).await.unwrap()),
        _ => drop(Fixture::driver().delete(&Call::default(), &request).await.unwrap()),
    }
}

/// Starts a victim and kills it after so long; whether it was done before that.
async fn kill_after(fixture: &Fixture, verb: &str, name: &str, delay: Duration) -> bool {
    let class = fixture.class("shoot");
    let (image, state) = (&class.provider_spec["rootImage"], &class.provider_spec["stateDirectory"]);
    let order = format!("{verb} {} {} {name}", image.as_str().unwrap(), state.as_str().unwrap());
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", VICTIM])
        .env(ORDER, order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(delay).await;
    let done = victim.try_wait().unwrap().is_some();
    victim.kill().unwrap();
    victim.wait().unwrap();
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove() {
    if !inside("death::a_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove") {
        return;
    }
    let (fixture, call, driver) = (Fixture::new(), Call::default(), Fixture::driver());
    let before = traces(&fixture.state());
    let mut stages = std::collections::BTreeSet::new();
    // From a victim that has hardly begun to one that is done before it is killed.
    for millis in (0..1000).step_by(5) {
        let delay = Duration::from_millis(millis);
        let name = machine(&format!("k{millis}"));
        let request = fixture.request(&name);
        let done = kill_after(&fixture, "create", &name, delay).await;
        stages.insert(left(&fixture, &name));
        if millis % 2 == 0 {
            driver.create(&call, &request).await.unwrap();
            assert_eq!(inits(&name).len(), 1, "after {millis} ms");
            driver.create(&call, &request).await.unwrap();
            assert_eq!(inits(&name).len(), 1, "after {millis} ms");
            kill_after(&fixture, "delete", &name, delay).await;
        }
        driver.delete(&call, &request).await.unwrap();
        assert_eq!(traces(&fixture.state()), before, "killed after {millis} ms");
        if done {
            break;
        }
    }
    println!("killed at these stages: {stages:?}");
}

/// How far the victim came, for a person who reads the log.
fn left(fixture: &Fixture, name: &str) -> String {
    let home = fixture.home(name);
    let mut files: Vec<_> = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    files.sort();
    let cgroups = traces(&fixture.state()).iter().filter(|line| line.starts_with("cgroup")).count();
    let links = traces(&fixture.state()).iter().filter(|line| line.starts_with("link: mw")).count();
    format!("{} files, {cgroups} cgroups, {} inits, {links} links", files.len(), inits(name).len())
}
