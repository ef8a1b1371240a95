//! The conformance cases.

use std::sync::Arc;
use std::time::Duration;

use api::{Code, MachineName, ProviderId};
use tokio_util::sync::CancellationToken;

use super::probe::{Failure, Outcome, Probe, answered, ensure, rejected};
use super::sweep::{neighbour, unknown};
use super::{Arranged, Bench, Case, CaseResult, Clock};
use crate::text::{node_name_problem, printable, provider_id_problem};
use crate::{Call, DriverError, Found, MachineRequest, Method, RetryClass};

const CANNOT_ARRANGE: CaseResult = CaseResult::Skipped("not supported by the bench");

pub(super) async fn run(case: Case, bench: &dyn Bench) -> Outcome {
    let probe = &Probe::new(bench);
    match case {
        Case::Lifecycle => lifecycle(probe).await,
        Case::RepeatedCreateMakesOneVm => created_twice(probe).await,
        Case::ConcurrentCreatesMakeOneVm => created_concurrently(probe).await,
        Case::InterruptedCreateMakesOneVm => create_interrupted(probe).await,
        Case::DeleteByStub => deleted_by_stub(probe).await,
        Case::DeleteByName => deleted_by_name(probe).await,
        Case::DeleteKeepsOtherVms => other_vms_kept(probe).await,
        Case::ListOmitsForeignVms => foreign_vms_omitted(probe).await,
        Case::SeveralVmsAreOutOfRange => several_vms(probe).await,
        Case::OtherProviderIsRejected => {
            let mut class = probe.class();
            class.provider = "another-provider".into();
            every_call_rejects(&probe.with_class(class), Code::InvalidArgument).await
        }
        Case::UndecodableSpecIsRejected => {
            let mut class = probe.class();
            class.provider_spec = bench.undecodable_spec();
            every_call_rejects(&probe.with_class(class), Code::InvalidArgument).await
        }
        Case::ExhaustedQuotaIsResourceExhausted => exhausted_quota(probe).await,
        Case::DeadlineIsHonored => deadline(probe).await,
        Case::CancellationIsHonored => cancellation(probe).await,
        Case::CapabilitiesAreCorrect => capabilities(probe).await,
        Case::UninitializedVmIsReturned => uninitialized(probe).await,
        Case::ErrorsCanBeParsed => errors_parsed(probe).await,
        Case::LastKnownStateIsOptional => last_known_state(probe).await,
        Case::TextsArePrintable => texts_printable(probe).await,
    }
}

async fn lifecycle(probe: &Probe<'_>) -> Outcome {
    if probe.offers(Method::Status) {
        rejected("status before create", probe.status(&probe.stub(probe.name(), None)).await, Code::NotFound)?;
    }
    let made = probe.create_whole(probe.name()).await?;
    let id = made.provider_id.as_str();

    if probe.offers(Method::Status) {
        // By name only as well: the process may have crashed before it recorded the provider ID.
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
    Ok(CaseResult::Passed)
}

async fn after_create(probe: &Probe<'_>, request: &MachineRequest) -> Result<Found, Failure> {
    probe.status(request).await.map_err(|e| Failure(format!("status after create failed: {e}")))
}

async fn is_listed(probe: &Probe<'_>, id: &ProviderId) -> Result<(), Failure> {
    let listed = probe.list().await?;
    let named = listed.get(id).map(MachineName::as_str);
    ensure(named == Some(probe.name()), || {
        format!("list contains {id} with Machine {named:?} instead of {}", probe.name())
    })
}

async fn created_twice(probe: &Probe<'_>) -> Outcome {
    let first = probe.create(probe.name()).await?;
    let second = probe.create(probe.name()).await?;
    same_vm(&first.into(), &second.into())?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Passed)
}

async fn created_concurrently(probe: &Probe<'_>) -> Outcome {
    let (call, request) = (probe.limits(), probe.machine(probe.name()));
    let (one, two) = tokio::join!(probe.driver.create(&call, &request), probe.driver.create(&call, &request));
    match (one, two) {
        (Ok(one), Ok(two)) => same_vm(&one.into(), &two.into())?,
        // One of them may fail with a transient error, but not because of the VM of the other one.
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            ensure(error.retry_class() == RetryClass::Transient, || {
                format!("one of two concurrent creates failed: {error}")
            })?;
        }
        (Err(error), Err(_)) => return Err(Failure(format!("both concurrent creates failed: {error}"))),
    }
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Passed)
}

