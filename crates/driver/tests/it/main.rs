//! The conformance suite, held to its word: it passes a good driver and finds each flaw of a bad one.

mod toy;

use driver::conformance::{self, Case};
use driver::{Capabilities, Support};
use rstest::rstest;
use toy::{Flaw, Toy};

#[tokio::test(start_paused = true)]
async fn a_good_driver_passes_every_case() {
    let report = conformance::run(|| Toy::new(Capabilities::ALL, None)).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_can_only_create_and_delete_passes_too_and_the_rest_is_named() {
    let report = conformance::run(|| Toy::new(Capabilities::MINIMAL, None)).await;
    assert!(report.passed(), "{report}");
    let moot = [Case::ListIgnoresForeignVms, Case::SeveralVmsAreOutOfRange, Case::AnUninitializedVmIsShown];
    assert_eq!(report.skipped(), moot, "{report}");
}

#[rstest]
#[case(Flaw::DoublesOnRepeat, Case::CreatingTwiceMakesOneVm)]
#[case(Flaw::DoublesInARace, Case::CreatingAtOnceMakesOneVm)]
#[case(Flaw::ForgetsInterrupted, Case::AnInterruptedCreateIsRepeatedAsOneVm)]
#[case(Flaw::DeleteOfNothingFails, Case::AMachineLivesAndDies)]
#[case(Flaw::NeedsLabelsToDelete, Case::AStubIsEnoughToDelete)]
#[case(Flaw::NeedsIdToDelete, Case::ANameIsEnoughToDelete)]
#[case(Flaw::DeletesByPrefix, Case::DeletingOneMachineLeavesTheOthers)]
#[case(Flaw::ListsEverything, Case::ListIgnoresForeignVms)]
#[case(Flaw::PicksAnyOfSeveral, Case::SeveralVmsAreOutOfRange)]
#[case(Flaw::TakesAnyProvider, Case::AnotherProvidersClassIsRefused)]
#[case(Flaw::TakesAnySpec, Case::AnUndecodableSpecIsRefused)]
#[case(Flaw::QuotaIsInternal, Case::AFullQuotaIsResourceExhausted)]
#[case(Flaw::IgnoresLimits, Case::TheDeadlineIsHonoured)]
#[case(Flaw::IgnoresLimits, Case::CancellationIsHonoured)]
#[case(Flaw::BoastsOfVolumes, Case::CapabilitiesTellTheTruth)]
#[case(Flaw::HidesUninitialized, Case::AnUninitializedVmIsShown)]
#[case(Flaw::ChokesOnItsNote, Case::ANoteIsShownAgainAndMayBeMissing)]
#[case(Flaw::PaintsItsErrors, Case::WhatItSaysCanBeWrittenDown)]
#[case(Flaw::NamesNodesTooLong, Case::WhatItSaysCanBeWrittenDown)]
#[tokio::test(start_paused = true)]
async fn each_flaw_is_found_by_its_case(#[case] flaw: Flaw, #[case] case: Case) {
    let report = conformance::run(|| Toy::new(Capabilities::ALL, Some(flaw))).await;
    assert!(report.broken().contains(&case), "{flaw:?} was not found:\n{report}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_may_leave_out_one_call() {
    let modest = Capabilities { list: Support::NotOffered, ..Capabilities::ALL };
    let report = conformance::run(|| Toy::new(modest, None)).await;
    assert!(report.passed(), "{report}");
}
