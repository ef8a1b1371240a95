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
async fn keys_are_returned_once_and_in_order() {
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
async fn metric_shows_a_busy_loop_of_one_key() {
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
async fn key_added_while_it_is_processed_is_processed_again() {
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
async fn delayed_key_keeps_the_earlier_time() {
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
async fn immediate_add_does_not_cancel_a_delayed_one() {
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
async fn failures_of_a_key_double_its_backoff_until_success() {
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
async fn throttled_key_backs_off_exponentially() {
    let queue = queue();
    queue.add(1);
    let start = Instant::now();
    let mut requests = 0;
    while start.elapsed() < Duration::from_mins(1) {
        queue.next().await.finish(Outcome::Throttled { at_least: Duration::from_secs(1) });
        requests += 1;
    }
    // Eight waits are those of the server; after that the exponential backoff, which starts at 5 ms, is longer.
    assert_eq!(requests, 15);
    queue.next().await.finish(Outcome::Done);
    queue.add(1);
    let start = Instant::now();
    queue.next().await.finish(Outcome::Throttled { at_least: Duration::from_secs(1) });
    queue.next().await.finish(Outcome::Done);
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(1),
        "success resets the backoff, and the wait of the server applies"
    );
}

/// Shows MC-W25.
#[tokio::test(start_paused = true)]
async fn failing_key_is_retried_forever() {
    let queue = queue();
    queue.add(1);
    let start = Instant::now();
    for _ in 0..60 {
        queue.next().await.finish(Outcome::Failed);
    }
    // 15 doublings sum to 163 s; the other 44 backoffs are at the maximum.
    assert_eq!(start.elapsed().as_secs(), 163 + 44 * 120);
    assert_eq!(queue.state().failing, [Failing { key: "1".into(), times: 60 }]);
}

/// Shows QUE-3.
#[tokio::test(start_paused = true)]
async fn rate_limit_of_the_queue_spreads_retries() {
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
async fn dropped_work_counts_as_a_failure() {
    let queue = queue();
    queue.add(1);
    drop(queue.next().await);
    let start = Instant::now();
    assert_eq!(next_key(&queue).await, 1);
    assert_eq!(start.elapsed().as_millis(), 5);
}

#[tokio::test(start_paused = true)]
async fn earlier_due_time_wakes_a_waiter() {
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
async fn state_shows_ready_delayed_and_running_keys() {
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
async fn metrics_are_those_of_client_go() {
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
async fn key_is_retried_after_a_panic() {
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
async fn shutdown_takes_no_new_key_and_waits_for_running_work() {
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

/// Records running keys and the last reconcile of each key.
#[derive(Default)]
struct Record {
    running: BTreeSet<u32>,
    most: usize,
    last_reconcile: BTreeMap<u32, Instant>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Shows QUE-4, MC-W4.
    #[test]
    fn each_add_is_followed_by_a_reconcile_without_overlap(
        adds in prop::collection::vec((0u32..8, 0u64..40, any::<bool>()), 1..80), concurrency in 1usize..6, seed: u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let tasks = Tasks::new();
            let record = Arc::new(Mutex::new(Record::default()));
            let clashes = Arc::new(AtomicUsize::new(0));
            let random = Random::seeded(seed);
            let (book, clash) = (Arc::clone(&record), Arc::clone(&clashes));
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
            let mut adds_at = BTreeMap::new();
            for (key, pause, delayed) in adds {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let due = Instant::now() + Duration::from_millis(if delayed { pause } else { 0 });
                queue.add_at(key, due);
                adds_at.insert(key, Instant::now()); // not `due`: the earlier of two times is kept
            }
            tokio::time::sleep(Duration::from_hours(1)).await;
            let record = record.lock();
            prop_assert_eq!(clashes.load(Ordering::Relaxed), 0);
            prop_assert!(record.most <= concurrency);
            for (key, added) in &adds_at {
                prop_assert!(record.last_reconcile.get(key).is_some_and(|at| at >= added), "{key} was lost");
            }
            let state = queue.state();
            prop_assert!(state.ready.is_empty() && state.waiting.is_empty() && state.failing.is_empty(), "{state:?}");
            Ok(())
        })?;
    }
}

/// Shows HTT-1.
#[tokio::test(start_paused = true)]
async fn watchdog_reports_stuck_work_but_not_long_work() {
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
    assert_eq!(stuck[0].what, "reconcile of 2 in queue test");
    let hung = queue.state().running.into_iter().find(|running| running.key == "2").unwrap();
    assert_eq!(hung.silent_for, Duration::from_mins(11));
}

#[tokio::test(start_paused = true)]
async fn waiting_keys_are_not_stuck_without_a_free_worker() {
    let (queue, tasks) = (queue(), Tasks::new());
    let _stopped = tasks.stop_on_drop();
    queue.add(1); // on a standby
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
async fn watchdog_reports_keys_that_are_not_taken() {
    let (queue, tasks) = (queue(), Tasks::new());
    let _stopped = tasks.stop_on_drop();
    spawn_workers(&tasks, queue.clone(), 1, |_| async { Outcome::Done });
    tokio::task::yield_now().await;
    // As if the task that takes keys were stuck: a key is due, and no waiter is woken.
    queue.add_after(1, Duration::from_secs(1));
    let later = Instant::now() + Duration::from_mins(11);
    let workers = Workers::from(1);
    let state = super::workers::check(&Arc::downgrade(&queue.shared), workers, later);
    assert!(matches!(state, crate::watchdog::LoopState::Stuck(stuck) if stuck.what == "queue test"));
}
