//! Tests of create: one instance per machine, few requests.

use std::time::Duration;

use cloud_fakes::ec2::{Befalls, Refusal, Script, Settings};
use driver::{Call, Code, Driver};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::memory::{Memory, known, request, secret, spec, with_secret};

const SECOND: Duration = Duration::from_secs(1);

/// Shows AWS-15, AWS-W5.
#[tokio::test(start_paused = true)]
async fn create_takes_four_requests_and_three_for_a_known_image() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    assert_eq!(memory.asked(), ["DescribeInstances", "DescribeImages", "RunInstances", "DescribeInstances"]);
    assert!(made.provider_id.as_str().starts_with("aws:///eu-west-1/i-"), "{made:?}");
    assert!(made.node_name.as_str().ends_with("internal"), "{made:?}");
    memory.with(|cloud, now| cloud.reclaim(now, made.provider_id.as_str().rsplit('/').next().unwrap()));
    driver.create(&Call::default(), &request(spec())).await.unwrap();
    let asked = memory.asked();
    assert_eq!(asked.iter().filter(|action| *action == "DescribeImages").count(), 0);
    assert_eq!(memory.alive(), 1, "the token of a terminated instance is used up");
}

/// Shows AWS-W5, AWS-C3.
#[tokio::test(start_paused = true)]
async fn create_after_a_restart_returns_the_same_instance() {
    let memory = Memory::new(Settings { shows_after: 60 * SECOND, ..Settings::default() });
    interrupted(&memory).await;
    let made = memory.driver().create(&Call::default(), &request(spec())).await.unwrap();
    assert_eq!((made.provider_id.as_str(), memory.alive()), (only_id(&memory).as_str(), 1));
}

/// Interrupts a create after EC2 has created the instance and before EC2 shows it.
async fn interrupted(memory: &Memory) {
    let driver = memory.driver();
    let created = tokio::time::timeout(SECOND, driver.create(&Call::default(), &request(spec()))).await;
    assert!(created.is_err() && memory.alive() == 1);
}

/// Returns the provider id of the only instance.
fn only_id(memory: &Memory) -> String {
    memory.with(|cloud, _| {
        assert_eq!(cloud.instances().len(), 1);
        format!("aws:///eu-west-1/{}", cloud.instances()[0].id)
    })
}

