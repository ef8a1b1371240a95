//! Tests of the conformance cases: a correct driver passes, and each flaw is detected.

mod toy;

use std::time::Duration;

use driver::conformance::{self, Case, Timing};
use driver::{Capabilities, Support};
use rstest::rstest;
use toy::{Flaw, Toy, UNSEEN};

/// An eventually consistent cloud with a paused clock.
const LATE: Timing = Timing { shows_within: Duration::from_secs(30), ..Timing::IMMEDIATE };

/// Shows DRV-1.
#[tokio::test(start_paused = true)]
async fn correct_driver_passes_all_cases() {
    let report = conformance::run(|| Toy::new(Capabilities::ALL, None)).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows DRV-3.
#[tokio::test(start_paused = true)]
async fn minimal_driver_passes_with_skipped_cases() {
    let report = conformance::run(|| Toy::new(Capabilities::MINIMAL, None)).await;
    assert!(report.passed(), "{report}");
    let skipped = [Case::ListOmitsForeignVms, Case::SeveralVmsAreOutOfRange, Case::UninitializedVmIsReturned];
    assert_eq!(report.skipped(), skipped, "{report}");
}

/// Shows DRV-1, DRV-2, DRV-7.
#[rstest]
#[case(Flaw::DoublesOnRepeat, Case::RepeatedCreateMakesOneVm)]
#[case(Flaw::DoublesInARace, Case::ConcurrentCreatesMakeOneVm)]
#[case(Flaw::ForgetsInterrupted, Case::InterruptedCreateMakesOneVm)]
#[case(Flaw::DeleteOfNothingFails, Case::Lifecycle)]
#[case(Flaw::NeedsLabelsToDelete, Case::DeleteByStub)]
#[case(Flaw::NeedsIdToDelete, Case::DeleteByName)]
#[case(Flaw::DeletesByPrefix, Case::DeleteKeepsOtherVms)]
#[case(Flaw::ListsEverything, Case::ListOmitsForeignVms)]
#[case(Flaw::PicksAnyOfSeveral, Case::SeveralVmsAreOutOfRange)]
#[case(Flaw::TakesAnyProvider, Case::OtherProviderIsRejected)]
#[case(Flaw::TakesAnySpec, Case::UndecodableSpecIsRejected)]
#[case(Flaw::QuotaIsInternal, Case::ExhaustedQuotaIsResourceExhausted)]
#[case(Flaw::IgnoresLimits, Case::DeadlineIsHonored)]
#[case(Flaw::IgnoresLimits, Case::CancellationIsHonored)]
#[case(Flaw::BoastsOfVolumes, Case::CapabilitiesAreCorrect)]
#[case(Flaw::HidesUninitialized, Case::UninitializedVmIsReturned)]
#[case(Flaw::ChokesOnItsNote, Case::LastKnownStateIsOptional)]
#[case(Flaw::PaintsItsErrors, Case::TextsArePrintable)]
#[case(Flaw::NamesNodesTooLong, Case::TextsArePrintable)]
#[tokio::test(start_paused = true)]
async fn each_flaw_is_detected_by_its_case(#[case] flaw: Flaw, #[case] case: Case) {
    let report = conformance::run(|| Toy::new(Capabilities::ALL, Some(flaw))).await;
    assert!(report.failed().contains(&case), "{flaw:?} was not detected:\n{report}");
}

/// Shows DRV-8.
#[rstest]
#[case(Flaw::DoublesOnRepeat, Case::RepeatedCreateMakesOneVm)]
#[case(Flaw::DoublesUnseen, Case::RepeatedCreateMakesOneVm)]
#[case(Flaw::DeleteOfNothingFails, Case::Lifecycle)]
#[case(Flaw::NeedsIdToDelete, Case::DeleteByName)]
#[case(Flaw::DeletesByPrefix, Case::DeleteKeepsOtherVms)]
#[case(Flaw::ListsEverything, Case::ListOmitsForeignVms)]
#[case(Flaw::PicksAnyOfSeveral, Case::SeveralVmsAreOutOfRange)]
#[case(Flaw::HidesUninitialized, Case::UninitializedVmIsReturned)]
#[case(Flaw::IgnoresLimits, Case::DeadlineIsHonored)]
#[tokio::test(start_paused = true)]
async fn flaws_are_detected_in_an_eventually_consistent_cloud(#[case] flaw: Flaw, #[case] case: Case) {
    assert!(UNSEEN < LATE.shows_within);
    let report = conformance::run(|| Toy::timed(Capabilities::ALL, Some(flaw), LATE)).await;
    assert!(report.failed().contains(&case), "{flaw:?} was not detected:\n{report}");
}

/// Uses the real clock.
/// Shows DRV-8.
#[tokio::test]
async fn correct_driver_passes_with_the_real_clock() {
    let timing = Timing { poll: Duration::from_millis(5), ..Timing::real(Duration::from_millis(20)) };
    let report = conformance::run(|| Toy::timed(Capabilities::ALL, None, timing)).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}

/// Shows DRV-8.
#[tokio::test(start_paused = true)]
async fn case_times_out_when_the_driver_hangs() {
    let toy = Toy::timed(Capabilities::ALL, Some(Flaw::IgnoresLimits), LATE);
    conformance::Bench::stall(&toy).await;
    let result = conformance::try_case(Case::Lifecycle, &toy).await;
    let conformance::CaseResult::Failed(how) = result else { panic!("{result:?}") };
    assert_eq!(how, "timed out after 86400 s");
}

/// Shows DRV-8.
#[tokio::test(start_paused = true)]
async fn sweep_deletes_or_reports_remaining_vms() {
    let toy = Toy::timed(Capabilities::ALL, None, LATE);
    let names = conformance::names(&toy);
    conformance::try_case(Case::RepeatedCreateMakesOneVm, &toy).await;
    assert_eq!(conformance::sweep(&toy, &names).await, Ok(()));
    let flawed = Toy::timed(Capabilities::ALL, Some(Flaw::NeedsIdToDelete), LATE);
    conformance::try_case(Case::RepeatedCreateMakesOneVm, &flawed).await;
    let error = conformance::sweep(&flawed, &names).await.unwrap_err();
    assert!(error.starts_with("remaining VMs: toy/1 of pool-a-"), "{error}");
}

/// Shows DRV-3.
#[tokio::test(start_paused = true)]
async fn driver_may_omit_one_call() {
    let modest = Capabilities { list: Support::NotOffered, ..Capabilities::ALL };
    let report = conformance::run(|| Toy::new(modest, None)).await;
    assert!(report.passed(), "{report}");
}
