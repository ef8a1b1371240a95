use super::*;
use crate::safety::Limit;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use std::collections::BTreeSet;
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

/// Judges at the first connectivity, and again when a creation timeout has passed.
fn in_the_end(vms: &BTreeMap<ProviderId, Listed>, owners: &BTreeMap<MachineName, Owner>) -> Findings {
    let (policy, outages) = (Policy::default(), Outages::NONE);
    let (reach, before) = (Reach::Whole, Suspicions::new());
    let first = Scan { vms, owners, reach, before: &before, outages: &outages, policy: &policy, now: at(0) };
    let first = judge(&first);
    assert!(first.condemned.is_empty(), "nothing goes at first connectivity");
    judge(&Scan { vms, owners, reach, before: &first.suspicions, outages: &outages, policy: &policy, now: at(20) })
}

#[test]
fn a_vm_whose_machine_does_not_exist_goes_after_a_creation_timeout() {
    let findings = in_the_end(&vms(&[("vm-1", "m")]), &owners(&[("m", Owner::Nobody)]));
    assert_eq!(findings.condemned, BTreeMap::from([("vm-1".into(), Charge::NoMachine)]));
}

#[test]
fn of_two_vms_the_one_that_is_not_written_down_goes() {
    let findings = in_the_end(&vms(&[("vm-1", "m"), ("vm-2", "m")]), &owners(&[("m", has("vm-1"))]));
    assert_eq!(findings.condemned, BTreeMap::from([("vm-2".into(), Charge::SecondOf("vm-1".into()))]));
}

#[rstest]
#[case::its_own(has("vm-1"))]
#[case::in_creation_deletion_or_unreadable(Owner::Unsettled)]
#[case::forgotten_by_the_api_server(Owner::Forgotten)]
#[case::under_another_spelling(has("aws:///vm-1"))]
fn a_vm_stays_whose_machine(#[case] owner: Owner) {
    let findings = in_the_end(&vms(&[("vm-1", "m")]), &owners(&[("m", owner)]));
    assert_eq!(findings.condemned, BTreeMap::new());
}

#[test]
fn a_vm_whose_machine_nobody_looked_up_stays() {
    assert_eq!(in_the_end(&vms(&[("vm-1", "m")]), &owners(&[])).condemned, BTreeMap::new());
}

#[rstest]
#[case::new(json!({}), Owner::Unsettled)]
#[case::failing(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "CrashLoopBackOff" } } }), Owner::Unsettled)]
#[case::nothing_written_down(json!({ "status": { "currentStatus": { "phase": "Failed" } } }), Owner::Unsettled)]
#[case::going(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Terminating" } } }), Owner::Unsettled)]
#[case::running(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Running" } } }), has("p"))]
#[case::failed(json!({ "spec": { "providerID": "p" }, "status": { "currentStatus": { "phase": "Failed" } } }), has("p"))]
fn only_a_machine_whose_vm_is_settled_can_have_a_second_one(#[case] machine: serde_json::Value, #[case] owner: Owner) {
    assert_eq!(Owner::of(&serde_json::from_value(machine).unwrap()), owner);
}

#[test]
fn too_many_at_once_are_nobodys_fault_but_ours() {
    let listed: Vec<(String, String)> = (0..4).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let gone: Vec<(&str, Owner)> = listed.iter().map(|(_, name)| (*name, Owner::Nobody)).collect();
    let findings = in_the_end(&vms(&listed), &owners(&gone));
    assert_eq!(findings.condemned, BTreeMap::new());
    assert_eq!(findings.spared["vm-0"], Spared::TooMany { accused: 4, of: 4 });
    assert_eq!(in_the_end(&vms(&listed[..3]), &owners(&gone[..3])).condemned.len(), 3);
}

