use super::*;
use crate::safety::Limit;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use std::time::Duration;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(60 * minute).unwrap()
}

fn vms(list: &[(&str, &str)]) -> BTreeMap<ProviderId, Listed> {
    let listed = |machine: &str| Listed { machine: machine.into(), class: "c".into() };
    list.iter().map(|(id, machine)| ((*id).into(), listed(machine))).collect()
}

fn owners(list: &[(&str, Owner)]) -> BTreeMap<MachineName, Owner> {
    list.iter().map(|(name, owner)| ((*name).into(), owner.clone())).collect()
}

fn has(id: &str) -> Owner {
    Owner::Has(id.into())
}

/// The Machines of the owners that have a VM.
fn holders(owners: &BTreeMap<MachineName, Owner>) -> Holders {
    let machine = |(name, owner): (&MachineName, &Owner)| match owner {
        Owner::Has(id) => Some(machine(name.as_str(), id.as_str())),
        _ => None,
    };
    Holders::of(&owners.iter().filter_map(machine).collect::<Vec<_>>())
}

fn machine(name: &str, id: &str) -> Machine {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "providerID": id } })).unwrap()
}

static NONE_UNDECODABLE: BTreeSet<MachineName> = BTreeSet::new();

/// Evaluates the first scan, and again after a creation timeout.
fn in_the_end(vms: &BTreeMap<ProviderId, Listed>, owners: &BTreeMap<MachineName, Owner>) -> Findings {
    in_the_end_with(vms, owners, &holders(owners), &NONE_UNDECODABLE)
}

fn in_the_end_with(
    vms: &BTreeMap<ProviderId, Listed>,
    owners: &BTreeMap<MachineName, Owner>,
    holders: &Holders,
    undecodable: &BTreeSet<MachineName>,
) -> Findings {
    let (policy, outages, before) = (Policy::default(), Outages::NONE, Suspicions::new());
    let scan = |before, now| {
        let (outages, policy) = (&outages, &policy);
        evaluate(&Scan { vms, owners, holders, undecodable, reach: Reach::Whole, before, outages, policy, now })
    };
    let first = scan(&before, at(0));
    assert!(first.confirmed.is_empty(), "the first scan confirms no VM");
    scan(&first.suspicions, at(20))
}

/// Shows LIM-22.
#[rstest]
#[case::of_no_machine("vm-1", Owner::NotFound)]
#[case::of_a_machine_with_another_vm("vm-1", has("vm-2"))]
#[case::in_another_spelling("cloud:///zone/VM-1", Owner::NotFound)]
fn vm_is_kept_and_reported_when_its_name_is_not_its_machines(#[case] listed: &str, #[case] named: Owner) {
    let owners = owners(&[("other", named.clone())]);
    let mut machines = vec![machine("m", "cloud:///vm-1")];
    if let Owner::Has(id) = named {
        machines.push(machine("other", id.as_str()));
    }
    let findings = in_the_end_with(
        &vms(&[(listed, "other"), ("vm-2", "other")]),
        &owners,
        &Holders::of(&machines),
        &NONE_UNDECODABLE,
    );
    assert!(!findings.confirmed.contains_key(listed) && !findings.suspicions.contains_key(listed), "{findings:?}");
    let mismatch = Mismatch { vm: listed.into(), named: "other".into() };
    assert_eq!(findings.mismatches, BTreeMap::from([("m".into(), mismatch.clone())]));
    assert!(mismatch.to_string().starts_with(&format!("VM {listed} has the name \"other\"")), "{mismatch}");
}

/// Shows LIM-22.
#[test]
fn name_is_right_when_one_of_two_holders_has_it() {
    let machines = [machine("copy", "vm-1"), machine("m", "vm-1")];
    let owners = owners(&[("m", has("vm-1"))]);
    let findings = in_the_end_with(&vms(&[("vm-1", "m")]), &owners, &Holders::of(&machines), &NONE_UNDECODABLE);
    assert_eq!(findings, Findings::default());
}

