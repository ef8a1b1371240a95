//! The cases every driver passes.
//!
//! A driver's author writes a [`Bench`]: how to reach a fresh cloud, and as far as the test cloud allows, how to fill its
//! quota, plant a stranger's VM or make it stall. Then one test holds the driver to the contract:
//!
//! ```ignore
//! #[tokio::test(start_paused = true)]
//! async fn the_driver_keeps_the_contract() {
//!     let report = driver::conformance::run(MyBench::fresh).await;
//!     assert!(report.passed(), "{report}");
//! }
//! ```
//!
//! Each case gets a bench of its own. A case that the bench cannot arrange is skipped and says so in the report, so that
//! nobody mistakes it for passed. A cloud behind a network has the real clock and shows late what it did: its bench says so
//! ([`Bench::timing`]), and the cases wait. A cloud that is not thrown away after each case needs names of its own for each
//! ([`Bench::machine`]) and a [`sweep`] at the end.

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

/// A cloud under test and what can be done to it behind the driver's back.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The driver, on a cloud that holds nothing of this cluster. The same driver each time.
    fn driver(&self) -> Arc<dyn Driver>;

    /// A class the driver accepts.
    fn class(&self) -> MachineClass;

    /// The credentials and user data it needs.
    fn secret(&self) -> SecretData {
        SecretData::default()
    }

    /// Which clock the cloud has, and how late it may show what it did.
    fn timing(&self) -> Timing {
        Timing::AT_ONCE
    }

    /// The name of the machine that a case is about.
    fn machine(&self) -> String {
        "pool-a-7d9fc-x2x5q".into()
    }

    /// A `providerSpec` the driver cannot decode.
    fn undecodable_spec(&self) -> Value {
        Value::String("not an object".into())
    }

    /// How many VMs the cloud really holds for this machine, if the bench can look past the driver.
    async fn vms_of(&self, _machine: &str) -> Option<usize> {
        None
    }

    /// Plants a VM of another cluster, and one that nobody tagged.
    async fn plant_foreign_vms(&self) -> Arranged {
        Arranged::NotPossible
    }

    /// Plants a second VM for a machine that has one.
    async fn plant_double(&self, _machine: &str) -> Arranged {
        Arranged::NotPossible
    }

    /// Leaves no room for another VM.
    async fn exhaust_quota(&self) -> Arranged {
        Arranged::NotPossible
    }

    /// Makes the cloud answer no call any more.
    async fn stall(&self) -> Arranged {
        Arranged::NotPossible
    }
}

/// Whether a bench could arrange what a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arranged {
    /// It is so.
    Done,
    /// This test cloud cannot; the case is skipped.
    NotPossible,
}

/// One promise of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// create, status, list, delete, status, list, delete.
    AMachineLivesAndDies,
    /// Two creates in a row give one VM.
    CreatingTwiceMakesOneVm,
    /// Two creates side by side give one VM.
    CreatingAtOnceMakesOneVm,
    /// A create that was dropped half-way and repeated gives one VM.
    AnInterruptedCreateIsRepeatedAsOneVm,
    /// Name, namespace and provider id are enough to delete.
    AStubIsEnoughToDelete,
    /// A machine that never learned its provider id can be deleted by name.
    ANameIsEnoughToDelete,
    /// Deleting one machine leaves the others alone.
    DeletingOneMachineLeavesTheOthers,
    /// VMs of others are not listed, hence never deleted as orphans.
    ListIgnoresForeignVms,
    /// Two VMs for one machine are `OutOfRange`.
    SeveralVmsAreOutOfRange,
    /// A class of another provider is `InvalidArgument` to every call.
    AnotherProvidersClassIsRefused,
    /// A spec that cannot be decoded is `InvalidArgument` to every call.
    AnUndecodableSpecIsRefused,
    /// A full quota is `ResourceExhausted`.
    AFullQuotaIsResourceExhausted,
    /// No call outlives its deadline.
    TheDeadlineIsHonoured,
    /// No call outlives its cancellation.
    CancellationIsHonoured,
    /// What is offered is implemented, what is not is `Unimplemented`.
    CapabilitiesTellTheTruth,
    /// `Uninitialized` carries the VM, and initialising ends it.
    AnUninitializedVmIsShown,
    /// Errors read back from their text.
    ErrorsReadBackFromTheirText,
    /// Every call works with the last note that the driver left, and without one.
    ANoteIsShownAgainAndMayBeMissing,
    /// Ids, names, notes and messages fit into an object and onto a line.
    WhatItSaysCanBeWrittenDown,
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 19] = [
        Self::AMachineLivesAndDies,
        Self::CreatingTwiceMakesOneVm,
        Self::CreatingAtOnceMakesOneVm,
        Self::AnInterruptedCreateIsRepeatedAsOneVm,
        Self::AStubIsEnoughToDelete,
        Self::ANameIsEnoughToDelete,
        Self::DeletingOneMachineLeavesTheOthers,
        Self::ListIgnoresForeignVms,
        Self::SeveralVmsAreOutOfRange,
        Self::AnotherProvidersClassIsRefused,
        Self::AnUndecodableSpecIsRefused,
        Self::AFullQuotaIsResourceExhausted,
        Self::TheDeadlineIsHonoured,
        Self::CancellationIsHonoured,
        Self::CapabilitiesTellTheTruth,
        Self::AnUninitializedVmIsShown,
        Self::ErrorsReadBackFromTheirText,
        Self::ANoteIsShownAgainAndMayBeMissing,
        Self::WhatItSaysCanBeWrittenDown,
    ];
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// The promise held.
    Held,
    /// It could not be tried, for this reason.
    Skipped(&'static str),
    /// It was broken, in this way.
    Broken(String),
}

/// What every case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Case by case, in the order in which they were run.
    pub results: Vec<(Case, CaseResult)>,
}

impl Report {
    /// Whether no promise was broken. Skipped cases do not count against the driver; look at them in the text.
    pub fn passed(&self) -> bool {
        self.broken().is_empty()
    }

    /// The cases that failed.
    pub fn broken(&self) -> Vec<Case> {
        self.select(|result| matches!(result, CaseResult::Broken(_)))
    }

    /// The cases the bench could not arrange, or the driver's capabilities make moot.
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
            CaseResult::Held => writeln!(f, "held     {case:?}"),
            CaseResult::Skipped(why) => writeln!(f, "skipped  {case:?}: {why}"),
            CaseResult::Broken(how) => writeln!(f, "BROKEN   {case:?}: {how}"),
        })
    }
}

/// Runs every case, each on a fresh bench.
pub async fn run<B: Bench>(fresh: impl Fn() -> B) -> Report {
    let mut results = Vec::with_capacity(Case::ALL.len());
    for case in Case::ALL {
        results.push((case, try_case(case, &fresh()).await));
    }
    Report { results }
}

/// Runs one case; for drivers whose tests want one test per case.
pub async fn try_case(case: Case, bench: &impl Bench) -> CaseResult {
    let limit = bench.timing().case;
    match tokio::time::timeout(limit, cases::run(case, bench)).await {
        Ok(outcome) => outcome.unwrap_or_else(|broken| CaseResult::Broken(broken.0)),
        Err(_) => CaseResult::Broken(format!("it did not end within {} s", limit.as_secs())),
    }
}