#[test]
fn an_operator_who_has_looked_may_lift_the_limit() {
    let listed: Vec<(String, String)> = (0..9).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let gone: Vec<(&str, Owner)> = listed.iter().map(|(_, name)| (*name, Owner::Nobody)).collect();
    let mut policy = Policy::default();
    policy.safety.orphan_limit = Limit::Any;
    let before: Suspicions = listed.iter().map(|(id, _)| ((*id).into(), at(0))).collect();
    let findings = judge(&Scan {
        vms: &vms(&listed),
        owners: &owners(&gone),
        reach: Reach::Whole,
        before: &before,
        outages: &Outages::NONE,
        policy: &policy,
        now: at(20),
    });
    assert_eq!(findings.condemned.len(), 9);
}

#[test]
fn time_of_an_outage_makes_nobody_older() {
    let (vms, owners) = (vms(&[("vm-1", "m")]), owners(&[("m", Owner::Nobody)]));
    let before = Suspicions::from([("vm-1".into(), at(0))]);
    let mut outages = Outages::NONE;
    outages.begin(at(5));
    outages.end(at(10));
    let policy = Policy::default();
    let scan = |now| Scan {
        vms: &vms,
        owners: &owners,
        reach: Reach::Whole,
        before: &before,
        outages: &outages,
        policy: &policy,
        now: at(now),
    };
    assert_eq!(judge(&scan(24)).spared, BTreeMap::from([("vm-1".into(), Spared::Young { until: at(25) })]));
    assert_eq!(judge(&scan(25)).condemned.len(), 1);
}

#[test]
fn a_suspicion_ends_when_its_machine_shows_up_and_survives_a_class_that_cannot_be_listed() {
    let before = Suspicions::from([("vm-1".into(), at(0)), ("vm-2".into(), at(0))]);
    let (listed, known) = (vms(&[("vm-1", "m")]), owners(&[("m", has("vm-1"))]));
    let (policy, outages) = (Policy::default(), Outages::NONE);
    let scan = |reach| Scan {
        vms: &listed,
        owners: &known,
        reach,
        before: &before,
        outages: &outages,
        policy: &policy,
        now: at(30),
    };
    assert_eq!(judge(&scan(Reach::Whole)).suspicions, Suspicions::new());
    assert_eq!(judge(&scan(Reach::Partial)).suspicions, Suspicions::from([("vm-2".into(), at(0))]));
}

proptest! {
    /// Machines come and go, VMs too, and the cache is late by up to three steps. The caller's second question is asked of the
    /// truth, as the shell does by reading with quorum.
    #[test]
    fn no_vm_of_a_living_machine_is_ever_condemned(
        steps in prop::collection::vec((0usize..8, any::<bool>(), 0i64..30, 0usize..3), 1..80),
    ) {
        let policy = Policy::default();
        let mut history: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
        let mut cloud: BTreeSet<usize> = BTreeSet::new();
        let (mut before, mut now) = (Suspicions::new(), 0);
        for (machine, lives, gap, lag) in steps {
            now += gap;
            let mut living = history.last().unwrap().clone();
            if lives {
                living.insert(machine); // the machine comes before its VM
                cloud.insert(machine);
            } else {
                living.remove(&machine); // its VM is left behind
            }
            history.push(living.clone());
            let names: Vec<(String, String)> = cloud.iter().map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
            let listed = vms(&names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect::<Vec<_>>());
            let known = |living: &BTreeSet<usize>| -> BTreeMap<MachineName, Owner> {
                cloud
                    .iter()
                    .map(|n| {
                        let owner = if living.contains(n) { has(&format!("vm-{n}")) } else { Owner::Nobody };
                        (format!("m-{n}").into(), owner)
                    })
                    .collect()
            };
            let stale = &history[history.len().saturating_sub(1 + lag)];
            let scan = |owners: &BTreeMap<MachineName, Owner>, before: &Suspicions| judge(&Scan {
                vms: &listed, owners, reach: Reach::Whole, before, outages: &Outages::NONE, policy: &policy, now: at(now),
            });
            let mut findings = scan(&known(stale), &before);
            if !findings.condemned.is_empty() {
                findings = scan(&known(&living), &before);
            }
            for id in findings.condemned.keys() {
                let n: usize = id.as_str().trim_start_matches("vm-").parse().unwrap();
                prop_assert!(!living.contains(&n), "{id} belongs to a living machine");
                cloud.remove(&n);
            }
            prop_assert!(!policy.safety.orphan_limit.is_exceeded(findings.condemned.len(), listed.len()));
            before = findings.suspicions;
        }
    }

    #[test]
    fn who_has_all_its_machines_is_accused_of_nothing(count in 0usize..200) {
        let names: Vec<(String, String)> = (0..count).map(|n| (format!("vm-{n}"), format!("m-{n}"))).collect();
        let listed = vms(&names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect::<Vec<_>>());
        let owners: BTreeMap<MachineName, Owner> =
            names.iter().map(|(id, name)| (name.as_str().into(), has(id))).collect();
        let old: Suspicions = listed.keys().map(|id| (id.clone(), Timestamp::UNIX_EPOCH)).collect();
        let scan = Scan {
            vms: &listed, owners: &owners, reach: Reach::Whole, before: &old,
            outages: &Outages::NONE, policy: &Policy::default(), now: at(1000),
        };
        prop_assert_eq!(judge(&scan), Findings::default());
    }
}

