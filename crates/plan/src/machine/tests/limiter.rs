//! What the limiter, the class and the token mean for a machine.

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

#[test]
fn a_token_that_could_not_be_removed_is_tried_again_with_the_next_look() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    (fixture.token, fixture.refused_removals) = (TokenRecord::Made, 3);
    fixture.register("True");
    fixture.reconcile();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "it runs although its token could not be removed");
    assert_eq!(fixture.diary.last().unwrap(), "remove its bootstrap token", "the first attempt: {:#?}", fixture.diary);
    for attempt in 2..4 {
        fixture.forget();
        fixture.reconcile();
        assert_eq!(fixture.diary, ["remove its bootstrap token"], "attempt {attempt}");
        assert_eq!(fixture.token, TokenRecord::Made);
    }
    fixture.settle();
    assert_eq!(fixture.token, TokenRecord::Gone);
    fixture.forget();
    fixture.settle();
    assert!(fixture.diary.is_empty(), "a token that is gone is not removed again: {:#?}", fixture.diary);
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
