use super::*;
use crate::Tasks;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

fn queue() -> Queue<u32> {
    queue_with(RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }).0
}

fn queue_with(policy: RetryPolicy) -> (Queue<u32>, Metrics) {
    let metrics = Metrics::new().unwrap();
    (Queue::new("test", policy, &metrics, &Random::seeded(1)), metrics)
}

async fn next_key(queue: &Queue<u32>) -> u32 {
    let work = queue.next().await;
    let key = *work.key();
    work.finish(Outcome::Done);
    key
}

/// Shows QUE-1.
#[tokio::test(start_paused = true)]
async fn keys_come_out_once_and_in_the_order_they_came() {
    let queue = queue();
    for key in [3, 1, 3, 2, 1] {
        queue.add(key);
    }
    assert_eq!([next_key(&queue).await, next_key(&queue).await, next_key(&queue).await], [3, 1, 2]);
    assert!(queue.is_empty());
}

/// Shows QUE-11.
#[tokio::test(start_paused = true)]
async fn closed_queue_drops_keys_until_it_is_opened() {
    let queue = queue().closed();
    let wake = Coalesced::new(queue.clone(), Duration::from_secs(1));
    queue.add(1);
    queue.add_after(2, Duration::from_secs(1));
    wake.add(3);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(queue.is_empty() && queue.state().waiting.is_empty());
    queue.open();
    queue.add(4);
    assert_eq!(next_key(&queue).await, 4);
}

/// Shows QUE-12.
#[tokio::test(start_paused = true)]
async fn busy_loop_of_one_key_shows_in_the_metrics() {
    let (queue, metrics) = queue_with(RetryPolicy::default());
    queue.add(1);
    for _ in 0..500 {
        queue.next().await.finish(Outcome::Again { after: Duration::ZERO });
    }
    let shown = metrics.encode().unwrap();
    assert!(shown.contains("millwright_workqueue_busiest_key_reconciles{name=\"test\"} 500"), "{shown}");
}

/// Shows QUE-1.
#[tokio::test(start_paused = true)]
async fn a_key_wanted_while_it_is_worked_on_runs_once_afterwards() {
    let queue = queue();
    queue.add(1);
    let work = queue.next().await;
    queue.add(1);
    queue.add(1);
    let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
    assert!(none.is_err(), "one key was given to two workers");
    work.finish(Outcome::Done);
    assert_eq!(next_key(&queue).await, 1);
    assert!(queue.is_empty());
}

/// Shows QUE-2.
#[tokio::test(start_paused = true)]
async fn a_waiting_key_keeps_the_earlier_of_two_times() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, Duration::from_secs(10));
    queue.add_after(1, Duration::from_secs(5));
    queue.add_after(1, Duration::from_secs(20));
    assert_eq!(next_key(&queue).await, 1);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(queue.state().waiting.is_empty());
}

/// Shows QUE-2.
#[tokio::test(start_paused = true)]
async fn an_immediate_add_does_not_cancel_a_delayed_one() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, Duration::from_secs(10));
    queue.add(1);
    next_key(&queue).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    next_key(&queue).await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

/// Shows QUE-3, MD-D3, MD-D13, MS-W7.
#[tokio::test(start_paused = true)]
async fn failures_of_one_key_double_its_pause_until_it_is_forgotten() {
    let queue = queue();
    queue.add(1);
    let mut pauses = Vec::new();
    for outcome in [
        Outcome::Failed,
        Outcome::Failed,
        Outcome::Failed,
        Outcome::Again { after: Duration::ZERO },
        Outcome::Failed,
        Outcome::Done,
    ] {
        let start = Instant::now();
        let work = queue.next().await;
        pauses.push(start.elapsed().as_millis());
        work.finish(outcome);
    }
    assert_eq!(pauses, [0, 5, 10, 20, 0, 5]);
    assert_eq!(queue.state().failing, []);
}

/// Shows QUE-9.
#[tokio::test(start_paused = true)]
async fn a_server_that_throttles_for_long_is_asked_less_and_less_often() {
    let queue = queue();
    queue.add(1);
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < Duration::from_mins(1) {
        queue.next().await.finish(Outcome::Throttled { at_least: Duration::from_secs(1) });
        asked += 1;
    }
    // Eight pauses are the word of the server; after those the one that doubles from 5 ms is longer.
    assert_eq!(asked, 15);
    queue.next().await.finish(Outcome::Done);
    queue.add(1);
    let start = Instant::now();
    queue.next().await.finish(Outcome::Throttled { at_least: Duration::from_secs(1) });
    queue.next().await.finish(Outcome::Done);
    assert_eq!(start.elapsed(), Duration::from_secs(1), "what went through is forgiven, and the server's word counts");
}

/// Shows MC-W25.
#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_is_never_dropped() {
    let queue = queue();
    queue.add(1);
    let start = Instant::now();
    for _ in 0..60 {
        queue.next().await.finish(Outcome::Failed);
    }
    // 15 doublings sum to 163 s, the other 44 pauses are at the cap.
    assert_eq!(start.elapsed().as_secs(), 163 + 44 * 120);
    assert_eq!(queue.state().failing, [Failing { key: "1".into(), times: 60 }]);
}

