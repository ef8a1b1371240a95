//! Retries failed driver calls when a driver is replaced by another version.

use std::time::Duration;

use runtime::{Backoff, Exponential, Random};
use tokio::sync::watch;
use tokio::time::Instant;

/// Waits between two retries.
const WAITS: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_mins(5));
const JITTER: f64 = 0.5;
/// If no change occurs for this time, the backoff is reset.
const STABLE_AFTER: Duration = Duration::from_mins(10);

/// Calls `retry` after each change of the driver, the first time immediately and then with backoff.
///
/// A change resets the backoff of all failed driver calls, because another driver may succeed. Without a backoff of its
/// own, a driver that reports another version on every connection would be called continuously. Changes that occur
/// during a wait cause one call of `retry` at its end, so that no version is missed.
pub(super) async fn follow(mut changes: watch::Receiver<u64>, random: Random, mut retry: impl FnMut()) {
    let (mut backoff, mut last) = (Backoff::new(WAITS), None::<Instant>);
    while changes.changed().await.is_ok() {
        retry();
        if last.is_some_and(|last| last.elapsed() >= STABLE_AFTER) {
            backoff.reset();
        }
        last = Some(Instant::now());
        tokio::time::sleep(random.stretched(backoff.failed(), JITTER)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use runtime::Tasks;

    use super::*;

    /// Shows REM-13.
    #[tokio::test(start_paused = true)]
    async fn retries_back_off_when_changes_repeat() {
        let (sender, receiver) = watch::channel(0_u64);
        let (tasks, count) = (Tasks::new(), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        tasks.spawn(
            "follow",
            follow(receiver, Random::seeded(1), move || {
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        );
        let followed = || count.load(Ordering::SeqCst);
        let play = async |times: u32| {
            for _ in 0..times {
                sender.send_modify(|version| *version += 1);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        play(1).await;
        assert_eq!(followed(), 1, "the first change is followed immediately");
        play(3600).await;
        assert!((10..22).contains(&followed()), "{} in an hour", followed());

        // The last version is followed, at the end of the longest wait.
        let before = followed();
        play(1).await;
        tokio::time::sleep(Duration::from_secs(450)).await;
        assert_eq!(followed(), before + 1);

        tokio::time::sleep(STABLE_AFTER).await;
        play(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        play(1).await;
        assert_eq!(followed(), before + 3, "the backoff is reset after a stable period");
    }
}
