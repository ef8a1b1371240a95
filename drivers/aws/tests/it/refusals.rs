//! Tests of error responses.

use std::sync::Arc;
use std::time::Duration;

use cloud_fakes::ec2::{Befalls, Refusal, Script, Settings};
use driver::{Call, CloudPressure, Code, Driver, MeterBuffer, Reply};
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use crate::memory::{Memory, every_call, known, request, spec, spec_with, with_spec};

/// Shows AWS-23.
#[tokio::test(start_paused = true)]
async fn no_capacity_blocks_the_subnet_for_its_class_only() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    memory.with(|cloud, _| cloud.script(Script::refuse("RunInstances", 500, "InsufficientInstanceCapacity")));
    let error = driver.create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    memory.asked();
    let held = driver.create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!((held.code(), memory.asked()), (Code::ResourceExhausted, vec!["DescribeInstances".to_owned()]));
    assert!(held.message().contains("InsufficientInstanceCapacity"), "{held}");
    let nic = json!([{ "subnetID": "subnet-2", "securityGroupIDs": ["sg-1"] }]);
    let elsewhere = with_spec(&request(spec()), spec_with(&json!({ "networkInterfaces": nic })));
    driver.create(&Call::default(), &elsewhere).await.unwrap();
}

/// Shows AWS-23, AWS-C5.
#[tokio::test(start_paused = true)]
async fn throttled_account_sends_fewer_requests() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    for _ in 0..6 {
        memory.with(|cloud, _| cloud.script(Script::refuse("DescribeInstances", 503, "RequestLimitExceeded").times(3)));
        let error = driver.status(&Call::default(), &request(spec())).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().contains("requests per second"), "{error}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let begun = Instant::now();
    for _ in 0..3 {
        driver.status(&Call::default(), &request(spec())).await.unwrap_err();
    }
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Shows AWS-23.
#[tokio::test(start_paused = true)]
async fn throttling_capacity_and_quota_are_reported_for_metrics() {
    let memory = Memory::new(Settings::default());
    let (driver, kept) = (memory.driver(), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    for (code, status) in
        [("RequestLimitExceeded", 503), ("InsufficientInstanceCapacity", 500), ("VcpuLimitExceeded", 400)]
    {
        memory.with(|cloud, _| cloud.script(Script::refuse("RunInstances", status, code)));
        driver.create(&call, &request(spec())).await.unwrap_err();
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let told = kept.take_pressure();
    assert!(told.contains(&CloudPressure::Rate(Some(16.0))), "{told:?}");
    assert!(told.contains(&CloudPressure::NoCapacity("subnet-1".into())), "{told:?}");
    assert!(told.contains(&CloudPressure::Quota("vCPUs of running instances".into())), "{told:?}");
    for _ in 0..800 {
        driver.status(&call, &request(spec())).await.unwrap_err();
        kept.take();
        if kept.take_pressure().contains(&CloudPressure::Rate(None)) {
            return;
        }
    }
    panic!("the account never recovered");
}

/// Shows AWS-24, AWS-C5.
#[rstest]
#[case("AuthFailure", 401, Code::Unauthenticated, "check the credentials")]
#[case("RequestExpired", 400, Code::Unauthenticated, "check the clock")]
#[case("ExpiredToken", 400, Code::Unauthenticated, "expired")]
#[case("UnauthorizedOperation", 403, Code::PermissionDenied, "check the policies")]
#[tokio::test(start_paused = true)]
async fn configuration_error_is_reported_with_advice(
    #[case] refusal: &str,
    #[case] status: u16,
    #[case] code: Code,
    #[case] advice: &str,
) {
    let memory = Memory::new(Settings::default());
    memory.with(|cloud, _| cloud.script(Script::refuse("DescribeInstances", status, refusal)));
    let error = memory.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), code);
    assert!(error.message().contains(advice), "{error}");
}

/// Shows CLD-13.
#[rstest]
#[case("DescribeInstances", 503, "RequestLimitExceeded", 3)]
#[case("DescribeInstances", 503, "ServiceUnavailable", 3)]
#[case("DescribeInstances", 500, "InternalError", 3)]
#[case("DescribeInstances", 403, "UnauthorizedOperation", 1)]
#[case("RunInstances", 503, "RequestLimitExceeded", 1)]
#[case("RunInstances", 500, "InternalError", 1)]
#[tokio::test(start_paused = true)]
async fn reads_are_sent_up_to_three_times_and_writes_once(
    #[case] action: &'static str,
    #[case] status: u16,
    #[case] code: &str,
    #[case] most: u32,
) {
    let times = |times: u32| {
        let memory = Memory::new(Settings::default());
        memory.with(|cloud, _| cloud.script(Script::refuse(action, status, code).times(times)));
        memory
    };
    let survived = times(most - 1);
    survived.driver().create(&Call::default(), &request(spec())).await.unwrap();
    let failed = times(most);
    failed.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    let sent = failed.asked().iter().filter(|asked| *asked == action).count();
    assert_eq!((sent, survived.alive()), (if action == "RunInstances" { 1 } else { most as usize }, 1));
}

/// Shows AWS-24.
#[tokio::test(start_paused = true)]
async fn unknown_access_key_is_unauthenticated() {
    let known = Some(["AKIA2".to_owned()].into());
    let memory = Memory::new(Settings { access_keys: known, ..Settings::default() });
    let error = memory.driver().status(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
}

/// Shows AWS-11.
#[tokio::test(start_paused = true)]
async fn secret_repeated_by_the_cloud_is_redacted() {
    let memory = Memory::new(Settings::default());
    let refusal = Refusal::new("AuthFailure", "no key hunter2 here. The Canonical String for this request was hunter2");
    memory.with(|cloud, _| cloud.script(Script::everything(Befalls::Refused(refusal))));
    for error in every_call(
        &memory,
        &known(&request(spec_with(&json!({ "srcAndDstChecksEnabled": false }))), "aws:///eu-west-1/i-1"),
    )
    .await
    {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("/bin/sh"), "{shown}");
    }
}

/// Shows AWS-22.
#[tokio::test(start_paused = true)]
async fn requests_are_counted_under_the_labels_of_the_reference() {
    let memory = Memory::new(Settings::default());
    let (driver, kept) = (memory.driver(), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    let spec = spec_with(&json!({ "srcAndDstChecksEnabled": false }));
    let made = driver.create(&call, &request(spec.clone())).await.unwrap();
    let known = known(&request(spec), made.provider_id.as_str());
    driver.initialize(&call, &known).await.unwrap();
    driver.delete(&call, &known).await.unwrap();
    driver.list(&call, &known.class_request()).await.unwrap();
    let told = kept.take();
    assert!(told.iter().all(|asked| asked.reply == Reply::Success));
    let words: Vec<_> = told.iter().map(|asked| asked.service.as_str()).collect();
    assert_eq!(
        words,
        [
            "instance_get_by_machine",
            "image_get_by_id",
            "instance_create",
            "instance_get_by_id",
            "instance_get_by_machine",
            "instance_disable_source_dest_check",
            "instance_get_by_id",
            "instance_terminate",
            "instance_get_by_tag_and_status",
        ]
    );
}