/// Shows LIM-22.
#[test]
fn second_vm_stays_when_its_id_ends_like_the_first() {
    let listed = vms(&[("gce:///a/m", "m"), ("gce:///b/m", "m")]);
    let findings = in_the_end(&listed, &owners(&[("m", has("gce:///a/m"))]));
    assert_eq!(findings.confirmed, BTreeMap::new());
    assert_eq!(findings.skipped, BTreeMap::from([("gce:///b/m".into(), Skipped::SimilarId)]));
}

/// The ID in a Machine that cannot be decoded is unknown, so any VM with an unknown name may be its VM.
/// Shows LIM-23.
#[rstest]
#[case::its_vm_is_not_listed(&[("vm-1", "gone")], 0)]
#[case::its_vm_is_listed(&[("vm-1", "gone"), ("vm-2", "broken")], 1)]
fn no_vm_is_deleted_when_it_may_be_of_an_undecodable_machine(#[case] listed: &[(&str, &str)], #[case] deleted: usize) {
    let undecodable = BTreeSet::from(["broken".into()]);
    let owners = owners(&[("gone", Owner::NotFound), ("broken", Owner::Undetermined)]);
    let findings = in_the_end_with(&vms(listed), &owners, &Holders::default(), &undecodable);
    assert_eq!(findings.confirmed.len(), deleted, "{findings:?}");
    if deleted == 0 {
        assert_eq!(findings.skipped["vm-1"], Skipped::Undecodable("broken".into()));
        assert_eq!(findings.skipped_by_reason().len(), 1, "a user must correct that Machine");
        assert_eq!(findings.suspicions["vm-1"], at(0), "the suspicion continues");
    }
}

#[test]
fn vm_without_machine_is_confirmed_after_creation_timeout() {
    let findings = in_the_end(&vms(&[("vm-1", "m")]), &owners(&[("m", Owner::NotFound)]));
    assert_eq!(findings.confirmed, BTreeMap::from([("vm-1".into(), OrphanReason::NoMachine)]));
}

/// Shows MC-W49.
#[test]
fn second_vm_is_confirmed_when_the_recorded_one_is_listed() {
    let findings = in_the_end(&vms(&[("vm-1", "m"), ("vm-2", "m")]), &owners(&[("m", has("vm-1"))]));
    assert_eq!(findings.confirmed, BTreeMap::from([("vm-2".into(), OrphanReason::Duplicate("vm-1".into()))]));
}

#[rstest]
#[case::its_own(has("vm-1"))]
#[case::in_creation_deletion_or_unreadable(Owner::Undetermined)]
#[case::forgotten_by_the_api_server(Owner::Lost)]
#[case::under_another_spelling(has("aws:///vm-1"))]
fn vm_is_skipped_when_its_machine(#[case] owner: Owner) {
    let findings = in_the_end(&vms(&[("vm-1", "m")]), &owners(&[("m", owner)]));
    assert_eq!(findings.confirmed, BTreeMap::new());
}

#[test]
fn vm_is_skipped_when_its_machine_was_not_looked_up() {
    assert_eq!(in_the_end(&vms(&[("vm-1", "m")]), &owners(&[])).confirmed, BTreeMap::new());
}

#[rstest]
#[case::new(json!({}), Owner::Undetermined)]
#[case::failing(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "CrashLoopBackOff" } } }), Owner::Undetermined)]
#[case::nothing_recorded(json!({ "status": { "currentStatus": { "phase": "Failed" } } }), Owner::Undetermined)]
#[case::going(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Terminating" } } }), Owner::Undetermined)]
#[case::running(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Running" } } }), has("p"))]
#[case::failed(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Failed" } } }), has("p"))]
fn second_vm_needs_a_recorded_first_vm(#[case] machine: serde_json::Value, #[case] owner: Owner) {
    assert_eq!(Owner::of(&serde_json::from_value(machine).unwrap()), owner);
}

#[test]
fn no_vm_is_confirmed_when_too_many_are_suspected() {
    let listed: Vec<(String, String)> = (0..4).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let gone: Vec<(&str, Owner)> = listed.iter().map(|(_, name)| (*name, Owner::NotFound)).collect();
    let findings = in_the_end(&vms(&listed), &owners(&gone));
    assert_eq!(findings.confirmed, BTreeMap::new());
    assert_eq!(findings.skipped["vm-0"], Skipped::TooMany { suspected: 4, of: 4 });
    assert_eq!(in_the_end(&vms(&listed[..3]), &owners(&gone[..3])).confirmed.len(), 3);
}