async fn create_interrupted(probe: &Probe<'_>) -> Outcome {
    let (call, request) = (probe.limits(), probe.machine(probe.name()));
    for after in probe.timing.interruptions() {
        // The result does not matter: it is lost, as after a crash.
        let _lost = tokio::time::timeout(*after, probe.driver.create(&call, &request)).await;
    }
    probe.create(probe.name()).await?;
    if probe.timing.clock == Clock::Real {
        // An interrupted request may still reach the cloud.
        tokio::time::sleep(probe.timing.shows_within).await;
    }
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Passed)
}

async fn deleted_by_stub(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let id = made.provider_id.as_str();
    probe.delete(&probe.stub(probe.name(), Some(id))).await?;
    probe.is_gone(probe.name(), id).await?;
    Ok(CaseResult::Passed)
}

async fn deleted_by_name(probe: &Probe<'_>) -> Outcome {
    let made = probe.create(probe.name()).await?;
    probe.found(probe.name()).await?;
    probe.delete(&probe.stub(probe.name(), None)).await?;
    probe.is_gone(probe.name(), made.provider_id.as_str()).await?;
    Ok(CaseResult::Passed)
}

async fn other_vms_kept(probe: &Probe<'_>) -> Outcome {
    let neighbour_name = &neighbour(probe.name());
    let made = probe.create_whole(probe.name()).await?;
    let neighbour = probe.create_whole(neighbour_name).await?;
    ensure(made.provider_id != neighbour.provider_id, || "two Machines have the same VM".into())?;
    probe.found(neighbour_name).await?;
    probe.delete(&probe.stub(neighbour_name, None)).await?;
    probe.is_gone(neighbour_name, neighbour.provider_id.as_str()).await?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Passed)
}

async fn foreign_vms_omitted(probe: &Probe<'_>) -> Outcome {
    if !probe.offers(Method::List) {
        return Ok(CaseResult::Skipped("the driver does not offer list"));
    }
    if probe.bench.plant_foreign_vms().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    let made = probe.create(probe.name()).await?;
    // Foreign VMs may appear late as well.
    tokio::time::sleep(probe.timing.shows_within).await;
    let listed = probe.list().await?;
    let foreign: Vec<_> = listed.keys().filter(|id| **id != made.provider_id).collect();
    ensure(foreign.is_empty(), || format!("list contains foreign VMs: {foreign:?}"))?;
    probe.has_one_vm(probe.name()).await?;
    Ok(CaseResult::Passed)
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
        async || rejected("status with two VMs", probe.status(&probe.stub(probe.name(), None)).await, Code::OutOfRange);
    probe.shown(both_seen).await?;
    Ok(CaseResult::Passed)
}

async fn every_call_rejects(probe: &Probe<'_>, code: Code) -> Outcome {
    for method in [Method::Create, Method::Status, Method::List, Method::Delete] {
        if probe.offers(method) {
            let answer = probe.call(method, &probe.limits(), &probe.stub(probe.name(), None)).await;
            rejected(method.operation(), answer, code)?;
        }
    }
    Ok(CaseResult::Passed)
}

async fn exhausted_quota(probe: &Probe<'_>) -> Outcome {
    if probe.bench.exhaust_quota().await == Arranged::NotPossible {
        return Ok(CANNOT_ARRANGE);
    }
    let answer = probe.driver.create(&probe.limits(), &probe.machine(probe.name())).await;
    rejected("create with an exhausted quota", answer, Code::ResourceExhausted)?;
    Ok(CaseResult::Passed)
}

/// Returns the calls that send requests to the cloud; `volume_ids` does not.
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
        rejected(method.operation(), answer, Code::DeadlineExceeded)?;
    }
    Ok(CaseResult::Passed)
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
        rejected(method.operation(), answer?, Code::Canceled)?;
    }
    Ok(CaseResult::Passed)
}

async fn capabilities(probe: &Probe<'_>) -> Outcome {
    for method in Method::ALL {
        let unimplemented = match probe.call(method, &probe.limits(), &probe.stub(probe.name(), None)).await {
            Ok(()) => false,
            Err(error) => error.code() == Code::Unimplemented,
        };
        let operation = method.operation();
        match (probe.offers(method), unimplemented) {
            (true, true) => return Err(Failure(format!("{operation} is offered but not implemented"))),
            (false, false) => return Err(Failure(format!("{operation} is not offered but implemented"))),
            (true, false) | (false, true) => {}
        }
    }
    Ok(CaseResult::Passed)
}

