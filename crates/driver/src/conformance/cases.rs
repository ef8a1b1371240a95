//! The cases themselves: what is asked, and what the contract says to it.

use std::sync::Arc;
use std::time::Duration;

use api::{Code, MachineName, ProviderId};
use tokio_util::sync::CancellationToken;

use super::probe::{Broken, Outcome, Probe, answered, ensure, refused};
use super::sweep::{neighbour, nobody};
use super::{Arranged, Bench, Case, CaseResult, Clock};
use crate::text::{node_name_problem, printable, provider_id_problem};
use crate::{Call, DriverError, Found, MachineRequest, Method, RetryClass};

const CANNOT_ARRANGE: CaseResult = CaseResult::Skipped("the bench cannot arrange it");

pub(super) async fn run(case: Case, bench: &dyn Bench) -> Outcome {
    let probe = &Probe::new(bench);
    match case {
        Case::AMachineLivesAndDies => lives_and_dies(probe).await,
        Case::CreatingTwiceMakesOneVm => created_twice(probe).await,
        Case::CreatingAtOnceMakesOneVm => created_at_once(probe).await,
        Case::AnInterruptedCreateIsRepeatedAsOneVm => create_interrupted(probe).await,
        Case::AStubIsEnoughToDelete => deleted_by_stub(probe).await,
        Case::ANameIsEnoughToDelete => deleted_by_name(probe).await,
        Case::DeletingOneMachineLeavesTheOthers => others_left_alone(probe).await,
        Case::ListIgnoresForeignVms => foreign_vms_ignored(probe).await,
        Case::SeveralVmsAreOutOfRange => several_vms(probe).await,
        Case::AnotherProvidersClassIsRefused => {
            let mut class = probe.class();
            class.provider = "another-provider".into();
            every_call_refuses(&probe.with_class(class), Code::InvalidArgument).await
        }
        Case::AnUndecodableSpecIsRefused => {
            let mut class = probe.class();
            class.provider_spec = bench.undecodable_spec();
            every_call_refuses(&probe.with_class(class), Code::InvalidArgument).await
        }
        Case::AFullQuotaIsResourceExhausted => full_quota(probe).await,
        Case::TheDeadlineIsHonoured => deadline(probe).await,
        Case::CancellationIsHonoured => cancellation(probe).await,
        Case::CapabilitiesTellTheTruth => capabilities(probe).await,
        Case::AnUninitializedVmIsShown => uninitialized(probe).await,
        Case::ErrorsReadBackFromTheirText => errors_read_back(probe).await,
        Case::ANoteIsShownAgainAndMayBeMissing => note_shown_again(probe).await,
        Case::WhatItSaysCanBeWrittenDown => written_down(probe).await,
    }
}

async fn lives_and_dies(probe: &Probe<'_>) -> Outcome {
    if probe.offers(Method::Status) {
        refused("status before create", probe.status(&probe.stub(probe.name(), None)).await, Code::NotFound)?;
    }
    let made = probe.create_whole(probe.name()).await?;
    let id = made.provider_id.as_str();

    if probe.offers(Method::Status) {
        // By name alone as well: a crash may have come between the creation and the record of the provider id.
        for request in [probe.stub(probe.name(), Some(id)), probe.stub(probe.name(), None)] {
            let found = probe.shown(|| after_create(probe, &request)).await?;
            same_vm(&Found::from(made.clone()), &found)?;
        }
    }
    if probe.offers(Method::List) {
        probe.shown(|| is_listed(probe, &made.provider_id)).await?;
    }

    probe.delete(&probe.stub(probe.name(), Some(id))).await?;
    probe.is_gone(probe.name(), id).await?;
    probe.delete(&probe.stub(probe.name(), Some(id))).await?;
    Ok(CaseResult::Held)
}

async fn after_create(probe: &Probe<'_>, request: &MachineRequest) -> Result<Found, Broken> {
    probe.status(request).await.map_err(|e| Broken(format!("status after create failed: {e}")))
}

