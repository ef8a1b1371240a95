use std::process::Command;

use rstest::rstest;

use super::history::{Act, Fault, RequestFault, Side, Version, VmFault, Which};
use super::*;
use crate::oracle::Invariant;

/// Whoever compares runs compares this one: everything happens in it.
const COMPARED: (&str, u64) = ("chaos", 7);

fn profile(name: &str) -> &'static Profile {
    Profile::named(name).unwrap()
}

/// Runs a seed and fails with its shortest history if something was wrong.
fn holds(profile: &Profile, seed: u64, length: Option<Length>) {
    let report = play(profile, seed, length, None, Detail::Numbers).unwrap();
    if report.violation.is_none() {
        return;
    }
    let shrunk = shrink(profile, report);
    let history: Vec<String> = shrunk.history.iter().map(ToString::to_string).collect();
    let violation = shrunk.violation.unwrap();
    panic!("{} seed {seed}: {}\n{}\n{}", profile.name, violation.invariant, violation.what, history.join("\n"));
}

/// Shows THR-10, THR-12, THR-13, THR-14.
#[rstest]
fn whatever_happens_every_invariant_holds(
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
    // A build without optimization takes seconds for each; CI runs hundreds with one (`.ci/run`).
    holds(profile(name), 1, None);
}

/// Seeds of short histories for which the judgement was mended.
#[rstest]
#[case::a_deletion_by_force_detaches_without_a_drain("volumes", 100_236)]
#[case::a_node_whose_update_is_no_longer_wanted_is_drained_all_the_same("in-place", 100_237)]
#[case::a_vm_that_was_forgotten_is_an_orphan_to_the_next_process("put-back", 1070)]
#[case::a_process_that_dies_again_and_again_begins_to_accuse_anew("other-versions", 300_286)]
#[case::a_node_that_joined_while_nobody_could_look_is_left_by_force("volumes", 300_663)]
#[case::a_machine_that_was_taken_away_counts_until_somebody_is_shown_it("chaos", 401_099)]
#[case::a_roll_out_that_waits_for_a_lost_create_is_not_at_rest("second-thoughts", 400_377)]
fn what_was_judged_wrongly_is_not_again(#[case] name: &str, #[case] seed: u64) {
    holds(profile(name), seed, None);
}

fn at(millis: u64, what: What) -> Happening {
    Happening { at: Duration::from_millis(millis), what }
}

/// The same, of histories as long as the seed says.
/// Shows CAC-20, MS-R23.
#[rstest]
#[case::an_attachment_that_was_made_again_was_deleted_every_second("volumes", 200_143)]
#[case::an_api_server_that_was_put_back_had_overtaken_a_kind_in_which_little_happens("put-back", 200_213)]
#[case::pods_came_back_to_a_node_that_was_not_cordoned_and_were_deleted_every_second("volumes", 300_582)]
#[case::a_deployment_thawed_minutes_after_it_could_be_written_again("small-and-busy", 200_325)]
#[case::a_set_waited_a_quarter_of_an_hour_to_delete_what_it_could_delete_again("second-thoughts", 400_281)]
#[case::a_drain_was_forced_for_an_illness_that_nobody_could_see_the_end_of("zone-outage", 400_476)]
#[case::pods_were_evicted_from_a_node_that_was_open_again_unseen("put-back", 400_386)]
#[case::a_status_was_written_anew_after_each_eviction_while_answers_were_lost("second-thoughts", 400_604)]
#[case::a_pool_that_was_made_smaller_grew_again_while_a_deletion_was_under_way("chaos", 500_803)]
fn what_a_seed_has_found_since_stays_repaired(#[case] name: &str, #[case] seed: u64) {
    holds(profile(name), seed, None);
}

/// What a seed had found before histories were drawn otherwise.
#[test]
fn a_roll_out_that_is_taken_back_while_deletes_are_lost_loses_no_machine() {
    let (side, which, lasts) = (Side::Control, Which::Deletes, Duration::from_secs(263));
    let history = [
        at(1_504_306, What::Fault(Fault::Requests { side, which, how: RequestFault::LostBefore, percent: 100, lasts })),
        at(1_506_461, What::Act(Act::Roll { pool: 0 })),
        at(1_571_461, What::Act(Act::RollBack { pool: 0 })),
    ];
    let (whole, history) = (Some(Length::Whole), Some(history.to_vec()));
    let report = play(profile("second-thoughts"), 3000, whole, history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    assert!(!report.record.timeline.iter().any(|line| line.contains("is deleted")), "no VM goes");
}

/// Seeds that found something which is repaired.
#[rstest]
#[case::a_machine_waited_for_a_class_whose_finalizer_was_put_back("api-brown-out", 10070)]
#[case::a_roll_out_stood_still_behind_a_status_that_was_put_back("api-brown-out", 10072)]
#[case::a_set_whose_size_was_put_back_stayed_empty("chaos", 20032)]
#[case::a_set_that_had_not_been_told_was_blamed("chaos", 18)]
#[case::a_node_that_had_lost_its_machine_was_not_waited_for("chaos", 207)]
fn what_a_seed_has_found_stays_repaired(#[case] name: &str, #[case] seed: u64) {
    // When these were found, every history was whole.
    holds(profile(name), seed, Some(Length::Whole));
}

/// What a seed had found before histories were drawn otherwise.
#[test]
fn a_status_that_may_not_be_written_is_not_written_sixty_times_a_minute_during_a_drain() {
    let lasts = Duration::from_secs;
    let history = [
        at(127_882, What::Act(Act::Delete { pick: 466 })),
        at(384_124, What::Fault(Fault::Partition { side: Side::Target, lasts: lasts(212) })),
        at(557_526, What::Act(Act::Scale { pool: 0, replicas: 0 })),
        at(600_567, What::Fault(Fault::Forbidden { side: Side::Control, lasts: lasts(463) })),
    ];
    let report = replay(profile("chaos"), 0, &history, Detail::Numbers).unwrap();
    assert_eq!(report.violation, None);
}

/// Lines of a timeline that tell all of this.
fn telling<'a>(report: &'a Report, parts: &[&str]) -> Vec<&'a str> {
    let lines = report.record.timeline.iter().map(String::as_str);
    lines.filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

