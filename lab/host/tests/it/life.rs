//! A running machine.

use std::fs;
use std::time::Duration;

use cloud_fakes::one_host::OneHost as _;
use driver::{Call, Code};
use tokio::time::sleep;

use crate::fixture::{Fixture, inits, machine};
use crate::namespaces::{cgroups, inside};

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(seen) = look() {
            return seen;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out after 10 s waiting for {what}");
}

/// Shows HST-7.
#[tokio::test(flavor = "multi_thread")]
async fn the_init_runs_the_user_data_in_a_separate_root_and_network() {
    if !inside("life::the_init_runs_the_user_data_in_a_separate_root_and_network") {
        return;
    }
    let (fixture, call) = (Fixture::new(), Call::default());
    let name = machine("own");
    let before = fixture.traces();
    let made = Fixture::driver().create(&call, &fixture.request(&name)).await.unwrap();
    assert_eq!(made.provider_id, format!("host:///shoot/{name}").as_str());
    assert_eq!((made.node_name.as_str(), made.addresses[0].address.as_str()), (name.as_str(), "10.76.1.1"));

    let upper = fixture.home(&name).join("upper");
    let read = |file: &str| fs::read_to_string(upper.join(file)).ok().filter(|text| !text.is_empty());
    let seen = until("the output of the user data", || read("seen").filter(|text| text.lines().count() == 2)).await;
    assert_eq!(seen, format!("{name}\n/\n"));
    let mounts = until("the mounts", || read("mounts")).await;
    let points: Vec<_> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let foreign = points.iter().any(|point| point.contains(".host") || point.contains("/clusters/"));
    assert!(!foreign && mounts.starts_with("overlay / "), "{mounts}");
    // The host reaches the machine over the bridge: the link is up on both ends and has its address.
    let ping = |address: &str| {
        std::net::TcpStream::connect_timeout(&format!("{address}:1").parse().unwrap(), Duration::from_secs(2))
    };
    let refused = ping("10.76.1.1").unwrap_err().kind();
    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused, "a refused connection shows that the address is in use");
    assert_eq!(fs::read_link(format!("/proc/{}/root", inits(&name)[0])).unwrap().to_str(), Some("/"));

    Fixture::driver().delete(&call, &fixture.request(&name)).await.unwrap();
    assert_eq!(fixture.traces(), before);
}

/// Shows HST-6.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_driver_finds_machines_and_restarts_exited_ones() {
    if inside("life::a_new_driver_finds_machines_and_restarts_exited_ones") {
        end_and_start_again().await;
    }
}

/// Another driver finds a machine, which exits and is started again with the cgroups of its earlier run.
async fn end_and_start_again() {
    let (fixture, call) = (Fixture::new(), Call::default());
    let name = machine("found");
    let request = fixture.request(&name);
    let made = Fixture::driver().create(&call, &request).await.unwrap();
    let init = inits(&name);
    let other = Fixture::driver();
    assert_eq!(other.status(&call, &request).await.unwrap().provider_id, made.provider_id);
    assert_eq!(other.create(&call, &request).await.unwrap().provider_id, made.provider_id);
    assert_eq!(inits(&name), init, "the machine must not be restarted");

    assert!(std::process::Command::new("kill").args(["-KILL", &init[0].to_string()]).status().unwrap().success());
    until("the end of the machine", || inits(&name).is_empty().then_some(())).await;
    for group in cgroups(&name) {
        fs::create_dir_all(group.join("kubepods/pod")).unwrap();
        // Like a kubelet with v2. Without such a controller nothing is delegated.
        let _ = fs::write(group.join("cgroup.subtree_control"), "+hugetlb");
    }
    assert!(other.status(&call, &request).await.is_ok(), "an exited machine still exists");
    other.create(&call, &request).await.unwrap();
    assert_eq!(inits(&name).len(), 1);
    assert_ne!(inits(&name), init);
    other.delete(&call, &request).await.unwrap();
    assert_eq!(other.status(&call, &request).await.unwrap_err().code(), Code::NotFound);
}

/// Deletes a frozen machine, and checks that nothing is left.
async fn freeze_and_delete() {
    let (fixture, call) = (Fixture::new(), Call::default());
    let name = machine("frozen");
    let request = fixture.request(&name);
    let before = fixture.traces();
    let driver = Fixture::driver();
    driver.create(&call, &request).await.unwrap();
    until("the user data", || fixture.home(&name).join("upper/mounts").exists().then_some(())).await;
    let mut frozen = 0;
    for group in cgroups(&name) {
        for (file, word) in [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")] {
            if group.join(file).exists() {
                fs::write(group.join(file), word).unwrap();
                frozen += 1;
            }
        }
    }
    assert_eq!(frozen, 1, "one hierarchy has a freezer");
    assert_eq!(inits(&name).len(), 1);
    driver.delete(&call, &request).await.unwrap();
    assert_eq!(fixture.traces(), before);
}

/// Shows HST-11.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_machine_is_deleted() {
    if inside("life::a_frozen_machine_is_deleted") {
        freeze_and_delete().await;
    }
}

/// The mount namespace of this test contains only a hierarchy of version 2. If the controllers are in version 1, it has
/// none, but the rest can be tested: a separate root for the machine, a leaf for its processes, a freezer.
/// Shows HST-10.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_created_and_deleted_with_cgroups_v2() {
    if !inside("life::a_machine_is_created_and_deleted_with_cgroups_v2") {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = |kind: &str| -> Vec<String> {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields.filter(|fields| fields[2] == kind).map(|fields| fields[1].to_owned()).collect()
    };
    if points("cgroup2").is_empty() {
        println!("skipped: a_machine_is_created_and_deleted_with_cgroups_v2: this host has no hierarchy of version 2");
        return;
    }
    for point in points("cgroup") {
        assert!(std::process::Command::new("umount").arg(point).status().unwrap().success());
    }
    freeze_and_delete().await;
    end_and_start_again().await;
}

/// Shows HST-2.
#[tokio::test(flavor = "multi_thread")]
async fn missing_requirements_are_reported_before_any_change() {
    if !inside("life::missing_requirements_are_reported_before_any_change") {
        return;
    }
    let (fixture, call) = (Fixture::new(), Call::default());
    let before = fixture.traces();
    for (field, value, told) in [
        ("bridge", "br9", "the host has no bridge br9. Create it: ip link add br9 type bridge"),
        ("rootImage", "/nowhere", "/nowhere is not a root image, because it has no bin/sh"),
    ] {
        let mut class = fixture.class("shoot");
        class.provider_spec[field] = value.into();
        let error = Fixture::driver().create(&call, &fixture.request_of(class, "m")).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.message().contains(told), "{error}");
    }
    assert_eq!(fixture.traces(), before);
}
