mod cluster;

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;
use cluster::{Cluster, Cut, Network};

const SECOND: Duration = Duration::from_secs(1);

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Checks every 100 ms that at most one candidate is the leader.
fn watch(cluster: &Cluster) {
    let checked = cluster.clone();
    cluster.tasks.spawn("watch", async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let leaders = checked.leaders();
            if leaders.len() > 1 {
                checked.violations.lock().push(format!("{leaders:?} led at the same time"));
            }
        }
    });
}

fn assert_no_violation(cluster: &Cluster) {
    assert_eq!(*cluster.violations.lock(), Vec::<String>::new());
    // Terms do not interleave: a process that lost the lease does not act again.
    let mut terms = cluster.acts.lock().clone();
    terms.dedup();
    let mut once = terms.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(terms.len(), once.len(), "terms interleave: {terms:?}");
}

#[tokio::test(start_paused = true)]
async fn first_candidate_leads_and_the_second_waits() {
    let cluster = Cluster::new(1);
    watch(&cluster);
    let first = cluster.start();
    assert_eq!(first.leadership.wait_until_leading().await, Ok(()));
    let second = cluster.start();
    pass(600).await;
    assert_eq!(cluster.leaders(), [0]);
    assert_eq!(second.leadership.check(), Err(NotLeading::NotYet { holder: Some(first.identity.to_string()) }));
    let spec = cluster.spec();
    assert_eq!(spec["holderIdentity"], first.identity.as_str());
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], "2026-01-01T00:00:00.000000Z");
    assert!(spec["renewTime"].as_str().unwrap() >= "2026-01-01T00:09:57.000000Z", "{spec}");
    assert_no_violation(&cluster);
}

/// Shows LEA-2.
#[tokio::test(start_paused = true)]
async fn disconnected_leader_stops_before_the_next_one_starts() {
    for cut in [Cut::Refused, Cut::Silent] {
        let cluster = Cluster::new(2);
        watch(&cluster);
        let first = cluster.start();
        pass(1).await;
        let second = cluster.start();
        pass(60).await;
        let cut_at = Instant::now();
        first.network.lock().cut = Some(cut);
        assert_eq!(first.leadership.lost().await, NotLeading::Expired);
        let stopped = cut_at.elapsed();
        assert!(stopped <= 10 * SECOND, "acted for {stopped:?} without a renewal");
        assert_eq!(second.leadership.wait_until_leading().await, Ok(()));
        let taken = cut_at.elapsed();
        assert!(taken > stopped && taken <= 18 * SECOND, "{stopped:?}, then {taken:?}");
        first.network.lock().cut = None;
        pass(60).await;
        assert_eq!(*first.ended.lock(), Some(Ended::Lost(Loss::Expired)));
        assert_eq!(cluster.spec()["leaseTransitions"], 1);
        assert_no_violation(&cluster);
    }
}

/// Shows LEA-2.
#[tokio::test(start_paused = true)]
async fn paused_process_is_not_the_leader_when_it_resumes() {
    let cluster = Cluster::new(3);
    watch(&cluster);
    let first = cluster.start();
    pass(1).await;
    let second = cluster.start();
    pass(61).await;
    first.pause.set(true);
    pass(60).await;
    assert_eq!(cluster.leaders(), [1]);
    assert_eq!(first.leadership.check(), Err(NotLeading::Expired));
    let acts_before = cluster.acts.lock().iter().filter(|n| **n == 0).count();
    first.pause.set(false);
    pass(60).await;
    assert_eq!(cluster.acts.lock().iter().filter(|n| **n == 0).count(), acts_before);
    assert_eq!(second.leadership.check(), Ok(()));
    assert_eq!(*first.ended.lock(), Some(Ended::Lost(Loss::Expired)));
    assert_no_violation(&cluster);
}

