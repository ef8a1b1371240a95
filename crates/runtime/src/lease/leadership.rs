//! The handle that tasks use to check whether this process is the leader.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::notes::Notes;
use crate::Clock;

/// Whether this process is the leader. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Clock,
    state: Option<watch::Receiver<ElectionState>>,
    previous_renewal: PreviousRenewal,
    notes: Notes,
    /// Cancelled on shutdown: nothing new may begin.
    shutdown: CancellationToken,
}

/// Time of the last renewal by the previous holder, once the lease is acquired.
pub(super) type PreviousRenewal = Arc<OnceLock<Timestamp>>;

/// State of the election of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionState {
    /// Not elected yet.
    Candidate {
        /// Last observed holder of the lease.
        holder: Option<String>,
    },
    /// Elected until this instant, unless renewed before.
    Leading {
        /// The renew deadline after the last successful renewal was *sent*.
        until: Instant,
    },
    /// Leadership was lost or the election was stopped. This process does not lead again.
    Over(Loss),
}

/// How a leadership ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process is shutting down, or the election task has ended.
    Stopped,
    /// No renewal succeeded before the deadline.
    Expired,
    /// The Lease names another holder, or none.
    Taken {
        /// The new holder, if any.
        by: Option<String>,
    },
}

/// This process is not the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLeading {
    /// Not elected yet.
    #[error("not the leader: the lease is held by {}", holder.as_deref().unwrap_or("an unknown process"))]
    NotYet {
        /// Last observed holder of the lease.
        holder: Option<String>,
    },
    /// The lease was not renewed before the deadline.
    #[error("no longer the leader: the lease was not renewed in time")]
    Expired,
    /// The Lease names another holder, or none.
    #[error("no longer the leader: the lease is held by {}", by.as_deref().unwrap_or("no process"))]
    Taken {
        /// The new holder, if any.
        by: Option<String>,
    },
    /// The process is shutting down.
    #[error("no longer the leader: shutting down")]
    Stopped,
}

impl From<Loss> for NotLeading {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Stopped => Self::Stopped,
            Loss::Expired => Self::Expired,
            Loss::Taken { by } => Self::Taken { by },
        }
    }
}

impl Leadership {
    /// Leadership without an election (`--leader-elect=false`): always the leader.
    pub fn unguarded() -> Self {
        let (previous_renewal, notes, shutdown) =
            (PreviousRenewal::default(), Notes::default(), CancellationToken::new());
        Self { clock: Clock::system(), state: None, previous_renewal, notes, shutdown }
    }

    /// Leadership of a component that does not run in this process: never the leader.
    pub fn never() -> Self {
        let (_, state) = watch::channel(ElectionState::Over(Loss::Stopped));
        Self::guarded(Clock::system(), state, PreviousRenewal::default())
    }

    pub(super) fn guarded(
        clock: Clock,
        state: watch::Receiver<ElectionState>,
        previous_renewal: PreviousRenewal,
    ) -> Self {
        let (notes, shutdown) = (Notes::default(), CancellationToken::new());
        Self { clock, state: Some(state), previous_renewal, notes, shutdown }
    }

    /// Returns the time of the last renewal by the previous holder, by the clock of that holder. `None` if there was none,
    /// before the lease is acquired, and without an election.
    pub fn previous_renewal(&self) -> Option<Timestamp> {
        self.previous_renewal.get().copied()
    }

    /// Returns the notes of the lease; `None` without an election.
    pub fn notes(&self) -> Option<&Notes> {
        self.state.is_some().then_some(&self.notes)
    }