#[test]
fn limit_can_be_disabled() {
    let listed: Vec<(String, String)> = (0..9).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let gone: Vec<(&str, Owner)> = listed.iter().map(|(_, name)| (*name, Owner::NotFound)).collect();
    let mut policy = Policy::default();
    policy.safety.orphan_limit = Limit::Any;
    let before: Suspicions = listed.iter().map(|(id, _)| ((*id).into(), at(0))).collect();
    let findings = evaluate(&Scan {
        vms: &vms(&listed),
        owners: &owners(&gone),
        holders: &Holders::default(),
        undecodable: &NONE_UNDECODABLE,
        reach: Reach::Whole,
        before: &before,
        outages: &Outages::NONE,
        policy: &policy,
        now: at(20),
    });
    assert_eq!(findings.confirmed.len(), 9);
}

#[test]
fn outage_does_not_count_towards_suspicion() {
    let (vms, owners) = (vms(&[("vm-1", "m")]), owners(&[("m", Owner::NotFound)]));
    let before = Suspicions::from([("vm-1".into(), at(0))]);
    let mut outages = Outages::NONE;
    outages.begin(at(5));
    outages.end(at(10));
    let (policy, holders) = (Policy::default(), Holders::default());
    let scan = |now| Scan {
        vms: &vms,
        owners: &owners,
        holders: &holders,
        undecodable: &NONE_UNDECODABLE,
        reach: Reach::Whole,
        before: &before,
        outages: &outages,
        policy: &policy,
        now: at(now),
    };
    assert_eq!(evaluate(&scan(24)).skipped, BTreeMap::from([("vm-1".into(), Skipped::TooRecent { until: at(25) })]));
    assert_eq!(evaluate(&scan(25)).confirmed.len(), 1);
}

/// A VM was suspected for 20 s when the clock was set forward by 30 minutes.
/// Shows LIM-25.
#[test]
fn suspicion_is_no_older_when_the_clock_steps() {
    let (vms, owners, holders) = (vms(&[("vm-1", "m")]), owners(&[("m", Owner::NotFound)]), Holders::default());
    let (policy, mut outages) = (Policy::default(), Outages::NONE);
    let scan = |before: &Suspicions, outages: &Outages, now| {
        let (vms, owners, holders, undecodable) = (&vms, &owners, &holders, &NONE_UNDECODABLE);
        evaluate(&Scan {
            vms,
            owners,
            holders,
            undecodable,
            reach: Reach::Whole,
            before,
            outages,
            policy: &policy,
            now,
        })
    };
    let first = scan(&Suspicions::new(), &outages, at(0));
    let now = at(30) + Duration::from_secs(20);
    outages.stepped(crate::safety::ClockStep::Forward(Duration::from_mins(30)), now);
    assert_eq!(
        scan(&first.suspicions, &outages, now).skipped,
        BTreeMap::from([("vm-1".into(), Skipped::TooRecent { until: at(50) })])
    );
    assert_eq!(scan(&first.suspicions, &outages, at(50)).confirmed.len(), 1);
    let back = scan(&Suspicions::from([("vm-1".into(), at(60))]), &Outages::NONE, at(5));
    assert_eq!(back.suspicions["vm-1"], at(5), "a clock that was set back restarts the time");
}

#[test]
fn suspicion_ends_with_a_machine_and_survives_failed_lists() {
    let before = Suspicions::from([("vm-1".into(), at(0)), ("vm-2".into(), at(0))]);
    let (listed, known) = (vms(&[("vm-1", "m")]), owners(&[("m", has("vm-1"))]));
    let (policy, outages, holders) = (Policy::default(), Outages::NONE, holders(&known));
    let scan = |reach| Scan {
        vms: &listed,
        owners: &known,
        holders: &holders,
        undecodable: &NONE_UNDECODABLE,
        reach,
        before: &before,
        outages: &outages,
        policy: &policy,
        now: at(30),
    };
    assert_eq!(evaluate(&scan(Reach::Whole)).suspicions, Suspicions::new());
    assert_eq!(evaluate(&scan(Reach::Partial)).suspicions, Suspicions::from([("vm-2".into(), at(0))]));
}