/// Shows LEA-3.
#[tokio::test(start_paused = true)]
async fn slow_responses_do_not_extend_leadership() {
    let cluster = Cluster::new(4);
    watch(&cluster);
    let first = cluster.start();
    first.network.lock().back = 4 * SECOND;
    let sent = Instant::now() + 4 * SECOND; // the read takes 4 s, then the create is sent
    first.leadership.wait_until_leading().await.unwrap();
    assert_eq!(sent.elapsed(), 4 * SECOND);
    assert_eq!(first.leadership.state(), Some(ElectionState::Leading { until: sent + 10 * SECOND }));
    cluster.start();
    pass(300).await;
    assert_eq!(cluster.leaders(), [0], "4 s are within the renew deadline");
    assert_no_violation(&cluster);
}

/// Shows LEA-7.
#[tokio::test(start_paused = true)]
async fn lease_is_kept_when_the_response_to_a_renewal_is_lost() {
    let cluster = Cluster::new(5);
    watch(&cluster);
    let first = cluster.start();
    cluster.start();
    pass(5).await;
    first.network.lock().lost_responses = 1;
    pass(60).await;
    assert_eq!(cluster.leaders(), [0]);
    assert_no_violation(&cluster);
}

/// Shows LEA-7.
#[tokio::test(start_paused = true)]
async fn lease_is_acquired_when_the_response_to_the_create_is_lost() {
    let cluster = Cluster::new(6);
    watch(&cluster);
    let first = cluster.start();
    // The read succeeds. The create is executed, and its response is lost.
    first.network.lock().there = SECOND;
    pass(0).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    first.network.lock().lost_responses = 1;
    first.leadership.wait_until_leading().await.unwrap();
    assert_eq!(cluster.spec()["leaseTransitions"], 0);
    assert_no_violation(&cluster);
}

/// Shows LEA-5.
#[tokio::test(start_paused = true)]
async fn lease_is_released_after_leadership_has_ended() {
    let cluster = Cluster::new(7);
    watch(&cluster);
    let first = cluster.start();
    pass(1).await;
    let second = cluster.start();
    pass(30).await;
    let stopped = Instant::now();
    first.network.lock().there = SECOND;
    first.stop.cancel();
    assert_eq!(first.leadership.lost().await, NotLeading::Stopped);
    assert_eq!(stopped.elapsed(), Duration::ZERO);
    second.leadership.wait_until_leading().await.unwrap();
    assert!(stopped.elapsed() >= SECOND && stopped.elapsed() < 6 * SECOND, "{:?}", stopped.elapsed());
    assert_eq!(*first.ended.lock(), Some(Ended::Stopped));
    assert_no_violation(&cluster);
}

