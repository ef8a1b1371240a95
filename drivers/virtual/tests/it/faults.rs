//! Tests of injected faults and of the effects of the faulty calls.

use driver::{Call, Code, Driver, Method};
use driver_virtual::{CallEnd, Config, Doubles, Fault, Quotas, Script};
use rstest::rstest;
use tokio::time::Instant;

use crate::bench::{Environment, SECOND};

/// Shows VIR-4.
#[tokio::test(start_paused = true)]
async fn next_creates_fail_as_scripted_and_create_nothing() {
    let environment = Environment::new(Config::default());
    environment.cloud.inject(Script::next(Method::Create, Fault::Fail(Code::ResourceExhausted)).times(2));
    for _ in 0..2 {
        assert_eq!(environment.create("m").await.unwrap_err().code(), Code::ResourceExhausted);
        assert!(environment.cloud.vms().is_empty());
    }
    environment.create("m").await.unwrap();
    assert_eq!(environment.cloud.vms().len(), 1);
}

/// Shows VIR-6.
#[rstest]
#[case(Doubles::Prevented, 1)]
#[case(Doubles::Allowed, 2)]
#[tokio::test(start_paused = true)]
async fn lost_response_leaves_a_vm_and_shows_duplicate_handling(#[case] doubles: Doubles, #[case] vms: usize) {
    let environment = Environment::new(Config { doubles, ..Config::default() });
    environment.cloud.inject(Script::next(Method::Create, Fault::LoseAnswer(Code::Unavailable)));
    assert_eq!(environment.create("m").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(environment.cloud.vms_of("m").len(), 1);
    environment.create("m").await.unwrap();
    assert_eq!(environment.cloud.vms_of("m").len(), vms);
}

/// Shows VIR-4.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_after_its_effect_has_had_it() {
    let environment = Environment::new(Config::default());
    environment.cloud.inject(Script::next(Method::Create, Fault::HangAfterEffect));
    let request = environment.request("m", "");
    let error = environment.cloud.create(&Call::within(5 * SECOND), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert_eq!(environment.cloud.vms_of("m").len(), 1);
}

/// Shows VIR-4.
#[tokio::test(start_paused = true)]
async fn a_delayed_call_takes_that_much_longer() {
    let environment = Environment::new(Config::default());
    environment.cloud.inject(Script::next(Method::Create, Fault::Delay(30 * SECOND)));
    let begun = Instant::now();
    environment.create("m").await.unwrap();
    assert_eq!(begun.elapsed(), 30 * SECOND);
}

/// Shows VIR-4.
#[tokio::test(start_paused = true)]
async fn same_seed_has_the_same_result() {
    let day = || async {
        let environment = Environment::new(Config::default());
        environment.cloud.inject(Script::always(Fault::Fail(Code::Internal)).with_chance(0.5));
        let mut course = Vec::new();
        for i in 0..20 {
            course.push(environment.create(&format!("m{i}")).await.map(|made| made.provider_id).map_err(|e| e.code()));
        }
        course
    };
    let (one, two) = (day().await, day().await);
    assert_eq!(one, two);
    assert!(one.iter().any(Result::is_ok) && one.iter().any(Result::is_err));
}

/// Shows VIR-3.
#[tokio::test(start_paused = true)]
async fn class_quota_leaves_capacity_for_other_classes() {
    let environment = Environment::new(Config::default()).with_spec(serde_json::json!({ "quota": 1 }));
    environment.create("a").await.unwrap();
    assert_eq!(environment.create("b").await.unwrap_err().code(), Code::ResourceExhausted);
    environment.create("a").await.expect("a machine with a VM needs no quota");

    let environment = environment.with_spec(serde_json::json!({}));
    environment.create("b").await.unwrap();
    let of_class = [("shoot/small".to_owned(), 2)].into();
    environment.cloud.set_quotas(Quotas { total: None, per_class: of_class });
    assert_eq!(environment.create("c").await.unwrap_err().code(), Code::ResourceExhausted);
    environment.delete("a").await.unwrap();
    environment.create("c").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_and_remembered_with_their_end() {
    let environment = Environment::new(Config::default());
    environment.create("m").await.unwrap();
    environment.status("absent").await.unwrap_err();
    environment.cloud.inject(Script::always(Fault::Hang));
    let _dropped = tokio::time::timeout(SECOND, environment.delete("m")).await;
    assert_eq!((environment.cloud.count(Method::Create), environment.cloud.count(Method::List)), (1, 0));
    let ends: Vec<_> =
        environment.cloud.calls().into_iter().map(|call| (call.method, call.machine, call.end)).collect();
    assert_eq!(
        ends,
        [
            (Method::Create, Some("m".into()), CallEnd::Answered(Code::Ok)),
            (Method::Status, Some("absent".into()), CallEnd::Answered(Code::NotFound)),
            (Method::Delete, Some("m".into()), CallEnd::Abandoned),
        ]
    );
}