async fn is_listed(probe: &Probe<'_>, id: &ProviderId) -> Result<(), Broken> {
    let listed = probe.list().await?;
    let named = listed.get(id).map(MachineName::as_str);
    ensure(named == Some(probe.name()), || format!("list shows {id} as {named:?} instead of {}", probe.name()))
}

async fn created_twice(probe: &Probe<'_>) -> Outcome {
    let first = probe.create(probe.name()).await?;
    let second = probe.create(probe.name()).await?;
    same_vm(&first.into(), &second.into())?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Held)
}

async fn created_at_once(probe: &Probe<'_>) -> Outcome {
    let (call, request) = (probe.limits(), probe.machine(probe.name()));
    let (one, two) = tokio::join!(probe.driver.create(&call, &request), probe.driver.create(&call, &request));
    match (one, two) {
        (Ok(one), Ok(two)) => same_vm(&one.into(), &two.into())?,
        // The loser of a race may ask to be called again, but not claim that someone else's VM is in the way.
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            ensure(error.retry_class() == RetryClass::Transient, || {
                format!("the second create at once failed: {error}")
            })?;
        }
        (Err(error), Err(_)) => return Err(Broken(format!("two creates at once both failed: {error}"))),
    }
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Held)
}

async fn create_interrupted(probe: &Probe<'_>) -> Outcome {
    let (call, request) = (probe.limits(), probe.machine(probe.name()));
    for after in probe.timing.interruptions() {
        // Whether the attempt finished does not matter: the process that made it is gone.
        let _unheard = tokio::time::timeout(*after, probe.driver.create(&call, &request)).await;
    }
    probe.create(probe.name()).await?;
    if probe.timing.clock == Clock::Real {
        // What was dropped may still be on its way to the cloud.
        tokio::time::sleep(probe.timing.shows_within).await;
    }
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Held)
}

async fn deleted_by_stub(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let id = made.provider_id.as_str();
    probe.delete(&probe.stub(probe.name(), Some(id))).await?;
    probe.is_gone(probe.name(), id).await?;
    Ok(CaseResult::Held)
}

async fn deleted_by_name(probe: &Probe<'_>) -> Outcome {
    let made = probe.create(probe.name()).await?;
    probe.found(probe.name()).await?;
    probe.delete(&probe.stub(probe.name(), None)).await?;
    probe.is_gone(probe.name(), made.provider_id.as_str()).await?;
    Ok(CaseResult::Held)
}

async fn others_left_alone(probe: &Probe<'_>) -> Outcome {
    let neighbour_name = &neighbour(probe.name());
    let made = probe.create_whole(probe.name()).await?;
    let neighbour = probe.create_whole(neighbour_name).await?;
    ensure(made.provider_id != neighbour.provider_id, || "two machines were given the same VM".into())?;
    probe.found(neighbour_name).await?;
    probe.delete(&probe.stub(neighbour_name, None)).await?;
    probe.is_gone(neighbour_name, neighbour.provider_id.as_str()).await?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Held)
}

async fn foreign_vms_ignored(probe: &Probe<'_>) -> Outcome {
    if !probe.offers(Method::List) {
        return Ok(CaseResult::Skipped("the driver does not offer list"));
    }
    if probe.bench.plant_foreign_vms().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    let made = probe.create(probe.name()).await?;
    // Strangers, too, may show late.
    tokio::time::sleep(probe.timing.shows_within).await;
    let listed = probe.list().await?;
    let foreign: Vec<_> = listed.keys().filter(|id| **id != made.provider_id).collect();
    ensure(foreign.is_empty(), || format!("list shows VMs of others: {foreign:?}"))?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Held)
}