/// Shows QUE-3.
#[tokio::test(start_paused = true)]
async fn the_bucket_of_the_queue_spreads_many_first_failures() {
    let queue = queue();
    let start = Instant::now();
    for key in 0..120 {
        queue.add_rate_limited(key);
    }
    for _ in 0..100 {
        next_key(&queue).await;
    }
    assert_eq!(start.elapsed().as_millis(), 5);
    for _ in 0..20 {
        next_key(&queue).await;
    }
    assert_eq!(start.elapsed().as_millis(), 2000);
}

#[tokio::test(start_paused = true)]
async fn abandoned_work_comes_back_as_a_failure() {
    let queue = queue();
    queue.add(1);
    drop(queue.next().await);
    let start = Instant::now();
    assert_eq!(next_key(&queue).await, 1);
    assert_eq!(start.elapsed().as_millis(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_time_reaches_a_waiter_that_already_sleeps() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, Duration::from_secs(100));
    let tasks = Tasks::new();
    let other = queue.clone();
    tasks.spawn("late", async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        other.add_after(2, Duration::from_secs(2));
    });
    assert_eq!(next_key(&queue).await, 2);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn the_state_says_what_waits_until_when_and_what_runs_since_when() {
    let queue = queue();
    queue.add(1);
    let work = queue.next().await;
    queue.add(2);
    queue.add_after(3, Duration::from_secs(30));
    tokio::time::advance(Duration::from_secs(4)).await;
    queue.add(1);
    let state = serde_json::to_value(queue.state()).unwrap();
    assert_eq!(
        state,
        serde_json::json!({
            "name": "test",
            "ready": [{"key": "2", "wantedForSeconds": 4.0}],
            "waiting": [{"key": "3", "dueInSeconds": 26.0}],
            "running": [{"key": "1", "runningForSeconds": 4.0, "silentForSeconds": 0.0, "wantedAgain": true}],
            "failing": [],
        })
    );
    work.finish(Outcome::Done);
}

/// Shows QUE-6.
#[tokio::test(start_paused = true)]
async fn metrics_count_what_client_go_counts() {
    let (queue, metrics) = queue_with(RetryPolicy::default());
    queue.add(1);
    queue.add(1);
    queue.add(2);
    let work = queue.next().await;
    tokio::time::advance(Duration::from_secs(3)).await;
    let line = |text: &str| metrics.encode().unwrap().lines().any(|line| line == text);
    assert!(line("mcm_workqueue_adds_total{name=\"test\"} 2"));
    assert!(line("mcm_workqueue_depth{name=\"test\"} 1"));
    assert!(line("mcm_workqueue_unfinished_work_seconds{name=\"test\"} 3"));
    assert!(line("mcm_workqueue_longest_running_processor_seconds{name=\"test\"} 3"));
    work.finish(Outcome::Failed);
    assert!(line("mcm_workqueue_retries_total{name=\"test\"} 1"));
    assert!(line("mcm_workqueue_work_duration_seconds_sum{name=\"test\"} 3"));
    assert!(line("mcm_workqueue_unfinished_work_seconds{name=\"test\"} 0"));
    next_key(&queue).await;
    assert!(line("mcm_workqueue_queue_duration_seconds_count{name=\"test\"} 2"));
    assert!(line("mcm_workqueue_queue_duration_seconds_sum{name=\"test\"} 3"));
}

/// Shows QUE-5, MC-W56.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_reconcile_of_one_key() {
    let (queue, metrics) = queue_with(RetryPolicy::default());
    let tasks = Tasks::new();
    let passes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&passes);
    spawn_workers(&tasks, queue.clone(), 2, move |key: u32| {
        let first = !seen.lock().contains(&key);
        seen.lock().push(key);
        assert!(!(key == 1 && first), "on purpose");
        std::future::ready(Outcome::Done)
    });
    queue.add(1);
    queue.add(2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*passes.lock(), [1, 2, 1]);
    assert!(metrics.encode().unwrap().contains("millwright_workqueue_panics_total{name=\"test\"} 1\n"));
    assert!(!tasks.stopping().is_cancelled());
}

/// Shows QUE-8.
#[tokio::test(start_paused = true)]
async fn stopping_takes_no_new_key_and_waits_for_work_that_has_begun() {
    let queue = queue();
    let tasks = Tasks::new();
    let finished = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&finished);
    spawn_workers(&tasks, queue.clone(), 1, move |key: u32| {
        let seen = Arc::clone(&seen);
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            seen.lock().push(key);
            Outcome::Done
        }
    });
    queue.add(1);
    queue.add(2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tasks.shut_down(Duration::from_secs(10)).await, crate::tasks::Ended::Clean);
    assert_eq!(*finished.lock(), [1]);
    assert_eq!(queue.len(), 1);
}

