use std::process::Command;

use rstest::rstest;

use super::history::{Change, Fault, RequestFault, RequestKind, Side, Version, VmFault};
use super::*;
use crate::oracle::Invariant;

/// The run that is compared with itself. It contains all kinds of changes and faults.
const COMPARED: (&str, u64) = ("chaos", 7);

fn profile(name: &str) -> &'static Profile {
    Profile::named(name).unwrap()
}

/// Runs a seed. Fails with its shortest history if there was a violation.
fn holds(profile: &Profile, seed: u64, length: Option<Length>) {
    let report = run_with(profile, seed, length, None, Detail::Numbers).unwrap();
    if report.violation.is_none() {
        return;
    }
    let shrunk = shrink(profile, report);
    let history: Vec<String> = shrunk.history.iter().map(ToString::to_string).collect();
    let violation = shrunk.violation.unwrap();
    panic!("{} seed {seed}: {}\n{}\n{}", profile.name, violation.invariant, violation.message, history.join("\n"));
}

/// Shows THR-10, THR-12, THR-13, THR-14.
#[rstest]
fn every_invariant_holds(
    #[values(
        "small-and-busy",
        "second-thoughts",
        "zone-outage",
        "quota",
        "api-brown-out",
        "mass-node-failure",
        "upgrade-storm",
        "hostile-driver",
        "stuck-deletions",
        "hand-over",
        "preservation",
        "in-place",
        "volumes",
        "in-place-failures",
        "put-back",
        "other-versions",
        "strategies",
        "workloads",
        "doubles",
        "chaos"
    )]
    name: &str,
) {
    // One seed takes a few seconds. CI runs more seeds in an optimized build (`.ci/run`).
    holds(profile(name), 1, None);
}

/// Seeds for which the oracle reported a violation that was none. Histories have the length of the seed.
#[rstest]
#[case::forced_deletion_detaches_without_a_drain("volumes", 100_236)]
#[case::node_is_drained_although_its_update_was_reverted("in-place", 100_237)]
#[case::vm_lost_in_a_restore_is_an_orphan_for_the_next_process("put-back", 1070)]
#[case::restarted_process_suspects_the_same_orphan_again("other-versions", 300_286)]
#[case::forced_deletion_leaves_a_node_that_joined_in_an_outage("volumes", 300_663)]
#[case::removed_machine_counts_until_the_removal_is_delivered("chaos", 401_099)]
#[case::rollout_that_waits_for_a_lost_create_has_not_converged("second-thoughts", 400_377)]
fn allowed_behaviour_is_no_violation(#[case] name: &str, #[case] seed: u64) {
    holds(profile(name), seed, None);
}

fn at(millis: u64, kind: EntryKind) -> HistoryEntry {
    HistoryEntry { at: Duration::from_millis(millis), kind }
}

/// Seeds that found an error which is fixed. Histories have the length of the seed.
/// Shows CAC-20, MS-R23.
#[rstest]
#[case::recreated_attachment_was_deleted_every_second("volumes", 200_143)]
#[case::restored_api_server_had_passed_a_quiet_kind("put-back", 200_213)]
#[case::pods_on_an_uncordoned_node_were_deleted_every_second("volumes", 300_582)]
#[case::deployment_was_unfrozen_minutes_after_an_outage("small-and-busy", 200_325)]
#[case::set_retried_a_delete_after_fifteen_minutes("second-thoughts", 400_281)]
#[case::drain_was_forced_on_a_stale_node_condition("zone-outage", 400_476)]
#[case::pods_were_evicted_after_the_cordon_was_reverted("put-back", 400_386)]
#[case::status_was_written_after_each_eviction_with_lost_responses("second-thoughts", 400_604)]
#[case::pool_grew_again_during_a_deletion("chaos", 500_803)]
fn fixed_error_stays_fixed(#[case] name: &str, #[case] seed: u64) {
    holds(profile(name), seed, None);
}

/// A history that found an error. Its seed now draws another one.
#[test]
fn reverted_rollout_with_lost_deletes_loses_no_machine() {
    let (side, requests, duration) = (Side::Control, RequestKind::Deletes, Duration::from_secs(263));
    let history = [
        at(
            1_504_306,
            EntryKind::Fault(Fault::Requests {
                side,
                requests,
                how: RequestFault::RequestLost,
                percent: 100,
                duration,
            }),
        ),
        at(1_506_461, EntryKind::Change(Change::Roll { pool: 0 })),
        at(1_571_461, EntryKind::Change(Change::RollBack { pool: 0 })),
    ];
    let (whole, history) = (Some(Length::Whole), Some(history.to_vec()));
    let report = run_with(profile("second-thoughts"), 3000, whole, history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    assert!(!report.record.timeline.iter().any(|line| line.contains("is deleted")), "no VM is deleted");
}

/// Seeds that found an error which is fixed. When they were found, all histories had the full length.
#[rstest]
#[case::machine_waited_for_a_class_with_a_reverted_finalizer("api-brown-out", 10070)]
#[case::rollout_was_blocked_by_a_reverted_status("api-brown-out", 10072)]
#[case::set_with_reverted_replicas_stayed_empty("chaos", 20032)]
#[case::set_without_the_new_replicas_was_reported("chaos", 18)]
#[case::node_without_a_machine_was_not_waited_for("chaos", 207)]
fn fixed_error_in_a_full_history_stays_fixed(#[case] name: &str, #[case] seed: u64) {
    holds(profile(name), seed, Some(Length::Whole));
}

/// A history that found an error. Its seed now draws another one.
#[test]
fn rejected_status_write_is_not_repeated_sixty_times_a_minute() {
    let seconds = Duration::from_secs;
    let history = [
        at(127_882, EntryKind::Change(Change::Delete { pick: 466 })),
        at(384_124, EntryKind::Fault(Fault::Partition { side: Side::Target, duration: seconds(212) })),
        at(557_526, EntryKind::Change(Change::Scale { pool: 0, replicas: 0 })),
        at(600_567, EntryKind::Fault(Fault::Forbidden { side: Side::Control, duration: seconds(463) })),
    ];
    let report = replay(profile("chaos"), 0, &history, Detail::Numbers).unwrap();
    assert_eq!(report.violation, None);
}

/// Returns the lines of the timeline that contain all these parts.
fn lines_with<'a>(report: &'a Report, parts: &[&str]) -> Vec<&'a str> {
    let lines = report.record.timeline.iter().map(String::as_str);
    lines.filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