#[tokio::test(start_paused = true)]
async fn released_lease_has_no_holder_and_one_second() {
    let cluster = Cluster::new(8);
    let only = cluster.start();
    pass(10).await;
    only.stop.cancel();
    pass(1).await;
    let spec = cluster.spec();
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert_eq!(spec["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn leader_stops_when_the_lease_was_changed_or_deleted() {
    let other = json!({"holderIdentity": "other", "leaseDurationSeconds": 15});
    let cases = [
        (Some(other), Some("other".to_owned())),
        (Some(json!({"holderIdentity": "", "leaseDurationSeconds": 1})), None),
        (None, None),
    ];
    for (spec, by) in cases {
        let cluster = Cluster::new(9);
        let only = cluster.start();
        pass(10).await;
        cluster.tamper(spec);
        assert_eq!(only.leadership.lost().await, NotLeading::Taken { by });
    }
}

/// Shows LEA-1.
#[tokio::test(start_paused = true)]
async fn lease_held_by_a_go_replica_is_respected() {
    let cluster = Cluster::new(10);
    cluster.tamper(Some(json!({
        "holderIdentity": "go-replica", "leaseDurationSeconds": 40, "leaseTransitions": 7,
        "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
    })));
    let candidate = cluster.start();
    let start = Instant::now();
    candidate.leadership.wait_until_leading().await.unwrap();
    assert_eq!(start.elapsed(), 40 * SECOND, "counted from the first observation, not from its times");
    assert_eq!(cluster.spec()["leaseTransitions"], 8);
    assert_eq!(candidate.leadership.previous_renewal(), Some("2020-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!(Cluster::new(10).start().leadership.previous_renewal(), None);
}

/// Injects random faults for ten minutes, then removes all faults and expects one leader.
async fn random_faults(seed: u64) {
    let cluster = Cluster::new(seed);
    watch(&cluster);
    let chance = cluster.random.fork();
    for _ in 0..3 {
        cluster.start();
    }
    let end = Instant::now() + Duration::from_mins(10);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(chance.below(6000))).await;
        let processes = cluster.processes.lock().clone();
        let running: Vec<_> = processes.iter().filter(|process| process.ended.lock().is_none()).collect();
        if running.len() < 3 {
            cluster.start();
        }
        // Mostly the leader: faults of a standby have no effect.
        let leader = running.iter().find(|process| process.leadership.check().is_ok());
        let any = running.get(usize::try_from(chance.below(3)).unwrap());
        let Some(process) = (if chance.below(2) == 0 { leader } else { any }) else { continue };
        let up_to = |seconds: u64| Duration::from_millis(chance.below(seconds * 1000));
        match chance.below(8) {
            0 => process.network.lock().cut = Some(if chance.below(2) == 0 { Cut::Refused } else { Cut::Silent }),
            1 => process.network.lock().there = up_to(12),
            2 => process.network.lock().back = up_to(12),
            3 => process.network.lock().lost_responses = u32::try_from(chance.below(3)).unwrap(),
            4 => process.pause.set(true),
            5 => process.stop.cancel(),
            6 => process.pause.set(false),
            _ => *process.network.lock() = Network::default(),
        }
        if chance.below(3) == 0 {
            for process in &processes {
                process.pause.set(false);
            }
        }
    }
    for process in cluster.processes.lock().iter() {
        *process.network.lock() = Network::default();
        process.pause.set(false);
    }
    pass(30).await;
    cluster.start();
    pass(60).await;
    assert_eq!(cluster.leaders().len(), 1, "seed {seed}: no leader after all faults were removed");
    assert!(cluster.acts.lock().len() > 20, "seed {seed}: too few acts");
    assert_no_violation(&cluster);
    cluster.tasks.stop();
}

/// Shows LEA-2.
#[test]
fn random_faults_never_lead_to_two_leaders() {
    for seed in 0..12 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(random_faults(seed));
    }
}

#[tokio::test(start_paused = true)]
async fn notes_are_received_by_the_next_leader() {
    let cluster = Cluster::new(31);
    let first = cluster.start();
    first.leadership.wait_until_leading().await.unwrap();
    let notes = first.leadership.notes().unwrap();
    assert_eq!(notes.received("a.example.org/note"), None);
    notes.publish("a.example.org/note", || Note::Set("a note".to_owned()));
    pass(10).await;
    first.network.lock().cut = Some(Cut::Refused);
    let second = cluster.start();
    second.leadership.wait_until_leading().await.unwrap();
    let found = second.leadership.notes().unwrap().received("a.example.org/note");
    assert_eq!(found.as_deref(), Some("a note"));
    pass(60).await;
    assert!(cluster.annotations().to_string().contains("a note"), "a leader without notes preserves the annotation");
}

/// Shows LIM-20.
#[tokio::test(start_paused = true)]
async fn lease_is_kept_when_the_api_server_rejects_a_note() {
    let cluster = Cluster::new(32);
    let first = cluster.start();
    first.leadership.wait_until_leading().await.unwrap();
    cluster.reject_annotations();
    first.leadership.notes().unwrap().publish("a.example.org/note", || Note::Set("no".to_owned()));
    pass(600).await;
    assert_eq!(first.leadership.check(), Ok(()));
    assert!(!cluster.annotations().to_string().contains("example"));
}