async fn several_vms(probe: &Probe<'_>) -> Outcome {
    if !probe.offers(Method::Status) {
        return Ok(CaseResult::Skipped("the driver does not offer status"));
    }
    probe.create_whole(probe.name()).await?;
    if probe.bench.plant_double(probe.name()).await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    let both_seen =
        async || refused("status with two VMs", probe.status(&probe.stub(probe.name(), None)).await, Code::OutOfRange);
    probe.shown(both_seen).await?;
    Ok(CaseResult::Held)
}

async fn every_call_refuses(probe: &Probe<'_>, code: Code) -> Outcome {
    for method in [Method::Create, Method::Status, Method::List, Method::Delete] {
        if probe.offers(method) {
            let answer = probe.call(method, &probe.limits(), &probe.stub(probe.name(), None)).await;
            refused(method.operation(), answer, code)?;
        }
    }
    Ok(CaseResult::Held)
}

async fn full_quota(probe: &Probe<'_>) -> Outcome {
    if probe.bench.exhaust_quota().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    let answer = probe.driver.create(&probe.limits(), &probe.machine(probe.name())).await;
    refused("create without room", answer, Code::ResourceExhausted)?;
    Ok(CaseResult::Held)
}

/// The calls that reach the cloud; translating volume ids does not.
fn reaching(probe: &Probe<'_>) -> impl Iterator<Item = Method> {
    Method::ALL.into_iter().filter(|method| *method != Method::VolumeIds && probe.offers(*method))
}

async fn deadline(probe: &Probe<'_>) -> Outcome {
    let made = probe.create(probe.name()).await?;
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    if probe.bench.stall().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    for method in reaching(probe) {
        let call = Call::within(Duration::from_millis(200));
        let answer = answered(method.operation(), probe.call(method, &call, &request)).await?;
        refused(method.operation(), answer, Code::DeadlineExceeded)?;
    }
    Ok(CaseResult::Held)
}

async fn cancellation(probe: &Probe<'_>) -> Outcome {
    let made = probe.create(probe.name()).await?;
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    if probe.bench.stall().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    for method in reaching(probe) {
        let token = CancellationToken::new();
        let call = probe.limits().canceled_by(token.clone());
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel();
        };
        let (answer, ()) = tokio::join!(answered(method.operation(), probe.call(method, &call, &request)), cancel);
        refused(method.operation(), answer?, Code::Canceled)?;
    }
    Ok(CaseResult::Held)
}

async fn capabilities(probe: &Probe<'_>) -> Outcome {
    for method in Method::ALL {
        let unimplemented = match probe.call(method, &probe.limits(), &probe.stub(probe.name(), None)).await {
            Ok(()) => false,
            Err(error) => error.code() == Code::Unimplemented,
        };
        let operation = method.operation();
        match (probe.offers(method), unimplemented) {
            (true, true) => return Err(Broken(format!("{operation} is offered but not implemented"))),
            (false, false) => return Err(Broken(format!("{operation} is not offered, yet it answers"))),
            (true, false) | (false, true) => {}
        }
    }
    Ok(CaseResult::Held)
}

async fn uninitialized(probe: &Probe<'_>) -> Outcome {
    if !probe.offers(Method::Initialize) || !probe.offers(Method::Status) {
        return Ok(CaseResult::Skipped("the driver does not offer both initialize and status"));
    }
    let made = probe.create(probe.name()).await?;
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    let before = async || match probe.status(&request).await {
        Err(error) if error.code() == Code::Uninitialized => Ok(Some(error)),
        Err(error) => Err(Broken(format!("status before initialising failed: {error}"))),
        Ok(_) => Ok(None),
    };
    if let Some(error) = probe.shown(before).await? {
        let found = error.found().ok_or_else(|| Broken("Uninitialized does not carry the VM".into()))?;
        same_vm(&made.into(), found)?;
    }
    for attempt in ["the first", "a repeated"] {
        let done = probe.driver.initialize(&probe.limits(), &request).await;
        done.map_err(|e| Broken(format!("{attempt} initialize failed: {e}")))?;
    }
    let after = async || {
        let found = probe.status(&request).await;
        found.map(drop).map_err(|e| Broken(format!("status after initialising failed: {e}")))
    };
    probe.shown(after).await?;
    Ok(CaseResult::Held)
}