#[test]
fn texts_name_the_reason() {
    assert_eq!(Charge::SecondOf("a".into()).to_string(), "its Machine has another VM, a");
    let text = Spared::TooMany { accused: 4, of: 5 }.to_string();
    assert_eq!(text, "4 of 5 VMs seem to have no Machine, which is too many to believe");
    assert!(Duration::from_mins(20) == Policy::default().creation_timeout);
}

#[test]
fn orphans_in_a_list_of_half_a_million_are_told_in_one_sentence_with_a_count_and_ten_examples() {
    let spared = |n: usize| {
        let why = if n == 0 { Spared::Forgotten } else { Spared::TooMany { accused: 499_999, of: 500_000 } };
        (format!("vm-{n:06}").into(), why)
    };
    let findings = Findings { spared: (0..500_000).map(spared).collect(), ..Findings::default() };
    let told: Vec<String> = findings.held_back().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "a sentence for each reason");
    assert!(told[0].starts_with("VM vm-000000 stays although no Machine claims it: "), "{}", told[0]);
    let many = &told[1];
    assert!(many.starts_with("499999 VMs stay although no Machine claims them (vm-000001, "), "{many}");
    assert!(many.contains("vm-000010 and 499989 more): 499999 of 500000 VMs"), "{many}");
    assert!(many.len() < 300, "{many}");
    assert_eq!(findings.young(), None);
    let young = Findings { spared: [("vm".into(), Spared::Young { until: at(3) })].into(), ..Findings::default() };
    assert!(young.held_back().is_empty());
    assert!(young.young().unwrap().to_string().contains("not before 1970-01-01T00:03:00Z"));
}

/// As many as there are examples, one more, and far fewer.
#[rstest]
#[case(1, "VM vm-00 stays although no Machine claims it: ")]
#[case(2, "2 VMs stay although no Machine claims them (vm-00, vm-01): ")]
#[case(
    10,
    "10 VMs stay although no Machine claims them (vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09): "
)]
#[case(
    12,
    "12 VMs stay although no Machine claims them (vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09 and 2 more): "
)]
fn those_whose_time_has_not_come_are_counted(#[case] count: usize, #[case] told: &str) {
    let young = |n: usize| (format!("vm-{n:02}").into(), Spared::Young { until: at(3) });
    let findings = Findings { spared: (0..count).map(young).collect(), ..Findings::default() };
    let group = findings.young().unwrap();
    assert_eq!(group.count(), count);
    assert!(group.to_string().starts_with(told), "{group}");
}