/// Shows THR-12.
#[test]
fn vm_of_a_machine_lost_in_a_restore_is_kept() {
    let history = [
        at(300_000, EntryKind::Fault(Fault::Restore { age: Duration::from_mins(4), down: Duration::from_secs(30) })),
        at(301_000, EntryKind::Change(Change::ScaleBy { pool: 0, by: 1 })),
    ];
    let report = replay(profile("put-back"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let present = lines_with(&report, &["is present"]);
    let vm = present.last().and_then(|line| line.split_whitespace().nth(1)).unwrap();
    assert!(lines_with(&report, &[vm, "is deleted"]).is_empty(), "{vm} is kept: {:#?}", report.record.timeline);
    assert!(lines_with(&report, &["is deleted"]).is_empty(), "no machine was to be deleted");
}

/// Shows THR-14.
#[test]
fn machine_that_fails_in_an_in_place_update_is_deleted_by_users() {
    let power_loss = Fault::Zone { how: VmFault::Dies, revived: None };
    let history = [at(300_000, EntryKind::Change(Change::Roll { pool: 0 })), at(330_000, EntryKind::Fault(power_loss))];
    let report = replay(profile("in-place-failures"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let deleted = lines_with(&report, &["Machine ", "(Others)", "phase \"InPlaceUpdat", "deleted"]);
    assert!(!deleted.is_empty(), "{:#?}", report.record.timeline);
}

/// Shows THR-13.
#[test]
fn objects_of_other_versions_are_continued() {
    let written_by = |version| EntryKind::Fault(Fault::OtherVersion { version, down: Duration::from_secs(20) });
    let history = [
        at(300_000, EntryKind::Change(Change::Roll { pool: 0 })),
        at(302_000, written_by(Version::Newer)),
        at(900_000, EntryKind::Change(Change::Delete { pick: 0 })),
        at(902_000, written_by(Version::Newer)),
        at(1_500_000, written_by(Version::Older)),
    ];
    let report = replay(profile("other-versions"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    assert!(
        !lines_with(&report, &["Copying the disks before anything else"]).is_empty(),
        "{:#?}",
        report.record.timeline
    );
}

/// Twenty deletes are sent concurrently. They are slow here, so the watch delivers the larger number of replicas before
/// the rest is sent.
#[test]
fn deletes_stop_when_the_pool_grows_again() {
    let (side, requests, how) = (Side::Control, RequestKind::Deletes, RequestFault::Slow);
    let slow = Fault::Requests { side, requests, how, percent: 100, duration: Duration::from_mins(1) };
    let history = [
        at(10_000, EntryKind::Change(Change::Scale { pool: 0, replicas: 30 })),
        at(400_000, EntryKind::Fault(slow)),
        at(401_000, EntryKind::Change(Change::Scale { pool: 0, replicas: 0 })),
        at(402_000, EntryKind::Change(Change::Scale { pool: 0, replicas: 30 })),
    ];
    let report = replay(profile("stuck-deletions"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let deleted = lines_with(&report, &["is deleted"]).len();
    assert!((1..30).contains(&deleted), "{deleted} VMs are deleted");
}

/// Shows THR-11.
#[test]
fn seed_results_in_the_same_requests_in_every_process() {
    let (name, seed) = COMPARED;
    let run = || run_with(profile(name), seed, Some(Length::Whole), None, Detail::Requests).unwrap().record;
    let (first, again) = (run(), run());
    assert!(first.requests > 1000, "the run has requests to compare");
    for (one, two) in first.timeline.iter().zip(&again.timeline) {
        assert_eq!(one, two);
    }
    assert_eq!(first.digest(), again.digest());
    let mut other = Command::new(std::env::current_exe().unwrap());
    let test = "simulation::tests::prints_the_digest_of_a_seed";
    let output = other.args([test, "--exact", "--ignored", "--nocapture"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(&format!("digest {:016x}", first.digest())), "{printed}");
}

#[test]
#[ignore = "run in another process by the test above"]
fn prints_the_digest_of_a_seed() {
    let (name, seed) = COMPARED;
    let report = run_with(profile(name), seed, Some(Length::Whole), None, Detail::Numbers).unwrap();
    println!("digest {:016x}", report.record.digest());
}

/// Shows THR-10.
#[test]
fn invariants_page_has_every_invariant_and_profile() {
    let page = include_str!("../../../../docs/contributing/invariants.md");
    for invariant in Invariant::ALL {
        let row = format!("| {} | {} |", invariant.id(), invariant.sentence());
        assert!(page.contains(&row), "docs/contributing/invariants.md has no row {row:?}");
    }
    for profile in Profile::ALL {
        assert!(page.contains(&format!("| `{}` | {} |", profile.name, profile.about)), "{}", profile.name);
    }
}
