//! Tests of delete.

use cloud_fakes::ec2::{Planted, Script, Settings, State};
use driver::{Call, Code, Driver};
use serde_json::json;

use crate::memory::{MACHINE, Memory, known, request, spec, with_secret, with_spec};

/// Shows AWS-15.
#[tokio::test(start_paused = true)]
async fn delete_takes_two_requests_and_one_without_an_instance() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    memory.asked();
    for request in [known(&request(spec()), made.provider_id.as_str()), request(spec())] {
        driver.delete(&Call::default(), &request).await.unwrap();
    }
    assert_eq!(memory.asked(), ["DescribeInstances", "TerminateInstances", "DescribeInstances"]);
    assert_eq!(memory.alive(), 0);
}

/// Shows AWS-32.
#[tokio::test(start_paused = true)]
async fn delete_terminates_an_instance_that_ec2_does_not_show_yet() {
    let memory = Memory::new(Settings { shows_after: std::time::Duration::from_mins(1), ..Settings::default() });
    let id = memory.with(|cloud, now| cloud.plant(now, Planted::default()));
    let request = known(&request(spec()), &format!("aws:///eu-west-1/{id}"));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.asked(), ["DescribeInstances", "TerminateInstances"]);
    assert_eq!(memory.with(|cloud, now| cloud.state(now, &id)), Some(State::Terminated));
}

/// Shows AWS-32.
#[tokio::test(start_paused = true)]
async fn delete_succeeds_if_ec2_does_not_know_the_id_at_all() {
    let memory = Memory::new(Settings::default());
    let request = known(&request(spec()), "aws:///eu-west-1/i-0123456789abcdef0");
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.asked(), ["DescribeInstances", "TerminateInstances"]);
}

/// Shows AWS-32.
#[tokio::test(start_paused = true)]
async fn delete_of_a_terminated_instance_terminates_nothing() {
    for cluster in ["kubernetes.io/cluster/shoot", "kubernetes.io/cluster/theirs"] {
        let memory = Memory::new(Settings::default());
        let tags = [(cluster.to_owned(), "1".to_owned())].into();
        let id = memory.with(|cloud, now| cloud.plant(now, Planted { tags }));
        memory.with(|cloud, now| cloud.reclaim(now, &id));
        let request = known(&request(spec()), &format!("aws:///eu-west-1/{id}"));
        memory.driver().delete(&Call::default(), &request).await.unwrap();
        assert_eq!(memory.asked(), ["DescribeInstances"]);
    }
}

/// Shows AWS-W8.
#[tokio::test(start_paused = true)]
async fn delete_works_with_a_class_that_is_invalid_for_create() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    let broken = json!({ "region": "eu-west-1", "iam": 7, "tags": spec()["tags"] });
    let bare = [("accessKeyID", "AKIA1"), ("secretAccessKey", "k")].into_iter().collect();
    let request = with_secret(&with_spec(&known(&request(spec()), made.provider_id.as_str()), broken), bare);
    driver.status(&Call::default(), &request).await.unwrap();
    driver.delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.alive(), 0);
}

/// Shows AWS-20.
#[tokio::test(start_paused = true)]
async fn instance_of_another_cluster_is_not_terminated() {
    let memory = Memory::new(Settings::default());
    let tags = [("kubernetes.io/cluster/theirs".to_owned(), "1".to_owned())].into();
    let id = memory.with(|cloud, now| cloud.plant(now, Planted { tags }));
    let request = known(&request(spec()), &format!("aws:///eu-west-1/{id}"));
    let error = memory.driver().delete(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(!memory.asked().contains(&"TerminateInstances".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn invalid_provider_id_is_rejected_without_a_request() {
    let memory = Memory::new(Settings::default());
    let error = memory.driver().delete(&Call::default(), &known(&request(spec()), "i-1")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(memory.asked().is_empty());
}

/// Shows AWS-29.
#[tokio::test(start_paused = true)]
async fn instance_that_vanishes_before_termination_is_deleted() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    memory.with(|cloud, _| cloud.script(Script::refuse("TerminateInstances", 400, "InvalidInstanceID.NotFound")));
    driver.delete(&Call::default(), &known(&request(spec()), made.provider_id.as_str())).await.unwrap();
}

/// Shows AWS-29.
#[tokio::test(start_paused = true)]
async fn one_vanished_instance_does_not_hide_the_others() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    driver.create(&Call::default(), &request(spec())).await.unwrap();
    let tags = [("kubernetes.io/cluster/shoot", ""), ("kubernetes.io/role/node", ""), ("Name", MACHINE)];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    memory.with(|cloud, now| cloud.plant(now, Planted { tags }));
    memory.with(|cloud, _| cloud.script(Script::refuse("TerminateInstances", 400, "InvalidInstanceID.NotFound")));
    let error = driver.delete(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!((error.code(), memory.alive()), (Code::Aborted, 2));
    driver.delete(&Call::default(), &request(spec())).await.unwrap();
    assert_eq!(memory.alive(), 0);
}
