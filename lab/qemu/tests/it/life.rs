//! A running machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;

use cloud_fakes::one_host::OneHost as _;
use driver::{Call, Code, Driver as _};

use crate::fixture::{Fixture, processes};

/// Sends a command to a machine's qemu.
fn ask(fixture: &Fixture, machine: &str, command: &str) -> String {
    let stream = UnixStream::connect(fixture.home(machine).join("qmp.sock")).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    for command in ["qmp_capabilities", command] {
        writeln!(writer, "{{\"execute\": \"{command}\"}}").unwrap();
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    line
}

/// Shows HST-25.
#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_has_a_private_disk_and_monitor() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = "a_virtual_machine_has_a_private_disk_and_monitor";
    let Some(fixture) = Fixture::new(test) else { return };
    // The longest possible name: the path of the socket exceeds the limit of socket paths.
    let name = "m".repeat(63);
    let made = Fixture::driver().create(&Call::default(), &fixture.request(&name)).await.unwrap();
    assert_eq!(made.provider_id, format!("qemu:///shoot/{name}").as_str());
    let home = fixture.home(&name);
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    let said = Command::new("qemu-img").args(["info", "--force-share"]).arg(home.join("disk.qcow2")).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("backing file: "), "{said:?}");
    assert_eq!(processes(&home).len(), 1);
    Fixture::driver().delete(&Call::default(), &fixture.request(&name)).await.unwrap();
    assert!(fixture.traces().is_empty(), "{:?}", fixture.traces());
}

/// Shows HST-24.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_qemu_driver_finds_vms_and_restarts_powered_off_ones() {
    let test = "a_new_qemu_driver_finds_vms_and_restarts_powered_off_ones";
    let Some(fixture) = Fixture::new(test) else { return };
    let (call, request) = (Call::default(), fixture.request("m"));
    Fixture::driver().create(&call, &request).await.unwrap();
    let first = processes(&fixture.home("m"));
    let other = Fixture::driver();
    assert!(other.status(&call, &request).await.is_ok());
    other.create(&call, &request).await.unwrap();
    assert_eq!(processes(&fixture.home("m")), first, "the machine must not be restarted");
    assert!(ask(&fixture, "m", "query-status").contains("prelaunch"));

    ask(&fixture, "m", "quit");
    while !processes(&fixture.home("m")).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(other.status(&call, &request).await.is_ok(), "a machine that is powered off still exists");
    other.create(&call, &request).await.unwrap();
    let second = processes(&fixture.home("m"));
    assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
    other.delete(&call, &request).await.unwrap();
    assert_eq!(other.status(&call, &request).await.unwrap_err().code(), Code::NotFound);
}

/// Shows HST-24.
#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_killed_after_the_shutdown_timeout() {
    let test = "a_virtual_machine_is_killed_after_the_shutdown_timeout";
    let Some(fixture) = Fixture::new(test) else { return };
    let mut class = fixture.class("shoot");
    class.provider_spec["powerOffSeconds"] = 1.into();
    let (call, request) = (Call::default(), fixture.request_of(class, "m"));
    Fixture::driver().create(&call, &request).await.unwrap();
    let begin = tokio::time::Instant::now();
    Fixture::driver().delete(&call, &request).await.unwrap();
    let took = begin.elapsed().as_millis();
    assert!((1000..20_000).contains(&took), "the paused machine must be killed after one second: {took} ms");
    assert!(fixture.traces().is_empty(), "{:?}", fixture.traces());
}

/// Shows HST-21.
#[tokio::test(flavor = "multi_thread")]
async fn missing_requirements_are_reported_before_any_change() {
    let test = "missing_requirements_are_reported_before_any_change";
    let Some(fixture) = Fixture::new(test) else { return };
    let mut class = fixture.class("shoot");
    class.provider_spec["image"] = "/nowhere".into();
    let error = Fixture::driver().create(&Call::default(), &fixture.request_of(class, "m")).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::FailedPrecondition, "providerSpec.image: /nowhere is not a file on this host")
    );
    let settings = lab_qemu::Settings { path: "/nowhere".into(), boot: lab_qemu::Boot::Paused };
    let bare = lab_qemu::QemuDriver::new(settings).create(&Call::default(), &fixture.request("m")).await.unwrap_err();
    assert_eq!(bare.code(), Code::FailedPrecondition);
    assert!(bare.message().contains("install the package qemu-utils"), "{bare}");
    assert!(fixture.traces().is_empty(), "{:?}", fixture.traces());
}
