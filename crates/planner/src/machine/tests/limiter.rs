//! What the limiter, the class and the token mean for a machine.

use std::time::Duration;

use api::{Code, MachinePhase};
use serde_json::json;

use super::super::*;
use super::fixture::{MachineFixture, read};
use crate::limiter::Refusal;

/// A machine that the cloud was asked about, of a class that is full.
fn held_back() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "no room in zone a".into() });
    fixture.settle();
    fixture
}

/// Shows LIM-6.
#[test]
fn a_machine_that_is_held_back_shows_the_code_of_the_one_that_was_refused() {
    let mut fixture = held_back();
    let operation = &fixture.machine().status.last_operation;
    assert_eq!(operation.error_code, "ResourceExhausted");
    assert_eq!(
        operation.description,
        "Cloud provider message - machine codes error: code = [ResourceExhausted] message = [held back, because another \
         machine of its class was refused: no room in zone a]"
    );
    assert_eq!(*fixture.phase(), api::MachinePhase::CrashLoopBackOff);
    assert_eq!((fixture.created, fixture.told.as_slice()), (0, &["DriverError"][..]));
    assert_eq!(fixture.plan().because, Reason::HeldBack { code: Code::ResourceExhausted });
    assert!(fixture.plan().steps.is_empty(), "it is said once");
    fixture.refusal = None;
    fixture.settle();
    assert_eq!(fixture.created, 1);
}

/// Shows LIM-6.
#[test]
fn the_one_that_was_refused_waits_for_the_next_try_like_the_others() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound]; // taken from the end: the question, then the create
    fixture.settle();
    fixture.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "full".into() });
    fixture.wait(std::time::Duration::from_mins(11));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "it does not even ask: {:?}", plan.steps);
    assert_eq!(plan.because, Reason::HeldBack { code: Code::ResourceExhausted });
}

#[test]
fn a_machine_that_is_held_back_can_be_deleted() {
    let mut fixture = held_back();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows LIM-11.
#[test]
fn no_vm_is_made_before_its_class_is_held() {
    let mut fixture = MachineFixture::new();
    let free = json!({ "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {} });
    fixture.class = Presence::Present(read(free.clone()));
    fixture.settle();
    let plan = fixture.plan();
    assert_eq!((fixture.created, &plan.because), (0, &Reason::ClassNotHeld("c".into())));
    assert!(matches!(plan.wake, Wake::By { awaited: Awaited::Class, .. }));

    let mut leaving = free;
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    fixture.class = Presence::Present(read(leaving));
    fixture.settle();
    assert!(fixture.text().contains("is being deleted"), "{}", fixture.text());
    assert_eq!(fixture.created, 0);
}

/// Shows LIM-11.
#[test]
fn no_vm_is_made_from_an_invalid_class_and_the_machine_says_why() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Present(read(json!({
        "metadata": { "name": "c", "namespace": "ns", "finalizers": [api::names::finalizers::MACHINE] },
        "providerSpec": {},
        "nodeTemplate": { "capacity": { "cpu": "1" }, "instanceType": "t", "region": "r", "zone": "" },
    })));
    fixture.settle();
    assert_eq!(fixture.created, 0);
    assert!(fixture.text().contains("nodeTemplate.zone"), "{}", fixture.text());
}

#[test]
fn the_token_goes_when_the_machine_has_joined_and_after_it_runs() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.token = TokenRecord::Made;
    fixture.register("True");
    fixture.settle();
    assert_eq!(fixture.token, TokenRecord::Gone);
    let at = |text: &str| fixture.diary.iter().position(|line| line.contains(text)).unwrap();
    assert!(at("Running") < at("remove its bootstrap token"), "{:#?}", fixture.diary);
}

/// A machine that runs and whose token could not be removed when it joined.
fn token_not_removed(refused_removals: usize) -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    (fixture.token, fixture.refused_removals) = (TokenRecord::Made, refused_removals);
    fixture.register("True");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "it runs although its token could not be removed");
    fixture.forget();
    fixture
}

/// Shows MC-W57.
#[test]
fn a_token_that_could_not_be_removed_is_tried_again_after_growing_pauses() {
    let mut fixture = token_not_removed(4);
    let mut pauses = Vec::new();
    while fixture.token != TokenRecord::Gone {
        let Wake::By { at, .. } = fixture.plan().wake else { panic!("nothing would wake it: {:?}", fixture.plan()) };
        assert!(!fixture.reconcile(), "whoever wakes it earlier changes nothing: {:#?}", fixture.diary);
        pauses.push(at.duration_since(fixture.now).as_millis());
        fixture.now = at;
        fixture.reconcile();
        assert_eq!(fixture.diary, ["remove its bootstrap token"]);
        fixture.forget();
    }
    let whole = [5000, 10_000, 20_000, 40_000];
    assert_eq!(pauses.len(), whole.len());
    assert!(pauses.iter().zip(whole).all(|(pause, whole)| (whole * 3 / 4..=whole).contains(pause)), "{pauses:?}");
    fixture.settle();
    assert!(fixture.diary.is_empty(), "a token that is gone is not removed again: {:#?}", fixture.diary);
}

#[test]
fn a_token_that_has_expired_is_not_removed_any_more() {
    let mut fixture = token_not_removed(1);
    let wake = MachineFixture::running().plan().wake;
    assert_ne!(fixture.plan().wake, wake);
    let made_until = super::super::facts::later(fixture.now, fixture.policy.creation_timeout * 2);
    fixture.token = TokenRecord::NotRemoved { attempts: 9, at: made_until };
    fixture.now = super::super::facts::later(made_until, Duration::from_mins(1));
    fixture.settle();
    assert!(fixture.diary.is_empty(), "{:#?}", fixture.diary);
    assert_eq!(fixture.plan().wake, wake, "nothing is waited for");
    fixture.delete();
    fixture.settle();
    assert!(fixture.diary.contains(&"remove its bootstrap token".to_owned()), "its end is the last attempt");
}

#[test]
fn the_token_of_a_machine_that_never_joined_goes_before_our_finalizer() {
    for token in [TokenRecord::Made, TokenRecord::Unknown] {
        let mut fixture = MachineFixture::new();
        fixture.settle();
        fixture.token = token;
        fixture.delete();
        fixture.settle();
        assert!(fixture.machine.is_none());
        let last: Vec<_> = fixture.diary.iter().rev().take(2).rev().map(String::as_str).collect();
        assert_eq!(last, ["remove its bootstrap token", "remove our finalizer"], "{token:?}: {:#?}", fixture.diary);
    }
}

#[test]
fn for_an_old_machine_no_token_is_looked_for() {
    let mut fixture = MachineFixture::running();
    fixture.token = TokenRecord::Unknown;
    fixture.wait(std::time::Duration::from_hours(1));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert!(fixture.diary.iter().all(|line| !line.contains("token")), "{:#?}", fixture.diary);
}
