//! A driver that is replaced by another version.

use std::time::Duration;

use runtime::{Backoff, Exponential, Random};
use tokio::sync::watch;
use tokio::time::Instant;

/// Waits between two changes that are followed.
const WAITS: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_mins(5));
const JITTER: f64 = 0.5;
/// If this time passes without a change, the next one is followed at once again.
const STABLE_AFTER: Duration = Duration::from_mins(10);

/// Calls `retry` after each change of the driver, the first time at once and then with backoff.
///
/// A change resets the backoff of all failed driver calls, because another driver may succeed. A driver that reports another
/// version on every connection would otherwise be called without backoff. Changes that occur during a wait are followed
/// together at its end, so the last version is never missed.
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
    async fn changes_are_followed_with_backoff_when_they_repeat() {
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
        assert_eq!(followed(), 1, "the first change is followed at once");
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
        assert_eq!(followed(), before + 3, "after a stable period the waits begin again");
    }
}
