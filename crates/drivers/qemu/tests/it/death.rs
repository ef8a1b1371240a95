//! A driver that is killed without warning at any moment, and the one that comes after it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use driver::{Call, Driver};

use crate::fixture::{Fixture, class, processes, request};

/// What the process that is killed is told.
const ORDER: &str = "MILLWRIGHT_QEMU_TEST_ORDER";
const VICTIM: &str = "death::the_victim_of_the_other_test";

/// Makes or removes a machine. By itself it does nothing: another test starts it and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim_of_the_other_test() {
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
    let (image, state) = (&class.provider_spec["image"], &class.provider_spec["stateDirectory"]);
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
async fn a_qemu_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove() {
    let test = "a_qemu_driver_killed_at_any_moment_leaves_nothing_that_the_next_cannot_finish_or_remove";
    let Some(fixture) = Fixture::new(test) else { return };
    let (call, driver) = (Call::default(), Fixture::driver());
    let mut stages = std::collections::BTreeSet::new();
    // From a victim that has hardly begun to one that is done before it is killed.
    for millis in (0..2000).step_by(8) {
        let delay = Duration::from_millis(millis);
        let name = format!("k{millis}");
        let request = fixture.request(&name);
        let done = kill_after(&fixture, "create", &name, delay).await;
        let files = std::fs::read_dir(fixture.home(&name)).map_or(0, Iterator::count);
        stages.insert(format!("{files} files, {} processes", processes(&fixture.home(&name)).len()));
        if millis % 16 == 0 {
            driver.create(&call, &request).await.unwrap();
            assert_eq!(processes(&fixture.home(&name)).len(), 1, "after {millis} ms");
            kill_after(&fixture, "delete", &name, delay).await;
        }
        driver.delete(&call, &request).await.unwrap();
        assert!(fixture.traces().is_empty(), "killed after {millis} ms: {:?}", fixture.traces());
        if done {
            break;
        }
    }
    println!("killed at these stages: {stages:?}");
}