/// Shows THR-12.
#[test]
fn a_vm_whose_machine_a_copy_does_not_know_stays_and_nothing_else_does() {
    let history = [
        at(300_000, What::Fault(Fault::PutBack { age: Duration::from_mins(4), down: Duration::from_secs(30) })),
        at(301_000, What::Act(Act::ScaleBy { pool: 0, by: 1 })),
    ];
    let report = replay(profile("put-back"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let made = telling(&report, &["is there"]);
    let vm = made.last().and_then(|line| line.split_whitespace().nth(1)).unwrap();
    assert!(telling(&report, &[vm, "is deleted"]).is_empty(), "{vm} stays: {:#?}", report.record.timeline);
    assert!(telling(&report, &["is deleted"]).is_empty(), "nobody asked for any machine to go");
}

/// Shows THR-14.
#[test]
fn a_machine_that_dies_while_it_is_updated_in_place_is_deleted_by_people() {
    let dies = Fault::Zone { how: VmFault::Dies, revived: None };
    let history = [at(300_000, What::Act(Act::Roll { pool: 0 })), at(330_000, What::Fault(dies))];
    let report = replay(profile("in-place-failures"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let deleted = telling(&report, &["Machine ", "(Others)", "phase \"InPlaceUpdat", "deleted"]);
    assert!(!deleted.is_empty(), "{:#?}", report.record.timeline);
}

/// Shows THR-13.
#[test]
fn what_another_version_has_left_is_gone_on_with() {
    let left = |version| What::Fault(Fault::OtherVersion { version, down: Duration::from_secs(20) });
    let history = [
        at(300_000, What::Act(Act::Roll { pool: 0 })),
        at(302_000, left(Version::Newer)),
        at(900_000, What::Act(Act::Delete { pick: 0 })),
        at(902_000, left(Version::Newer)),
        at(1_500_000, left(Version::Older)),
    ];
    let report = replay(profile("other-versions"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    assert!(!telling(&report, &["Copying the disks before anything else"]).is_empty(), "{:#?}", report.record.timeline);
}

/// Twenty deletes are sent at once. They are slow here, so the others are sent when the watch has shown that the pool is large again.
#[test]
fn deletes_stop_when_the_pool_grows_again() {
    let (side, which, how) = (Side::Control, Which::Deletes, RequestFault::Slow);
    let slow = Fault::Requests { side, which, how, percent: 100, lasts: Duration::from_mins(1) };
    let history = [
        at(10_000, What::Act(Act::Scale { pool: 0, replicas: 30 })),
        at(400_000, What::Fault(slow)),
        at(401_000, What::Act(Act::Scale { pool: 0, replicas: 0 })),
        at(402_000, What::Act(Act::Scale { pool: 0, replicas: 30 })),
    ];
    let report = replay(profile("stuck-deletions"), 1, &history, Detail::Timeline).unwrap();
    assert_eq!(report.violation, None);
    let deleted = telling(&report, &["is deleted"]).len();
    assert!((1..30).contains(&deleted), "{deleted} VMs are deleted");
}

/// Shows THR-11.
#[test]
fn the_same_seed_asks_the_same_in_this_process_and_in_another() {
    let (name, seed) = COMPARED;
    let asked = || play(profile(name), seed, Some(Length::Whole), None, Detail::Requests).unwrap().record;
    let (first, again) = (asked(), asked());
    assert!(first.requests > 1000, "there is something to compare");
    for (one, two) in first.timeline.iter().zip(&again.timeline) {
        assert_eq!(one, two);
    }
    assert_eq!(first.digest(), again.digest());
    let mut other = Command::new(std::env::current_exe().unwrap());
    let test = "simulation::tests::prints_what_a_seed_comes_to";
    let output = other.args([test, "--exact", "--ignored", "--nocapture"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(&format!("digest {:016x}", first.digest())), "{printed}");
}

#[test]
#[ignore = "the other process of the test above"]
fn prints_what_a_seed_comes_to() {
    let (name, seed) = COMPARED;
    let report = play(profile(name), seed, Some(Length::Whole), None, Detail::Numbers).unwrap();
    println!("digest {:016x}", report.record.digest());
}

/// Shows THR-10.
#[test]
fn the_page_of_invariants_names_each_with_its_sentence() {
    let page = include_str!("../../../../docs/invariants.md");
    for invariant in Invariant::ALL {
        let row = format!("| {} | {} |", invariant.id(), invariant.sentence());
        assert!(page.contains(&row), "docs/invariants.md has no row {row:?}");
    }
    for profile in Profile::ALL {
        assert!(page.contains(&format!("| `{}` | {} |", profile.name, profile.about)), "{}", profile.name);
    }
}