/// Which keys are being worked on, and how often each was.
#[derive(Default)]
struct Ledger {
    running: BTreeSet<u32>,
    most: usize,
    last_reconcile: BTreeMap<u32, Instant>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Shows QUE-4, MC-W4.
    #[test]
    fn no_key_is_ever_with_two_workers_and_every_wish_is_followed_by_a_reconcile(
        adds in prop::collection::vec((0u32..8, 0u64..40, any::<bool>()), 1..80), concurrency in 1usize..6, seed: u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let tasks = Tasks::new();
            let ledger = Arc::new(Mutex::new(Ledger::default()));
            let clashes = Arc::new(AtomicUsize::new(0));
            let random = Random::seeded(seed);
            let (book, clash) = (Arc::clone(&ledger), Arc::clone(&clashes));
            spawn_workers(&tasks, queue.clone(), concurrency, move |key: u32| {
                let (book, clash, random) = (Arc::clone(&book), Arc::clone(&clash), random.clone());
                async move {
                    {
                        let mut book = book.lock();
                        if !book.running.insert(key) {
                            clash.fetch_add(1, Ordering::Relaxed);
                        }
                        book.most = book.most.max(book.running.len());
                        book.last_reconcile.insert(key, Instant::now());
                    }
                    tokio::time::sleep(Duration::from_millis(random.below(30))).await;
                    book.lock().running.remove(&key);
                    match random.below(4) {
                        0 => Outcome::Failed,
                        1 => Outcome::Again { after: Duration::from_millis(random.below(50)) },
                        _ => Outcome::Done,
                    }
                }
            });
            let mut wishes = BTreeMap::new();
            for (key, pause, delayed) in adds {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let due = Instant::now() + Duration::from_millis(if delayed { pause } else { 0 });
                queue.add_at(key, due);
                wishes.insert(key, Instant::now()); // not `due`: of two times the earlier one is kept
            }
            tokio::time::sleep(Duration::from_hours(1)).await;
            let ledger = ledger.lock();
            prop_assert_eq!(clashes.load(Ordering::Relaxed), 0);
            prop_assert!(ledger.most <= concurrency);
            for (key, wish) in &wishes {
                prop_assert!(ledger.last_reconcile.get(key).is_some_and(|pass| pass >= wish), "{key} was lost");
            }
            let state = queue.state();
            prop_assert!(state.ready.is_empty() && state.waiting.is_empty() && state.failing.is_empty(), "{state:?}");
            Ok(())
        })?;
    }
}

/// Shows HTT-1.
#[tokio::test(start_paused = true)]
async fn work_that_hangs_shows_and_work_that_merely_lasts_does_not() {
    let (queue, tasks) = (queue(), Tasks::new());
    let _stopped = tasks.stop_on_drop();
    spawn_workers(&tasks, queue.clone(), 2, |key| async move {
        match key {
            1 => {
                for _ in 0..100 {
                    tokio::time::sleep(Duration::from_mins(1)).await;
                }
            }
            _ => std::future::pending().await,
        }
        Outcome::Done
    });
    queue.add(1);
    tokio::time::sleep(Duration::from_mins(90)).await;
    assert_eq!(tasks.watchdog().stuck(), []);
    queue.add(2);
    tokio::time::sleep(Duration::from_mins(11)).await;
    let stuck = tasks.watchdog().stuck();
    assert_eq!(stuck.len(), 1);
    assert_eq!(stuck[0].what, "the work on 2 (queue test)");
    let hung = queue.state().running.into_iter().find(|running| running.key == "2").unwrap();
    assert_eq!(hung.silent_for, Duration::from_mins(11));
}

#[tokio::test(start_paused = true)]
async fn keys_that_wait_for_workers_that_have_not_begun_or_are_all_busy_are_nobody_s_fault() {
    let (queue, tasks) = (queue(), Tasks::new());
    let _stopped = tasks.stop_on_drop();
    queue.add(1); // on a standby, for days
    tokio::time::sleep(Duration::from_hours(48)).await;
    assert_eq!(tasks.watchdog().stuck(), []);
    spawn_workers(&tasks, queue.clone(), 1, |_| async {
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        Outcome::Done
    });
    queue.add(2);
    tokio::time::sleep(Duration::from_hours(5)).await;
    assert_eq!(tasks.watchdog().stuck(), []);
}

/// Shows HTT-1.
#[tokio::test(start_paused = true)]
async fn a_queue_from_which_nobody_takes_shows_while_it_should_be_attended() {
    let (queue, tasks) = (queue(), Tasks::new());
    let _stopped = tasks.stop_on_drop();
    spawn_workers(&tasks, queue.clone(), 1, |_| async { Outcome::Done });
    tokio::task::yield_now().await;
    // As if the task that hands out keys were lost: a key is due, and time passes without anyone being woken.
    queue.add_after(1, Duration::from_secs(1));
    let looked_at = Instant::now() + Duration::from_mins(11);
    let workers = Workers::from(1);
    let look = super::workers::look(&Arc::downgrade(&queue.shared), workers, looked_at);
    assert!(matches!(look, crate::watchdog::Look::Stuck(stuck) if stuck.what == "the queue test"));
}
