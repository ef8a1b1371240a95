//! Conformance tests for drivers.
//!
//! The author of a driver implements [`Bench`]: access to an empty cloud and, if the test cloud allows it, how to exhaust a quota,
//! create foreign VMs, or make the cloud hang. Then one test runs all cases:
//!
//! ```ignore
//! #[tokio::test(start_paused = true)]
//! async fn driver_is_conformant() {
//!     let report = driver::conformance::run(MyBench::fresh).await;
//!     assert!(report.passed(), "{report}");
//! }
//! ```
//!
//! Each case gets a new bench. A case that the bench does not support is reported as skipped. A cloud behind a network has the real
//! clock and is eventually consistent; its bench returns the delay ([`Bench::timing`]), and the cases wait. If a cloud is shared by
//! several cases, each needs its own names ([`Bench::machine`]) and a [`sweep`] at the end.

pub mod hostile;

mod cases;
mod probe;
mod sweep;
mod timing;

use std::fmt;
use std::sync::Arc;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use serde_json::Value;

use crate::Driver;

pub use sweep::{names, sweep};
pub use timing::{Clock, Timing};

/// A cloud for tests.
#[async_trait]
pub trait Bench: Send + Sync {
    /// Returns the driver for a cloud without VMs of this cluster. Always the same driver.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Returns a valid MachineClass.
    fn class(&self) -> MachineClass;

    /// Returns the credentials and user data.
    fn secret(&self) -> SecretData {
        SecretData::default()
    }

    /// Returns the clock of the cloud and its consistency delay.
    fn timing(&self) -> Timing {
        Timing::IMMEDIATE
    }

    /// Returns the name of the Machine in a case.
    fn machine(&self) -> String {
        "pool-a-7d9fc-x2x5q".into()
    }

    /// Returns a `providerSpec` that the driver cannot decode.
    fn undecodable_spec(&self) -> Value {
        Value::String("not an object".into())
    }

    /// Returns the number of VMs of this Machine in the cloud, if the bench can query it without the driver.
    async fn vms_of(&self, _machine: &str) -> Option<usize> {
        None
    }

    /// Creates a VM of another cluster and a VM without tags.
    async fn plant_foreign_vms(&self) -> Arranged {
        Arranged::NotPossible
    }

    /// Creates a second VM for a Machine.
    async fn plant_double(&self, _machine: &str) -> Arranged {
        Arranged::NotPossible
    }

    /// Exhausts the quota.
    async fn exhaust_quota(&self) -> Arranged {
        Arranged::NotPossible
    }

    /// Makes the cloud hang.
    async fn stall(&self) -> Arranged {
        Arranged::NotPossible
    }
}

/// Whether a bench supports what a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arranged {
    /// Done.
    Done,
    /// Not supported by this cloud; the case is skipped.
    NotPossible,
}

/// A case of the conformance tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// Create, status, list, delete, status, list, delete.
    Lifecycle,
    /// Two consecutive creates make one VM.
    RepeatedCreateMakesOneVm,
    /// Two concurrent creates make one VM.
    ConcurrentCreatesMakeOneVm,
    /// A create that was interrupted and repeated makes one VM.
    InterruptedCreateMakesOneVm,
    /// A VM can be deleted by name, namespace and provider ID.
    DeleteByStub,
    /// A VM can be deleted by name, without its provider ID.
    DeleteByName,
    /// Delete does not affect other VMs.
    DeleteKeepsOtherVms,
    /// Foreign VMs are not listed, so they are not deleted as orphan VMs.
    ListOmitsForeignVms,
    /// Status returns `OutOfRange` for two VMs of one Machine.
    SeveralVmsAreOutOfRange,
    /// Every call returns `InvalidArgument` for a MachineClass of another provider.
    OtherProviderIsRejected,
    /// Every call returns `InvalidArgument` for a spec that cannot be decoded.
    UndecodableSpecIsRejected,
    /// Create returns `ResourceExhausted` if the quota is exhausted.
    ExhaustedQuotaIsResourceExhausted,
    /// Every call ends at its deadline.
    DeadlineIsHonored,
    /// Every call ends when it is cancelled.
    CancellationIsHonored,
    /// Offered calls are implemented, others return `Unimplemented`.
    CapabilitiesAreCorrect,
    /// `Uninitialized` contains the VM, and initialization ends it.
    UninitializedVmIsReturned,
    /// Errors can be parsed from their text.
    ErrorsCanBeParsed,
    /// Every call works with and without the last known state.
    LastKnownStateIsOptional,
    /// IDs, names, states and messages are valid in objects and log lines.
    TextsArePrintable,
}

impl Case {
    /// All cases, in the order in which they run.
    pub const ALL: [Self; 19] = [
        Self::Lifecycle,
        Self::RepeatedCreateMakesOneVm,
        Self::ConcurrentCreatesMakeOneVm,
        Self::InterruptedCreateMakesOneVm,
        Self::DeleteByStub,
        Self::DeleteByName,
        Self::DeleteKeepsOtherVms,
        Self::ListOmitsForeignVms,
        Self::SeveralVmsAreOutOfRange,
        Self::OtherProviderIsRejected,
        Self::UndecodableSpecIsRejected,
        Self::ExhaustedQuotaIsResourceExhausted,
        Self::DeadlineIsHonored,
        Self::CancellationIsHonored,
        Self::CapabilitiesAreCorrect,
        Self::UninitializedVmIsReturned,
        Self::ErrorsCanBeParsed,
        Self::LastKnownStateIsOptional,
        Self::TextsArePrintable,
    ];
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// Passed.
    Passed,
    /// Not run, for this reason.
    Skipped(&'static str),
    /// Failed, for this reason.
    Failed(String),
}

/// Results of all cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Results in the order of the cases.
    pub results: Vec<(Case, CaseResult)>,
}

impl Report {
    /// Returns whether no case failed. Skipped cases do not count as failures.
    pub fn passed(&self) -> bool {
        self.failed().is_empty()
    }

    /// Returns the failed cases.
    pub fn failed(&self) -> Vec<Case> {
        self.select(|result| matches!(result, CaseResult::Failed(_)))
    }

    /// Returns the cases that the bench does not support or that do not apply to the driver.
    pub fn skipped(&self) -> Vec<Case> {
        self.select(|result| matches!(result, CaseResult::Skipped(_)))
    }

    fn select(&self, wanted: impl Fn(&CaseResult) -> bool) -> Vec<Case> {
        self.results.iter().filter(|(_, result)| wanted(result)).map(|(case, _)| *case).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.results.iter().try_for_each(|(case, result)| match result {
            CaseResult::Passed => writeln!(f, "passed   {case:?}"),
            CaseResult::Skipped(why) => writeln!(f, "skipped  {case:?}: {why}"),
            CaseResult::Failed(how) => writeln!(f, "FAILED   {case:?}: {how}"),
        })
    }
}

/// Runs all cases, each with a new bench.
pub async fn run<B: Bench>(fresh: impl Fn() -> B) -> Report {
    let mut results = Vec::with_capacity(Case::ALL.len());
    for case in Case::ALL {
        results.push((case, try_case(case, &fresh()).await));
    }
    Report { results }
}

/// Runs one case, for tests with one test per case.
pub async fn try_case(case: Case, bench: &impl Bench) -> CaseResult {
    let limit = bench.timing().case;
    match tokio::time::timeout(limit, cases::run(case, bench)).await {
        Ok(outcome) => outcome.unwrap_or_else(|broken| CaseResult::Failed(broken.0)),
        Err(_) => CaseResult::Failed(format!("timed out after {} s", limit.as_secs())),
    }
}