    /// Returns a handle whose [`Leadership::check`] fails once `shutdown` is cancelled, so that nothing new begins. Work in
    /// progress may finish: the lease is held until then, and [`Leadership::lost`] is not affected.
    #[must_use]
    pub fn with_shutdown(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    /// Returns whether this process is the leader now. Must be called immediately before each write, not once per reconcile:
    /// the process may have been paused in between.
    pub fn check(&self) -> Result<(), NotLeading> {
        if self.shutdown.is_cancelled() {
            return Err(NotLeading::Stopped);
        }
        self.check_lease()
    }

    fn check_lease(&self) -> Result<(), NotLeading> {
        let Some(state) = &self.state else { return Ok(()) };
        match &*state.borrow() {
            ElectionState::Leading { until } if self.clock.instant() < *until => Ok(()),
            ElectionState::Leading { .. } => Err(NotLeading::Expired),
            ElectionState::Candidate { holder } => Err(NotLeading::NotYet { holder: holder.clone() }),
            ElectionState::Over(loss) => Err(loss.clone().into()),
        }
    }

    /// Runs `effect` while this process is the leader. It is not started otherwise. If leadership ends, it is dropped, and its
    /// outcome is unknown.
    pub async fn while_leading<T>(&self, effect: impl Future<Output = T>) -> Result<T, NotLeading> {
        self.check()?;
        tokio::select! {
            biased;
            why = self.lost() => Err(why),
            done = effect => Ok(done),
        }
    }

    /// Resolves when leadership, once acquired, has ended. Uses the clock, so it does not depend on the election task.
    pub async fn lost(&self) -> NotLeading {
        let Some(mut state) = self.state.clone() else { return std::future::pending().await };
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                ElectionState::Over(loss) => return loss.into(),
                ElectionState::Leading { until } => {
                    tokio::select! {
                        biased;
                        // First, so that the expiry is handled first after the process was paused.
                        () = tokio::time::sleep_until(until) => {
                            if let Err(why) = self.check_lease() {
                                return why;
                            }
                        }
                        Ok(()) = state.changed() => {}
                    }
                }
                ElectionState::Candidate { .. } => {
                    if state.changed().await.is_err() {
                        return NotLeading::Stopped;
                    }
                }
            }
        }
    }

    /// Waits until this process is the leader. Returns an error if it cannot become the leader any more.
    pub async fn wait_until_leading(&self) -> Result<(), NotLeading> {
        let Some(mut state) = self.state.clone() else { return Ok(()) };
        loop {
            state.borrow_and_update();
            match self.check() {
                Err(NotLeading::NotYet { .. }) => {}
                result => return result,
            }
            if state.changed().await.is_err() {
                return Err(NotLeading::Stopped);
            }
        }
    }

    /// Returns the state of the election; `None` without an election.
    pub fn state(&self) -> Option<ElectionState> {
        self.state.as_ref().map(|state| state.borrow().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn elected_for(seconds: u64) -> (watch::Sender<ElectionState>, Leadership) {
        let until = Instant::now() + Duration::from_secs(seconds);
        let (send, receive) = watch::channel(ElectionState::Leading { until });
        (send, Leadership::guarded(Clock::system(), receive, PreviousRenewal::default()))
    }

    /// Shows LEA-3.
    #[tokio::test(start_paused = true)]
    async fn leadership_ends_at_the_deadline() {
        let (_election, leadership) = elected_for(10);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(leadership.check(), Ok(()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(leadership.check(), Err(NotLeading::Expired));
    }

    /// Shows LEA-4.
    #[tokio::test(start_paused = true)]
    async fn effect_is_dropped_when_leadership_ends() {
        let (_election, leadership) = elected_for(10);
        let endless = leadership.while_leading(std::future::pending::<()>());
        assert_eq!(endless.await, Err(NotLeading::Expired));
        let mut begun = false;
        let never = leadership.while_leading(async { begun = true }).await;
        assert_eq!(never, Err(NotLeading::Expired));
        assert!(!begun);
    }

    #[tokio::test(start_paused = true)]
    async fn effect_continues_after_a_renewal() {
        let (election, leadership) = elected_for(10);
        let effect = leadership.while_leading(async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            election.send_replace(ElectionState::Leading { until: Instant::now() + Duration::from_secs(10) });
            tokio::time::sleep(Duration::from_secs(9)).await;
        });
        assert_eq!(effect.await, Ok(()));
    }

    /// Shows LEA-4.
    #[tokio::test(start_paused = true)]
    async fn effect_is_dropped_when_the_process_was_paused() {
        let (_election, leadership) = elected_for(10);
        let mut acted = false;
        let mut effect = Box::pin(leadership.while_leading(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            acted = true;
        }));
        assert!(futures::poll!(&mut effect).is_pending());
        tokio::time::advance(Duration::from_secs(30)).await; // not polled: the process is paused
        assert_eq!(effect.await, Err(NotLeading::Expired));
        assert!(!acted);
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_is_permanent_without_an_election() {
        let leadership = Leadership::unguarded();
        assert_eq!(leadership.check(), Ok(()));
        assert_eq!(leadership.wait_until_leading().await, Ok(()));
        assert!(tokio::time::timeout(Duration::from_hours(1), leadership.lost()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_lasts_until_its_deadline_when_the_task_ended() {
        let (election, leadership) = elected_for(10);
        drop(election);
        assert_eq!(leadership.check(), Ok(()));
        assert_eq!(leadership.lost().await, NotLeading::Expired);

        let (election, receive) = watch::channel(ElectionState::Candidate { holder: None });
        drop(election);
        let leadership = Leadership::guarded(Clock::system(), receive, PreviousRenewal::default());
        assert_eq!(leadership.wait_until_leading().await, Err(NotLeading::Stopped));
    }

    /// Shows LEA-10.
    #[tokio::test(start_paused = true)]
    async fn work_in_progress_finishes_on_shutdown_and_none_begins() {
        let (_election, leadership) = elected_for(10);
        let shutdown = CancellationToken::new();
        for leadership in [leadership, Leadership::unguarded()] {
            let leadership = leadership.with_shutdown(shutdown.clone());
            let begun = leadership.while_leading(async {
                shutdown.cancel();
                tokio::time::sleep(Duration::from_secs(4)).await;
            });
            assert_eq!(if shutdown.is_cancelled() { Ok(()) } else { begun.await }, Ok(()));
            assert_eq!(leadership.check(), Err(NotLeading::Stopped));
            assert_eq!(leadership.while_leading(async {}).await, Err(NotLeading::Stopped));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn never_is_not_the_leader_and_does_not_block() {
        let leadership = Leadership::never();
        assert_eq!(leadership.check(), Err(NotLeading::Stopped));
        assert_eq!(leadership.wait_until_leading().await, Err(NotLeading::Stopped));
        assert_eq!(leadership.lost().await, NotLeading::Stopped);
    }

    #[test]
    fn error_names_the_cause() {
        let text = NotLeading::NotYet { holder: Some("pod-a_1".into()) }.to_string();
        assert_eq!(text, "not the leader: the lease is held by pod-a_1");
        assert_eq!(
            NotLeading::from(Loss::Expired).to_string(),
            "no longer the leader: the lease was not renewed in time"
        );
    }
}
