//! What the limiter, the class and the token mean for a machine.

use api::{Code, MachinePhase};
use serde_json::json;

use super::super::*;
use super::world::{World, read};
use crate::limiter::Refusal;

/// A machine that the cloud was asked about, of a class that is full.
fn held_back() -> World {
    let mut world = World::new();
    world.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "no room in zone a".into() });
    world.settle();
    world
}

#[test]
fn a_machine_that_is_held_back_shows_the_code_of_the_one_that_was_refused() {
    let mut world = held_back();
    let operation = &world.machine().status.last_operation;
    assert_eq!(operation.error_code, "ResourceExhausted");
    assert_eq!(
        operation.description,
        "Cloud provider message - machine codes error: code = [ResourceExhausted] message = [held back, because another \
         machine of its class was refused: no room in zone a]"
    );
    assert_eq!(*world.phase(), api::MachinePhase::CrashLoopBackOff);
    assert_eq!((world.created, world.told.as_slice()), (0, &["DriverError"][..]));
    assert_eq!(world.plan().because, Reason::HeldBack { code: Code::ResourceExhausted });
    assert!(world.plan().steps.is_empty(), "it is said once");
    world.refusal = None;
    world.settle();
    assert_eq!(world.created, 1);
}

#[test]
fn the_one_that_was_refused_waits_for_the_next_try_like_the_others() {
    let mut world = World::new();
    world.failures = vec![Code::ResourceExhausted, Code::NotFound]; // taken from the end: the question, then the create
    world.settle();
    world.refusal = Some(Refusal { code: Code::ResourceExhausted, message: "full".into() });
    world.wait(std::time::Duration::from_mins(11));
    let plan = world.plan();
    assert!(plan.steps.is_empty(), "it does not even ask: {:?}", plan.steps);
    assert_eq!(plan.because, Reason::HeldBack { code: Code::ResourceExhausted });
}

#[test]
fn a_machine_that_is_held_back_can_be_deleted() {
    let mut world = held_back();
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn no_vm_is_made_before_its_class_is_held() {
    let mut world = World::new();
    let free = json!({ "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {} });
    world.class = Presence::Present(read(free.clone()));
    world.settle();
    let plan = world.plan();
    assert_eq!((world.created, &plan.because), (0, &Reason::ClassNotHeld("c".into())));
    assert!(matches!(plan.wake, Wake::By { awaited: Awaited::Class, .. }));

    let mut leaving = free;
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.class = Presence::Present(read(leaving));
    world.settle();
    assert!(world.text().contains("is being deleted"), "{}", world.text());
    assert_eq!(world.created, 0);
}

#[test]
fn no_vm_is_made_from_an_invalid_class_and_the_machine_says_why() {
    let mut world = World::new();
    world.class = Presence::Present(read(json!({
        "metadata": { "name": "c", "namespace": "ns", "finalizers": [api::names::finalizers::MACHINE] },
        "providerSpec": {},
        "nodeTemplate": { "capacity": { "cpu": "1" }, "instanceType": "t", "region": "r", "zone": "" },
    })));
    world.settle();
    assert_eq!(world.created, 0);
    assert!(world.text().contains("nodeTemplate.zone"), "{}", world.text());
}

#[test]
fn the_token_goes_when_the_machine_has_joined_and_after_it_runs() {
    let mut world = World::new();
    world.settle();
    world.token = TokenRecord::Made;
    world.register("True");
    world.settle();
    assert_eq!(world.token, TokenRecord::Gone);
    let at = |text: &str| world.diary.iter().position(|line| line.contains(text)).unwrap();
    assert!(at("Running") < at("remove its bootstrap token"), "{:#?}", world.diary);
}

#[test]
fn a_token_that_could_not_be_removed_is_tried_again_with_the_next_look() {
    let mut world = World::new();
    world.settle();
    (world.token, world.refused_removals) = (TokenRecord::Made, 3);
    world.register("True");
    world.reconcile();
    assert_eq!(*world.phase(), MachinePhase::Running, "it runs although its token could not be removed");
    assert_eq!(world.diary.last().unwrap(), "remove its bootstrap token", "the first attempt: {:#?}", world.diary);
    for attempt in 2..4 {
        world.forget();
        world.reconcile();
        assert_eq!(world.diary, ["remove its bootstrap token"], "attempt {attempt}");
        assert_eq!(world.token, TokenRecord::Made);
    }
    world.settle();
    assert_eq!(world.token, TokenRecord::Gone);
    world.forget();
    world.settle();
    assert!(world.diary.is_empty(), "a token that is gone is not removed again: {:#?}", world.diary);
}

#[test]
fn the_token_of_a_machine_that_never_joined_goes_before_our_finalizer() {
    for token in [TokenRecord::Made, TokenRecord::Unknown] {
        let mut world = World::new();
        world.settle();
        world.token = token;
        world.delete();
        world.settle();
        assert!(world.machine.is_none());
        let last: Vec<_> = world.diary.iter().rev().take(2).rev().map(String::as_str).collect();
        assert_eq!(last, ["remove its bootstrap token", "remove our finalizer"], "{token:?}: {:#?}", world.diary);
    }
}

#[test]
fn for_an_old_machine_no_token_is_looked_for() {
    let mut world = World::running();
    world.token = TokenRecord::Unknown;
    world.wait(std::time::Duration::from_hours(1));
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert!(world.diary.iter().all(|line| !line.contains("token")), "{:#?}", world.diary);
}
