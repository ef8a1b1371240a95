//! Tests of error responses.

use std::sync::Arc;
use std::time::Duration;

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Instead, Rule};
use driver::{Call, CloudPressure, Code, Driver, DriverError, MachineRequest, MeterBuffer};
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use crate::memory::{
    Memory, create_and_initialize, known, on, request, secret_with, spec, spec_with_port_and_volume, with_secret,
};

/// Returns the error of each call for an invalid request.
async fn every_call(memory: &Memory, request: &MachineRequest) -> Vec<DriverError> {
    let (driver, call) = (memory.driver(), Call::default());
    let answers = [
        driver.create(&call, request).await.map(drop),
        driver.status(&call, request).await.map(drop),
        driver.initialize(&call, request).await.map(drop),
        driver.delete(&call, request).await.map(drop),
        driver.list(&call, &request.class_request()).await.map(drop),
    ];
    answers.into_iter().map(Result::unwrap_err).collect()
}

/// Shows OST-C5.
#[tokio::test(start_paused = true)]
async fn wrong_password_is_unauthenticated_with_advice() {
    let memory = Memory::new(Settings::default());
    let request = with_secret(&request(spec()), secret_with(&[("password", "hunter2")]));
    let error = memory.driver().create(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(error.message().contains("check the credentials in the Secret"), "{error}");
}

/// Shows OST-5.
#[tokio::test(start_paused = true)]
async fn revoked_token_is_replaced_and_the_request_is_retried() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec()));
    create_and_initialize(&driver, &request).await.unwrap();
    memory.asked();
    memory.with(|cloud, _| cloud.revoke_tokens());
    driver.status(&Call::default(), &request).await.unwrap();
    let asked = memory.asked();
    assert_eq!(asked.iter().filter(|asked| asked.contains("/auth/tokens")).count(), 1, "{asked:?}");
    driver.status(&Call::default(), &request).await.unwrap();
    assert!(memory.asked().iter().all(|asked| !asked.contains("/auth/tokens")), "the new token is cached");
}

/// Shows OST-5.
#[tokio::test(start_paused = true)]
async fn concurrent_calls_with_a_revoked_token_fetch_one_token() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec()));
    create_and_initialize(&driver, &request).await.unwrap();
    memory.with(|cloud, _| cloud.revoke_tokens());
    memory.asked();
    let call = Call::default();
    let (a, b, c) =
        tokio::join!(driver.status(&call, &request), driver.status(&call, &request), driver.status(&call, &request),);
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(memory.asked().iter().filter(|asked| asked.contains("/auth/tokens")).count(), 1);
}