proptest! {
    /// Machines and VMs are created and deleted, and the cache is late by up to three steps. Users rename VMs to the
    /// name of another Machine that exists or does not. The second evaluation of the caller uses the true state, like a
    /// quorum list.
    /// Shows MC-W45, LIM-22.
    #[test]
    fn no_vm_of_an_existing_machine_is_ever_confirmed(
        steps in prop::collection::vec((0usize..8, any::<bool>(), 0i64..30, 0usize..3, 0usize..40), 1..80),
    ) {
        let policy = Policy::default();
        let mut history: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
        let mut cloud: BTreeMap<usize, usize> = BTreeMap::new(); // the Machine for which each VM was created, and the one that it names
        let (mut before, mut now) = (Suspicions::new(), 0);
        for (machine_number, lives, gap, lag, named) in steps {
            now += gap;
            let mut living = history.last().unwrap().clone();
            if lives {
                living.insert(machine_number); // the Machine is created before its VM
                cloud.insert(machine_number, machine_number);
            } else {
                living.remove(&machine_number); // its VM remains
            }
            if let Some(name) = cloud.get_mut(&machine_number).filter(|_| named < 10) {
                *name = named;
            }
            history.push(living.clone());
            let names: Vec<(String, String)> =
                cloud.iter().map(|(n, named)| (format!("vm-{n}"), format!("m-{named}"))).collect();
            let listed = vms(&names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect::<Vec<_>>());
            let known = |living: &BTreeSet<usize>| -> BTreeMap<MachineName, Owner> {
                cloud
                    .values()
                    .map(|n| {
                        let owner = if living.contains(n) { has(&format!("vm-{n}")) } else { Owner::NotFound };
                        (format!("m-{n}").into(), owner)
                    })
                    .collect()
            };
            let stale = &history[history.len().saturating_sub(1 + lag)];
            let scan = |living: &BTreeSet<usize>, before: &Suspicions| {
                let machines: Vec<Machine> =
                    living.iter().map(|n| machine(&format!("m-{n}"), &format!("vm-{n}"))).collect();
                evaluate(&Scan {
                    vms: &listed, owners: &known(living), holders: &Holders::of(&machines), undecodable: &NONE_UNDECODABLE,
                    reach: Reach::Whole, before, outages: &Outages::NONE, policy: &policy, now: at(now),
                })
            };
            let mut findings = scan(stale, &before);
            if !findings.confirmed.is_empty() {
                findings = scan(&living, &before);
            }
            for id in findings.confirmed.keys() {
                let n: usize = id.as_str().trim_start_matches("vm-").parse().unwrap();
                prop_assert!(!living.contains(&n), "{id} belongs to an existing Machine");
                cloud.remove(&n);
            }
            prop_assert!(!policy.safety.orphan_limit.is_exceeded(findings.confirmed.len(), listed.len()));
            before = findings.suspicions;
        }
    }

    #[test]
    fn no_vm_is_suspected_when_all_machines_exist(count in 0usize..200) {
        let names: Vec<(String, String)> = (0..count).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
        let listed = vms(&names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect::<Vec<_>>());
        let owners: BTreeMap<MachineName, Owner> =
            names.iter().map(|(id, name)| (name.as_str().into(), has(id))).collect();
        let old: Suspicions = listed.keys().map(|id| (id.clone(), Timestamp::UNIX_EPOCH)).collect();
        let scan = Scan {
            vms: &listed, owners: &owners, holders: &holders(&owners), undecodable: &NONE_UNDECODABLE,
            reach: Reach::Whole, before: &old, outages: &Outages::NONE, policy: &Policy::default(), now: at(1000),
        };
        prop_assert_eq!(evaluate(&scan), Findings::default());
    }
}

#[test]
fn texts_name_the_reason() {
    assert_eq!(OrphanReason::Duplicate("a".into()).to_string(), "Machine has another VM, a");
    let text = Skipped::TooMany { suspected: 4, of: 5 }.to_string();
    assert_eq!(text, "4 of 5 VMs have no Machine, which exceeds the limit; the observed state may be wrong");
    assert!(Duration::from_mins(20) == Policy::default().creation_timeout);
}

