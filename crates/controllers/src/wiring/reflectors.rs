//! Reflectors as tracked tasks.

use std::time::Duration;

use kube::Client;
use runtime::cache::{Cached, Reflector, RetrySignal};
use runtime::{Clock, Random, Tasks};

/// Time without progress after which a reflector counts as stuck. Its longest wait, a silent watch, ends after minutes.
const PATIENCE: Duration = Duration::from_mins(30);

/// Runs reflectors as tracked tasks, each with its own randomness.
pub(super) struct ReflectorTasks {
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
    pub(super) retry_signal: RetrySignal,
}

impl ReflectorTasks {
    pub(super) fn spawn<K: Cached>(&self, kind: &'static str, reflector: Reflector<K>, client: Client) {
        let reflector = reflector.with_retry_signal(&self.retry_signal);
        let run = reflector.run(client, self.clock.clone(), self.random.fork(), self.tasks.stopping());
        let watchdog = self.tasks.watchdog().clone();
        self.tasks.spawn(kind, async move { watchdog.follow(format!("the watch of {kind}"), PATIENCE, run).await });
    }
}
