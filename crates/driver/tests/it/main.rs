//! The conformance suite, held to its word: it passes a good driver and finds each flaw of a bad one.

mod toy;

use std::time::Duration;

use driver::conformance::{self, Case, Timing};
use driver::{Capabilities, Support};
use rstest::rstest;
use toy::{Flaw, Toy, UNSEEN};

/// A cloud that may be late, on a clock that costs nothing.
const LATE: Timing = Timing { shows_within: Duration::from_secs(30), ..Timing::AT_ONCE };

/// Shows DRV-1.
#[tokio::test(start_paused = true)]
async fn a_good_driver_passes_every_case() {
    let report = conformance::run(|| Toy::new(Capabilities::ALL, None)).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows DRV-3.
#[tokio::test(start_paused = true)]
async fn a_driver_that_can_only_create_and_delete_passes_too_and_the_rest_is_named() {
    let report = conformance::run(|| Toy::new(Capabilities::MINIMAL, None)).await;
    assert!(report.passed(), "{report}");
    let moot = [Case::ListIgnoresForeignVms, Case::SeveralVmsAreOutOfRange, Case::AnUninitializedVmIsShown];
    assert_eq!(report.skipped(), moot, "{report}");
}

/// Shows DRV-1, DRV-2, DRV-7.
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

/// Shows DRV-8.
#[rstest]
#[case(Flaw::DoublesOnRepeat, Case::CreatingTwiceMakesOneVm)]
#[case(Flaw::DoublesUnseen, Case::CreatingTwiceMakesOneVm)]
#[case(Flaw::DeleteOfNothingFails, Case::AMachineLivesAndDies)]
#[case(Flaw::NeedsIdToDelete, Case::ANameIsEnoughToDelete)]
#[case(Flaw::DeletesByPrefix, Case::DeletingOneMachineLeavesTheOthers)]
#[case(Flaw::ListsEverything, Case::ListIgnoresForeignVms)]
#[case(Flaw::PicksAnyOfSeveral, Case::SeveralVmsAreOutOfRange)]
#[case(Flaw::HidesUninitialized, Case::AnUninitializedVmIsShown)]
#[case(Flaw::IgnoresLimits, Case::TheDeadlineIsHonoured)]
#[tokio::test(start_paused = true)]
async fn patience_with_a_late_cloud_forgives_no_flaw(#[case] flaw: Flaw, #[case] case: Case) {
    assert!(UNSEEN < LATE.shows_within);
    let report = conformance::run(|| Toy::timed(Capabilities::ALL, Some(flaw), LATE)).await;
    assert!(report.broken().contains(&case), "{flaw:?} was not found:\n{report}");
}

/// All that a paused clock leaves out.
/// Shows DRV-8.
#[tokio::test]
async fn a_good_driver_passes_in_real_time() {
    let timing = Timing { poll: Duration::from_millis(5), ..Timing::real(Duration::from_millis(20)) };
    let report = conformance::run(|| Toy::timed(Capabilities::ALL, None, timing)).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows DRV-8.
#[tokio::test(start_paused = true)]
async fn a_driver_that_never_answers_ends_its_case() {
    let toy = Toy::timed(Capabilities::ALL, Some(Flaw::IgnoresLimits), LATE);
    conformance::Bench::stall(&toy).await;
    let result = conformance::try_case(Case::AMachineLivesAndDies, &toy).await;
    let conformance::CaseResult::Broken(how) = result else { panic!("{result:?}") };
    assert_eq!(how, "it did not end within 86400 s");
}

/// Shows DRV-8.
#[tokio::test(start_paused = true)]
async fn what_the_cases_left_is_deleted_or_told() {
    let toy = Toy::timed(Capabilities::ALL, None, LATE);
    let names = conformance::names(&toy);
    conformance::try_case(Case::CreatingTwiceMakesOneVm, &toy).await;
    assert_eq!(conformance::sweep(&toy, &names).await, Ok(()));
    let flawed = Toy::timed(Capabilities::ALL, Some(Flaw::NeedsIdToDelete), LATE);
    conformance::try_case(Case::CreatingTwiceMakesOneVm, &flawed).await;
    let told = conformance::sweep(&flawed, &names).await.unwrap_err();
    assert!(told.starts_with("still there: toy/1 of pool-a-"), "{told}");
}

/// Shows DRV-3.
#[tokio::test(start_paused = true)]
async fn a_driver_may_leave_out_one_call() {
    let modest = Capabilities { list: Support::NotOffered, ..Capabilities::ALL };
    let report = conformance::run(|| Toy::new(modest, None)).await;
    assert!(report.passed(), "{report}");
}
