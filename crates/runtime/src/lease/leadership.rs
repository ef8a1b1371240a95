//! The handle everyone who acts holds: may I, still?

use std::future::Future;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::notes::Notes;
use crate::Clock;

/// The right to act. Cheap to clone; all clones agree.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Clock,
    standing: Option<watch::Receiver<Standing>>,
    vacancy: Vacancy,
    notes: Notes,
    /// Cancelled when nothing new may begin any more.
    retiring: CancellationToken,
}

/// When the last holder before us renewed, once we have won: until then at least somebody led.
pub(super) type Vacancy = Arc<OnceLock<Timestamp>>;

/// Where a candidate stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not elected yet.
    Candidate {
        /// Who holds the lease, as far as we know.
        holder: Option<String>,
    },
    /// Elected; may act until this instant unless renewed before.
    Leading {
        /// A renew deadline after the last successful renewal was *sent*.
        until: Instant,
    },
    /// It was elected or stopped standing, and will not lead again.
    Over(Loss),
}

/// How a leadership ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// We were asked to stop, or the election itself is gone.
    Stopped,
    /// No renewal succeeded before the deadline.
    Expired,
    /// The record no longer names us.
    Taken {
        /// Whom it names, if anyone.
        by: Option<String>,
    },
}

/// The right to act is not, or no longer, ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLeading {
    /// Not elected yet.
    #[error("not the leader yet: the lease is held by {}", holder.as_deref().unwrap_or("nobody we know of"))]
    NotYet {
        /// Who holds the lease, as far as we know.
        holder: Option<String>,
    },
    /// The time ran out without a renewal.
    #[error("no longer the leader: the lease was not renewed in time")]
    Expired,
    /// Somebody else wrote the record.
    #[error("no longer the leader: the lease now belongs to {}", by.as_deref().unwrap_or("nobody"))]
    Taken {
        /// Whom it names, if anyone.
        by: Option<String>,
    },
    /// We stopped standing.
    #[error("no longer the leader: asked to stop")]
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
    /// The right of a process that runs without an election (`--leader-elect=false`): it always holds.
    pub fn unguarded() -> Self {
        let (vacancy, notes, retiring) = (Vacancy::default(), Notes::default(), CancellationToken::new());
        Self { clock: Clock::system(), standing: None, vacancy, notes, retiring }
    }

    /// The right of whoever is not run here: it never holds.
    pub fn never() -> Self {
        let (_, standing) = watch::channel(Standing::Over(Loss::Stopped));
        Self::guarded(Clock::system(), standing, Vacancy::default())
    }

    pub(super) fn guarded(clock: Clock, standing: watch::Receiver<Standing>, vacancy: Vacancy) -> Self {
        let (notes, retiring) = (Notes::default(), CancellationToken::new());
        Self { clock, standing: Some(standing), vacancy, notes, retiring }
    }

    /// Since when nobody led before us, by the clock of whoever led last; `None` if nobody ever did, before we have won and without
    /// an election.
    pub fn vacant_since(&self) -> Option<Timestamp> {
        self.vacancy.get().copied()
    }

    /// What leaders leave for each other; `None` without an election.
    pub fn notes(&self) -> Option<&Notes> {
        self.standing.is_some().then_some(&self.notes)
    }

    /// The same right, which from `retiring` on lets nothing new begin. What has begun may end in peace: the lease is held on to
    /// until it has, so [`Leadership::lost`] is not moved by it.
    #[must_use]
    pub fn retiring_with(self, retiring: CancellationToken) -> Self {
        Self { retiring, ..self }
    }

    /// Whether we may act at this very instant. To be asked right before each effect, not once per reconcile: a process may have
    /// been paused in between.
    pub fn check(&self) -> Result<(), NotLeading> {
        if self.retiring.is_cancelled() {
            return Err(NotLeading::Stopped);
        }
        self.check_lease()
    }

    fn check_lease(&self) -> Result<(), NotLeading> {
        let Some(standing) = &self.standing else { return Ok(()) };
        match &*standing.borrow() {
            Standing::Leading { until } if self.clock.instant() < *until => Ok(()),
            Standing::Leading { .. } => Err(NotLeading::Expired),
            Standing::Candidate { holder } => Err(NotLeading::NotYet { holder: holder.clone() }),
            Standing::Over(loss) => Err(loss.clone().into()),
        }
    }

    /// Runs `effect` while we may act. It does not begin without the right, and it is dropped where it stands when the right
    /// ends, in which case its outcome is unknown.
    pub async fn while_leading<T>(&self, effect: impl Future<Output = T>) -> Result<T, NotLeading> {
        self.check()?;
        tokio::select! {
            biased;
            why = self.lost() => Err(why),
            done = effect => Ok(done),
        }
    }

    /// Resolves when the right, once held, has ended. Driven by the clock, so it does not depend on the election being alive.
    pub async fn lost(&self) -> NotLeading {
        let Some(mut standing) = self.standing.clone() else { return std::future::pending().await };
        loop {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::Over(loss) => return loss.into(),
                Standing::Leading { until } => {
                    tokio::select! {
                        biased;
                        // First, so that a woken process sees the expiry before anything else it wakes up to.
                        () = tokio::time::sleep_until(until) => {
                            if let Err(why) = self.check_lease() {
                                return why;
                            }
                        }
                        Ok(()) = standing.changed() => {}
                    }
                }
                Standing::Candidate { .. } => {
                    if standing.changed().await.is_err() {
                        return NotLeading::Stopped;
                    }
                }
            }
        }
    }

    /// Waits until we may act, or until it is certain that we never will.
    pub async fn wait_until_leading(&self) -> Result<(), NotLeading> {
        let Some(mut standing) = self.standing.clone() else { return Ok(()) };
        loop {
            standing.borrow_and_update();
            match self.check() {
                Err(NotLeading::NotYet { .. }) => {}
                certain => return certain,
            }
            if standing.changed().await.is_err() {
                return Err(NotLeading::Stopped);
            }
        }
    }

    /// Where we stand, for `/debug/state`; `None` without an election.
    pub fn standing(&self) -> Option<Standing> {
        self.standing.as_ref().map(|standing| standing.borrow().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn elected_for(seconds: u64) -> (watch::Sender<Standing>, Leadership) {
        let until = Instant::now() + Duration::from_secs(seconds);
        let (send, receive) = watch::channel(Standing::Leading { until });
        (send, Leadership::guarded(Clock::system(), receive, Vacancy::default()))
    }

    /// Shows LEA-3.
    #[tokio::test(start_paused = true)]
    async fn the_right_ends_by_time_alone() {
        let (_election, leadership) = elected_for(10);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(leadership.check(), Ok(()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(leadership.check(), Err(NotLeading::Expired));
    }

    /// Shows LEA-4.
    #[tokio::test(start_paused = true)]
    async fn an_effect_is_dropped_when_the_right_ends_and_not_begun_without_it() {
        let (_election, leadership) = elected_for(10);
        let endless = leadership.while_leading(std::future::pending::<()>());
        assert_eq!(endless.await, Err(NotLeading::Expired));
        let mut begun = false;
        let never = leadership.while_leading(async { begun = true }).await;
        assert_eq!(never, Err(NotLeading::Expired));
        assert!(!begun);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_prolongs_an_effect_in_flight() {
        let (election, leadership) = elected_for(10);
        let effect = leadership.while_leading(async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            election.send_replace(Standing::Leading { until: Instant::now() + Duration::from_secs(10) });
            tokio::time::sleep(Duration::from_secs(9)).await;
        });
        assert_eq!(effect.await, Ok(()));
    }

    /// Shows LEA-4.
    #[tokio::test(start_paused = true)]
    async fn an_effect_that_is_ready_when_a_paused_process_wakes_is_still_not_carried_on() {
        let (_election, leadership) = elected_for(10);
        let mut acted = false;
        let mut effect = Box::pin(leadership.while_leading(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            acted = true;
        }));
        assert!(futures::poll!(&mut effect).is_pending());
        tokio::time::advance(Duration::from_secs(30)).await; // nobody polls: the process is paused
        assert_eq!(effect.await, Err(NotLeading::Expired));
        assert!(!acted);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_the_right_always_holds() {
        let leadership = Leadership::unguarded();
        assert_eq!(leadership.check(), Ok(()));
        assert_eq!(leadership.wait_until_leading().await, Ok(()));
        assert!(tokio::time::timeout(Duration::from_hours(1), leadership.lost()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_election_ends_the_waiting_and_leaves_the_right_until_its_deadline() {
        let (election, leadership) = elected_for(10);
        drop(election);
        assert_eq!(leadership.check(), Ok(()));
        assert_eq!(leadership.lost().await, NotLeading::Expired);

        let (election, receive) = watch::channel(Standing::Candidate { holder: None });
        drop(election);
        let leadership = Leadership::guarded(Clock::system(), receive, Vacancy::default());
        assert_eq!(leadership.wait_until_leading().await, Err(NotLeading::Stopped));
    }

    /// Shows LEA-10.
    #[tokio::test(start_paused = true)]
    async fn whoever_retires_begins_nothing_and_ends_what_it_began() {
        let (_election, leadership) = elected_for(10);
        let retiring = CancellationToken::new();
        for leadership in [leadership, Leadership::unguarded()] {
            let leadership = leadership.retiring_with(retiring.clone());
            let begun = leadership.while_leading(async {
                retiring.cancel();
                tokio::time::sleep(Duration::from_secs(4)).await;
            });
            assert_eq!(if retiring.is_cancelled() { Ok(()) } else { begun.await }, Ok(()));
            assert_eq!(leadership.check(), Err(NotLeading::Stopped));
            assert_eq!(leadership.while_leading(async {}).await, Err(NotLeading::Stopped));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_not_run_here_never_holds_the_right_and_waits_for_nothing() {
        let leadership = Leadership::never();
        assert_eq!(leadership.check(), Err(NotLeading::Stopped));
        assert_eq!(leadership.wait_until_leading().await, Err(NotLeading::Stopped));
        assert_eq!(leadership.lost().await, NotLeading::Stopped);
    }

    #[test]
    fn a_refusal_says_why_in_a_sentence() {
        let said = NotLeading::NotYet { holder: Some("pod-a_1".into()) }.to_string();
        assert_eq!(said, "not the leader yet: the lease is held by pod-a_1");
        assert_eq!(
            NotLeading::from(Loss::Expired).to_string(),
            "no longer the leader: the lease was not renewed in time"
        );
    }
}