/// Shows OST-5.
#[tokio::test(start_paused = true)]
async fn service_that_rejects_every_token_is_unauthenticated() {
    let memory = Memory::new(Settings::default());
    let refused = Instead::openstack(401, "The request you have made requires authentication.");
    memory.rule(Rule::next(Fault::AnsweredBefore(refused), |asked| asked.path.contains("/compute/")).always());
    let error = memory.driver().status(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(memory.asked().iter().filter(|asked| asked.contains("/compute/")).count(), 2);
}

/// Shows OST-9, OST-C5.
#[rstest]
#[case(
    "POST",
    "/servers",
    403,
    "Quota exceeded for cores: Requested 4, but already used 20 of 20 cores",
    Code::ResourceExhausted
)]
#[case(
    "POST",
    "/servers",
    403,
    "Policy doesn't allow os_compute_api:servers:create to be performed.",
    Code::PermissionDenied
)]
#[case("POST", "/servers", 413, "Quota exceeded", Code::ResourceExhausted)]
#[case("POST", "/servers", 400, "The requested availability zone is not available", Code::InvalidArgument)]
#[case("POST", "/servers", 409, "Port p is still in use.", Code::Aborted)]
#[case("POST", "/servers", 500, "Unexpected API Error.", Code::Unavailable)]
#[case("POST", "/servers", 503, "", Code::Unavailable)]
#[case(
    "POST",
    "/volumes",
    413,
    "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota.",
    Code::ResourceExhausted
)]
#[case("POST", "/ports", 409, "No more IP addresses available on network net-1.", Code::ResourceExhausted)]
#[case("GET", "/servers/detail", 504, "", Code::Unavailable)]
#[case("POST", "/tokens", 500, "", Code::Unavailable)]
#[tokio::test(start_paused = true)]
async fn rejected_create_has_its_code_and_is_cleaned_up(
    #[case] method: &'static str,
    #[case] path: &'static str,
    #[case] status: u16,
    #[case] message: &str,
    #[case] code: Code,
) {
    let memory = Memory::new(Settings::default());
    let refused = Fault::AnsweredBefore(Instead::openstack(status, message));
    memory.rule(on(method, path, refused).times(if method == "GET" { 3 } else { 1 }));
    let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
    let error = driver.create(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    let left = memory.count();
    let transient = matches!(code, Code::Unavailable | Code::Aborted);
    assert!(transient || left == crate::memory::NOTHING, "{left:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    create_and_initialize(&driver, &request).await.unwrap();
    assert_eq!(memory.count(), crate::memory::ONE_EACH);
}

/// Shows OST-10, OST-C5.
#[rstest]
#[case(429)]
#[case(413)]
#[tokio::test(start_paused = true)]
async fn throttled_project_sends_fewer_requests(#[case] status: u16) {
    let memory = Memory::new(Settings::default());
    let (driver, kept) = (memory.driver(), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    for _ in 0..6 {
        let often = Instead::openstack(status, "This request was rate-limited.").retry_after(7);
        memory.rule(on("GET", "/servers/detail", Fault::AnsweredBefore(often)).times(3));
        let error = driver.status(&call, &request(spec())).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().contains("requests per second"), "{error}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(kept.take_pressure().contains(&CloudPressure::Rate(Some(16.0))));
    let begun = Instant::now();
    for _ in 0..3 {
        driver.status(&call, &request(spec())).await.unwrap_err();
    }
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Shows OST-13.
#[tokio::test(start_paused = true)]
async fn create_waits_through_an_outage_of_nova() {
    let memory = Memory::new(Settings { builds_for: Duration::from_secs(30), ..Settings::default() });
    let driver = memory.driver();
    let down = Fault::AnsweredBefore(Instead::openstack(503, ""));
    let mut seen = 0;
    memory.rule(
        Rule::next(down, move |asked| {
            seen += usize::from(asked.method == "GET" && asked.path.contains("/servers/detail"));
            (2..6).contains(&seen)
        })
        .always(),
    );
    create_and_initialize(&driver, &request(spec_with_port_and_volume())).await.unwrap();
    assert_eq!(memory.count(), crate::memory::ONE_EACH);
}

/// Shows OST-22.
#[rstest]
#[case(503, None, 3)]
#[case(500, None, 3)]
#[case(429, None, 3)]
#[case(429, Some(5), 3)]
#[case(429, Some(60), 1)]
#[case(403, None, 1)]
#[tokio::test(start_paused = true)]
async fn read_is_sent_up_to_three_times(#[case] status: u16, #[case] retry_after: Option<u32>, #[case] most: u32) {
    let refused = |times: u32| {
        let memory = Memory::new(Settings::default());
        let instead = Instead { retry_after, ..Instead::openstack(status, "unavailable") };
        memory.rule(on("GET", "/servers/detail", Fault::AnsweredBefore(instead)).times(times));
        memory
    };
    create_and_initialize(&refused(most - 1).driver(), &request(spec())).await.unwrap();
    let memory = refused(most);
    memory.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    let sent = memory.asked().iter().filter(|asked| asked.starts_with("GET")).count();
    assert_eq!(sent, most as usize);
}

/// Shows OST-22.
#[tokio::test(start_paused = true)]
async fn read_is_retried_after_a_reset_and_a_write_is_not() {
    let memory = Memory::new(Settings::default());
    memory.rule(on("GET", "/servers/detail", Fault::ResetBefore).times(2));
    create_and_initialize(&memory.driver(), &request(spec())).await.unwrap();
    let memory = Memory::new(Settings::default());
    memory.rule(on("POST", "/servers", Fault::ResetBefore));
    let error = memory.driver().create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!((error.code(), memory.count().servers), (Code::Unavailable, 0));
}

/// Shows OST-20.
#[rstest]
#[case::credential(
    r#"{"error": {"code": 404, "message": "Could not find Application Credential: ac-1.", "title": "Not Found"}}"#,
    404
)]
#[case::expired(r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#, 401)]
#[tokio::test(start_paused = true)]
async fn deleted_application_credential_is_unauthenticated(#[case] body: &str, #[case] status: u16) {
    let memory = Memory::new(Settings::default());
    let instead = Instead { body: body.to_owned(), ..Instead::openstack(status, "") };
    memory.rule(on("POST", "/tokens", Fault::AnsweredBefore(instead)));
    let error = memory.driver().status(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    let words = if status == 404 { "Could not find Application Credential" } else { "HTTP 401 Unauthorized" };
    assert!(error.message().contains(words), "{error}");
    assert!(error.message().contains("check the credentials in the Secret"), "{error}");
}

/// Shows OST-2.
#[tokio::test(start_paused = true)]
async fn invalid_input_is_rejected_before_any_request() {
    let memory = Memory::new(Settings::default());
    let good = request(spec());
    let bad_secret = with_secret(&good, secret_with(&[("password", ""), ("insecure", "maybe")]));
    let mut bad_spec = spec();
    bad_spec["spec"]["region"] = json!(7);
    for request in [bad_secret, request(bad_spec), request(json!("text"))] {
        for error in every_call(&memory, &request).await {
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        }
    }
    let odd = known(&good, "openstack:///RegionOne/");
    assert_eq!(memory.driver().delete(&Call::default(), &odd).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(memory.asked().is_empty());
    let large = "x".repeat(49150);
    let request = with_secret(&good, secret_with(&[("userData", &large)]));
    let error = memory.driver().create(&Call::default(), &request).await.unwrap_err();
    assert!(error.message().contains("has 49150 bytes; Nova accepts at most 49149"), "{error}");
}