async fn uninitialized(probe: &Probe<'_>) -> Outcome {
    if !probe.offers(Method::Initialize) || !probe.offers(Method::Status) {
        return Ok(CaseResult::Skipped("the driver does not offer both initialize and status"));
    }
    let made = probe.create(probe.name()).await?;
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    let before = async || match probe.status(&request).await {
        Err(error) if error.code() == Code::Uninitialized => Ok(Some(error)),
        Err(error) => Err(Failure(format!("status before initialization failed: {error}"))),
        Ok(_) => Ok(None),
    };
    if let Some(error) = probe.shown(before).await? {
        let found = error.found().ok_or_else(|| Failure("Uninitialized does not contain the VM".into()))?;
        same_vm(&made.into(), found)?;
    }
    for attempt in ["first", "repeated"] {
        let done = probe.driver.initialize(&probe.limits(), &request).await;
        done.map_err(|e| Failure(format!("{attempt} initialize failed: {e}")))?;
    }
    let after = async || {
        let found = probe.status(&request).await;
        found.map(drop).map_err(|e| Failure(format!("status after initialization failed: {e}")))
    };
    probe.shown(after).await?;
    Ok(CaseResult::Passed)
}

async fn errors_parsed(probe: &Probe<'_>) -> Outcome {
    let mut class = probe.class();
    class.provider = "another-provider".into();
    let elsewhere = probe.with_class(class);
    let unknown = &unknown(probe.name());
    for method in Method::ALL {
        for asked in [probe, &elsewhere] {
            if let Err(error) = asked.call(method, &probe.limits(), &asked.stub(unknown, None)).await {
                let read = DriverError::from_text(&error.to_string());
                let read = read.map_err(|e| Failure(format!("{}: {e}: {error}", method.operation())))?;
                ensure(read.code() == error.code() && read.message() == error.message(), || {
                    format!("{}: {error} is parsed as {read}", method.operation())
                })?;
            }
        }
    }
    Ok(CaseResult::Passed)
}

/// The last known state is passed to the next call. A result without a state keeps the last one, and an empty state removes it. The
/// driver must also work without a state, because it may be lost.
async fn last_known_state(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let mut state = made.last_known_state.clone();
    let request = probe.stub(probe.name(), Some(made.provider_id.as_str()));
    let created = probe.machine(probe.name());
    let again = probe.driver.create(&probe.limits(), &with_state(&created, state.as_deref())).await;
    let again = again.map_err(|e| Failure(format!("repeated create with last known state {state:?} failed: {e}")))?;
    state = again.last_known_state.clone().or(state);
    same_vm(&made.into(), &again.into())?;
    for attempt in ["delete", "repeated delete"] {
        let gone = probe.driver.delete(&probe.limits(), &with_state(&request, state.as_deref())).await;
        let gone = gone.map_err(|e| Failure(format!("{attempt} with last known state {state:?} failed: {e}")))?;
        state = gone.last_known_state.or(state);
    }
    probe.delete(&request).await?;
    Ok(CaseResult::Passed)
}

/// Returns the request with a last known state.
fn with_state(request: &MachineRequest, state: Option<&str>) -> MachineRequest {
    let mut machine = (*request.machine).clone();
    state.unwrap_or_default().clone_into(&mut machine.status.last_known_state);
    MachineRequest { machine: Arc::new(machine), ..request.clone() }
}

async fn texts_printable(probe: &Probe<'_>) -> Outcome {
    let made = probe.create_whole(probe.name()).await?;
    let (id, name) = (made.provider_id.as_str(), made.node_name.as_str());
    let fits = |what: &str, text: &str| {
        ensure(printable(text) == text, || {
            format!("{what} is too long or contains unprintable characters: {text:.200?}")
        })
    };
    ensure(provider_id_problem(id).is_none(), || format!("the provider ID {:?}: {id:.200?}", provider_id_problem(id)))?;
    ensure(node_name_problem(name).is_none(), || format!("the node name {:?}: {name:.200?}", node_name_problem(name)))?;
    fits("last known state", made.last_known_state.as_deref().unwrap_or_default())?;
    let mut class = probe.class();
    class.provider = "another-provider".into();
    let elsewhere = probe.with_class(class);
    let unknown = &unknown(probe.name());
    for method in Method::ALL {
        for asked in [probe, &elsewhere] {
            if let Err(error) = asked.call(method, &probe.limits(), &asked.stub(unknown, None)).await {
                fits(method.operation(), error.message())?;
                fits(method.operation(), error.last_known_state().unwrap_or_default())?;
            }
        }
    }
    Ok(CaseResult::Passed)
}

fn same_vm(made: &Found, found: &Found) -> Result<(), Failure> {
    ensure(made.provider_id == found.provider_id, || {
        format!("the provider ID was {:?} when created and {:?} when found", made.provider_id, found.provider_id)
    })?;
    ensure(made.node_name == found.node_name, || {
        format!("the node name was {:?} when created and {:?} when found", made.node_name, found.node_name)
    })
}