/// Shows AWS-31.
#[tokio::test(start_paused = true)]
async fn create_waits_until_ec2_shows_the_instance() {
    let memory = Memory::new(Settings { shows_after: 20 * SECOND, ..Settings::default() });
    let (driver, request, begun) = (memory.driver(), request(spec()), Instant::now());
    let made = driver.create(&Call::default(), &request).await.unwrap();
    assert!((20 * SECOND..60 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let found = driver.status(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!((found.provider_id, found.node_name), (made.provider_id, made.node_name));
}

/// Shows AWS-31.
#[tokio::test(start_paused = true)]
async fn create_fails_if_ec2_does_not_show_the_instance_in_time() {
    let memory = Memory::new(Settings { shows_after: Duration::from_hours(1), ..Settings::default() });
    let begun = Instant::now();
    let error = memory.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!((error.code(), memory.alive()), (Code::Internal, 1));
    assert!(error.message().contains("EC2 did not show it"), "{error}");
    assert!(begun.elapsed() <= Duration::from_mins(5), "{:?}", begun.elapsed());
    let (call, begun) = (Call::within(30 * SECOND), Instant::now());
    let error = memory.driver().create(&call, &request(spec())).await.unwrap_err();
    assert!(begun.elapsed() <= 30 * SECOND, "{error}");
    assert_eq!(memory.alive(), 1);
}

/// Shows AWS-W5.
#[tokio::test(start_paused = true)]
async fn lost_response_after_the_launch_makes_no_second_instance() {
    let memory = Memory::new(Settings { shows_after: 10 * SECOND, ..Settings::default() });
    let lost = Befalls::RefusedAfterwards(Refusal::new("ServiceUnavailable", "m").with_status(503));
    memory.with(|cloud, _| cloud.script(Script::next("RunInstances", lost)));
    let driver = memory.driver();
    let error = driver.create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    driver.create(&Call::default(), &request(spec())).await.unwrap();
    assert_eq!(memory.alive(), 1);
}

/// Shows AWS-W5.
#[tokio::test(start_paused = true)]
async fn changed_user_data_finds_the_instance_of_the_earlier_request() {
    let memory = Memory::new(Settings { shows_after: 10 * SECOND, ..Settings::default() });
    interrupted(&memory).await;
    let mut changed = secret();
    changed.insert("userData", "another bootstrap token");
    let request = with_secret(&request(spec()), changed);
    let second = memory.driver().create(&Call::default(), &request).await.unwrap();
    assert_eq!((second.provider_id.as_str(), memory.alive()), (only_id(&memory).as_str(), 1));
}

/// Shows AWS-19, AWS-C8.
#[tokio::test(start_paused = true)]
async fn create_waits_for_a_late_dns_name() {
    let memory = Memory::new(Settings { named_after: 20 * SECOND, ..Settings::default() });
    let begun = Instant::now();
    let made = memory.driver().create(&Call::default(), &request(spec())).await.unwrap();
    assert!(!made.node_name.is_empty() && begun.elapsed() >= 20 * SECOND && begun.elapsed() < 60 * SECOND);
}

/// Shows AWS-19.
#[tokio::test(start_paused = true)]
async fn create_fails_without_a_dns_name_and_keeps_the_instance() {
    let memory = Memory::new(Settings { named_after: Duration::from_hours(1), ..Settings::default() });
    let error = memory.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!((error.code(), memory.alive()), (Code::Internal, 1));
    assert!(error.message().contains("private DNS name"), "{error}");
}

/// Shows AWS-W9.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_dns_name_ends_on_cancellation() {
    let memory = Memory::new(Settings { named_after: Duration::from_hours(1), ..Settings::default() });
    let token = CancellationToken::new();
    let (driver, call, request) = (memory.driver(), Call::default().canceled_by(token.clone()), request(spec()));
    let (answer, ()) = tokio::join!(driver.create(&call, &request), async {
        tokio::time::sleep(3 * SECOND).await;
        token.cancel();
    });
    assert_eq!(answer.unwrap_err().code(), Code::Canceled);
}

/// Shows AWS-18, AWS-C4.
#[tokio::test(start_paused = true)]
async fn two_instances_of_one_name_are_out_of_range() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    let tags = memory.with(|cloud, _| cloud.instances()[0].launch.clone());
    assert!(tags.get("ClientToken").is_some());
    memory.with(|cloud, now| {
        let tags =
            [("kubernetes.io/cluster/shoot", ""), ("kubernetes.io/role/node", ""), ("Name", crate::memory::MACHINE)];
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        cloud.plant(now, cloud_fakes::ec2::Planted { tags })
    });
    for error in [
        driver.create(&Call::default(), &request(spec())).await.map(drop).unwrap_err(),
        driver
            .status(&Call::default(), &known(&request(spec()), made.provider_id.as_str()))
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::OutOfRange);
        assert!(error.message().contains(made.provider_id.as_str().rsplit('/').next().unwrap()), "{error}");
    }
    assert_eq!(memory.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn disks_and_interfaces_follow_the_class() {
    let memory = Memory::new(Settings::default());
    let disk = |name: &str, kind: &str| json!({ "deviceName": name, "ebs": { "volumeSize": 7, "volumeType": kind, "iops": 300 } });
    let spec = crate::memory::spec_with(&json!({ "blockDevices": [disk("/root", "io1"), disk("/dev/sdb", "gp3")] }));
    memory.driver().create(&Call::default(), &request(spec)).await.unwrap();
    memory.with(|cloud, _| {
        let volumes = &cloud.instances()[0].volumes;
        assert_eq!(
            (volumes[0].device.as_str(), volumes[0].kind.as_str(), volumes[0].iops),
            ("/dev/sda1", "io1", Some(300))
        );
        assert_eq!(volumes[1].device, "/dev/sdb");
        assert_eq!(volumes[0].tags["Name"], crate::memory::MACHINE);
    });
}
