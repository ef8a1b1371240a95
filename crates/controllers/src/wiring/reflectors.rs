//! Watches as tracked tasks.

use std::time::Duration;

use kube::Client;
use runtime::cache::{Reflector, RetrySignal};
use runtime::{Clock, Random, Tasks};

/// For how long a reflector may be silent. The longest of its waits, a watch without a word, is abandoned after minutes.
const PATIENCE: Duration = Duration::from_mins(30);

/// Runs reflectors as tracked tasks, each with randomness of its own.
pub(super) struct Reflectors {
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
    pub(super) retry_signal: RetrySignal,
}

impl Reflectors {
    pub(super) fn spawn<K: runtime::cache::Cached>(&self, kind: &'static str, reflector: Reflector<K>, client: Client) {
        let reflector = reflector.with_retry_signal(&self.retry_signal);
        let run = reflector.run(client, self.clock.clone(), self.random.fork(), self.tasks.stopping());
        let watchdog = self.tasks.watchdog().clone();
        self.tasks.spawn(kind, async move { watchdog.follow(format!("the watch of {kind}"), PATIENCE, run).await });
    }
}