/// Shows LIM-21.
#[test]
fn report_of_500000_vms_names_a_count_and_ten_examples() {
    let skipped = |n: usize| {
        let why = if n == 0 { Skipped::Lost } else { Skipped::TooMany { suspected: 499_999, of: 500_000 } };
        (format!("vm-{n:06}").into(), why)
    };
    let findings = Findings { skipped: (0..500_000).map(skipped).collect(), ..Findings::default() };
    let texts: Vec<String> = findings.skipped_by_reason().iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "one sentence for each reason");
    assert!(texts[0].starts_with("VM vm-000000 has no Machine and is not deleted: "), "{}", texts[0]);
    let many = &texts[1];
    assert!(many.starts_with("499999 VMs have no Machine and are not deleted (vm-000001, "), "{many}");
    assert!(many.contains("vm-000010 and 499989 more): 499999 of 500000 VMs"), "{many}");
    assert!(many.len() < 300, "{many}");
    assert_eq!(findings.too_recent(), None);
    let young =
        Findings { skipped: [("vm".into(), Skipped::TooRecent { until: at(3) })].into(), ..Findings::default() };
    assert!(young.skipped_by_reason().is_empty());
    assert!(young.too_recent().unwrap().to_string().contains("not deleted before 1970-01-01T00:03:00Z"));
}

/// As many as there are examples, one more, and far fewer.
#[rstest]
#[case(1, "VM vm-00 has no Machine and is not deleted: ")]
#[case(2, "2 VMs have no Machine and are not deleted (vm-00, vm-01): ")]
#[case(
    10,
    "10 VMs have no Machine and are not deleted (vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09): "
)]
#[case(
    12,
    "12 VMs have no Machine and are not deleted (vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09 and 2 more): "
)]
fn recently_suspected_vms_are_counted(#[case] count: usize, #[case] texts: &str) {
    let young = |n: usize| (format!("vm-{n:02}").into(), Skipped::TooRecent { until: at(3) });
    let findings = Findings { skipped: (0..count).map(young).collect(), ..Findings::default() };
    let group = findings.too_recent().unwrap();
    assert_eq!(group.count(), count);
    assert!(group.to_string().starts_with(texts), "{group}");
}

fn listed(entries: impl Iterator<Item = usize>) -> BTreeMap<ProviderId, MachineName> {
    entries.map(|n| (format!("vm-{n}").into(), format!("m-{n}").into())).collect()
}

/// Shows LIM-26.
#[test]
fn list_is_too_large_when_all_classes_exceed_the_bound() {
    let policy = SafetyPolicy { orphan_list_entries: 4, orphan_list_bytes: 1000, ..SafetyPolicy::default() };
    let mut list = VmList::default();
    assert_eq!(list.add("a", listed(0..3), &policy), Ok(()));
    assert_eq!(list.add("b", listed(0..4), &policy), Ok(()), "a VM of two MachineClasses counts once");
    assert_eq!((list.vms().len(), &*list.vms()["vm-0"].class), (4, "a"));
    let too_large = list.add("c", listed(4..6), &policy).unwrap_err();
    assert_eq!(too_large.entries, 5);
    let text = "orphan scan is skipped: the drivers list 5 VMs, at most 4 are allowed; \
        check whether the driver of MachineClass \"c\" lists the VMs of other clusters";
    assert_eq!(too_large.to_string(), text);
    assert_eq!(VmList::default().add("d", listed(0..9), &policy).unwrap_err().entries, 9, "not truncated");
}

/// Shows LIM-26.
#[test]
fn list_is_too_large_when_its_names_exceed_the_bound() {
    let policy = SafetyPolicy { orphan_list_bytes: 16, ..SafetyPolicy::default() };
    let mut list = VmList::default();
    assert_eq!(list.add("a", listed(0..2), &policy), Ok(()), "fourteen bytes");
    let text = list.add("b", listed(2..3), &policy).unwrap_err().to_string();
    assert!(text.contains("3 VMs with 21 bytes of IDs and names, at most 16 bytes are allowed"), "{text}");
}