async fn errors_read_back(probe: &Probe<'_>) -> Outcome {
    let mut class = probe.class();
    class.provider = "another-provider".into();
    let elsewhere = probe.with_class(class);
    let nobody = &nobody(probe.name());
    for method in Method::ALL {
        for asked in [probe, &elsewhere] {
            if let Err(error) = asked.call(method, &probe.limits(), &asked.stub(nobody, None)).await {
                let read = DriverError::from_text(&error.to_string());
                let read = read.map_err(|e| Broken(format!("{}: {e}: {error}", method.operation())))?;
                ensure(read.code() == error.code() && read.message() == error.message(), || {
                    format!("{}: {error} reads back as {read}", method.operation())
                })?;
            }
        }
    }
    Ok(CaseResult::Held)
}

/// What a driver notes is kept until it notes something else: an answer without a note leaves the last one as it is, and an empty one
/// removes it. So a driver finds its note at the next call, and must do without one after a restart that lost it.
async fn note_shown_again(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let mut note = made.last_known_state.clone();
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    let created = probe.machine(probe.name());
    let again = probe.driver.create(&probe.limits(), &showing(&created, note.as_deref())).await;
    let again = again.map_err(|e| Broken(format!("creating again with its note {note:?} failed: {e}")))?;
    note = again.last_known_state.clone().or(note);
    same_vm(&made.into(), &again.into())?;
    for attempt in ["deleting", "deleting again"] {
        let gone = probe.driver.delete(&probe.limits(), &showing(&request, note.as_deref())).await;
        let gone = gone.map_err(|e| Broken(format!("{attempt} with its note {note:?} failed: {e}")))?;
        note = gone.last_known_state.or(note);
    }
    probe.delete(&request).await?;
    Ok(CaseResult::Held)
}

/// The same question, with a note.
fn showing(request: &MachineRequest, note: Option<&str>) -> MachineRequest {
    let mut machine = (*request.machine).clone();
    note.unwrap_or_default().clone_into(&mut machine.status.last_known_state);
    MachineRequest { machine: Arc::new(machine), ..request.clone() }
}

async fn written_down(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let (id, name) = (made.provider_id.as_str(), made.node_name.as_str());
    let fits = |what: &str, text: &str| {
        ensure(printable(text) == text, || format!("{what} is cut or escaped where it is shown: {text:.200?}"))
    };
    ensure(provider_id_problem(id).is_none(), || format!("the provider id {:?}: {id:.200?}", provider_id_problem(id)))?;
    ensure(node_name_problem(name).is_none(), || format!("the node name {:?}: {name:.200?}", node_name_problem(name)))?;
    fits("its note", made.last_known_state.as_deref().unwrap_or_default())?;
    let mut class = probe.class();
    class.provider = "another-provider".into();
    let elsewhere = probe.with_class(class);
    let nobody = &nobody(probe.name());
    for method in Method::ALL {
        for asked in [probe, &elsewhere] {
            if let Err(error) = asked.call(method, &probe.limits(), &asked.stub(nobody, None)).await {
                fits(method.operation(), error.message())?;
                fits(method.operation(), error.last_known_state().unwrap_or_default())?;
            }
        }
    }
    Ok(CaseResult::Held)
}

fn same_vm(made: &Found, found: &Found) -> Result<(), Broken> {
    ensure(made.provider_id == found.provider_id, || {
        format!("the VM was made as {:?} and found as {:?}", made.provider_id, found.provider_id)
    })?;
    ensure(made.node_name == found.node_name, || {
        format!("the node name was {:?} when made and {:?} when found", made.node_name, found.node_name)
    })
}
