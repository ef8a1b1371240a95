//! Effects of the limiter, the MachineClass and the bootstrap token.

use std::time::Duration;

use api::{Code, MachinePhase};
use serde_json::json;

use super::super::*;
use super::fixture::{MachineFixture, read};
use crate::limiter::Refusal;

/// Returns a Machine whose VM was queried, of a MachineClass without capacity.
fn held_back() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "no room in zone a".into() });
    fixture.settle();
    fixture
}

/// Shows LIM-6.
#[test]
fn waiting_machine_shows_the_code_of_the_failed_creation() {
    let mut fixture = held_back();
    let operation = &fixture.machine().status.last_operation;
    assert_eq!(operation.error_code, "ResourceExhausted");
    assert_eq!(
        operation.description,
        "Cloud provider message - machine codes error: code = [ResourceExhausted] message = [waiting, because creation \
         of another Machine of the MachineClass failed: no room in zone a]"
    );
    assert_eq!(*fixture.phase(), api::MachinePhase::CrashLoopBackOff);
    assert_eq!((fixture.created, fixture.emitted.as_slice()), (0, &["DriverError"][..]));
    assert_eq!(fixture.plan().because, Reason::CapacityExhausted { code: Code::ResourceExhausted });
    assert!(fixture.plan().steps.is_empty(), "reported once");
    fixture.refusal = None;
    fixture.settle();
    assert_eq!(fixture.created, 1);
}

/// Shows LIM-6.
#[test]
fn failed_machine_waits_for_the_next_attempt_like_others() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound]; // used from the end: the query, then the create call
    fixture.settle();
    fixture.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "full".into() });
    fixture.wait(std::time::Duration::from_mins(11));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "it does not even ask: {:?}", plan.steps);
    assert_eq!(plan.because, Reason::CapacityExhausted { code: Code::ResourceExhausted });
}

#[test]
fn waiting_machine_can_be_deleted() {
    let mut fixture = held_back();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows LIM-11.
#[test]
fn no_vm_is_created_before_its_class_has_the_finalizer() {
    let mut fixture = MachineFixture::new();
    let free = json!({ "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {} });
    fixture.class = Presence::Present(read(free.clone()));
    fixture.settle();
    let plan = fixture.plan();
    assert_eq!((fixture.created, &plan.because), (0, &Reason::ClassFinalizerMissing("c".into())));
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
fn no_vm_is_created_from_an_invalid_class() {
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
fn token_is_deleted_when_the_machine_has_joined() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.token = TokenRecord::Made;
    fixture.register("True");
    fixture.settle();
    assert_eq!(fixture.token, TokenRecord::Gone);
    let at = |text: &str| fixture.history.iter().position(|line| line.contains(text)).unwrap();
    assert!(at("Running") < at("delete the bootstrap token"), "{:#?}", fixture.history);
}

/// Returns a Running Machine whose token could not be deleted when it joined.
fn token_not_removed(refused_removals: usize) -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    (fixture.token, fixture.refused_removals) = (TokenRecord::Made, refused_removals);
    fixture.register("True");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "Running despite the failed deletion of the token");
    fixture.forget();
    fixture
}

/// Shows MC-W57.
#[test]
fn failed_token_deletion_is_retried_with_backoff() {
    let mut fixture = token_not_removed(4);
    let mut pauses = Vec::new();
    while fixture.token != TokenRecord::Gone {
        let Wake::By { at, .. } = fixture.plan().wake else { panic!("no wake-up: {:?}", fixture.plan()) };
        assert!(!fixture.reconcile(), "an earlier wake-up changes nothing: {:#?}", fixture.history);
        pauses.push(at.duration_since(fixture.now).as_millis());
        fixture.now = at;
        fixture.reconcile();
        assert_eq!(fixture.history, ["delete the bootstrap token"]);
        fixture.forget();
    }
    let whole = [5000, 10_000, 20_000, 40_000];
    assert_eq!(pauses.len(), whole.len());
    assert!(pauses.iter().zip(whole).all(|(pause, whole)| (whole * 3 / 4..=whole).contains(pause)), "{pauses:?}");
    fixture.settle();
    assert!(fixture.history.is_empty(), "a token that is gone is not removed again: {:#?}", fixture.history);
}

#[test]
fn expired_token_is_not_deleted() {
    let mut fixture = token_not_removed(1);
    let wake = MachineFixture::running().plan().wake;
    assert_ne!(fixture.plan().wake, wake);
    let made_until = super::super::facts::later(fixture.now, fixture.policy.creation_timeout * 2);
    fixture.token = TokenRecord::NotRemoved { attempts: 9, at: made_until };
    fixture.now = super::super::facts::later(made_until, Duration::from_mins(1));
    fixture.settle();
    assert!(fixture.history.is_empty(), "{:#?}", fixture.history);
    assert_eq!(fixture.plan().wake, wake, "no wait");
    fixture.delete();
    fixture.settle();
    assert!(
        fixture.history.contains(&"delete the bootstrap token".to_owned()),
        "the end of the Machine is the last attempt"
    );
}

#[test]
fn token_is_deleted_before_the_finalizer_is_removed() {
    for token in [TokenRecord::Made, TokenRecord::Unknown] {
        let mut fixture = MachineFixture::new();
        fixture.settle();
        fixture.token = token;
        fixture.delete();
        fixture.settle();
        assert!(fixture.machine.is_none());
        let last: Vec<_> = fixture.history.iter().rev().take(2).rev().map(String::as_str).collect();
        assert_eq!(last, ["delete the bootstrap token", "remove the finalizer"], "{token:?}: {:#?}", fixture.history);
    }
}

#[test]
fn token_of_an_old_machine_is_not_looked_up() {
    let mut fixture = MachineFixture::running();
    fixture.token = TokenRecord::Unknown;
    fixture.wait(std::time::Duration::from_hours(1));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert!(fixture.history.iter().all(|line| !line.contains("token")), "{:#?}", fixture.history);
}
