//! Watches as tracked tasks.

use kube::Client;
use runtime::cache::Feed;
use runtime::{Clock, Random, Tasks};

/// Runs feeds as tracked tasks, each with randomness of its own.
pub(super) struct Feeder {
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
}

impl Feeder {
    pub(super) fn feed<K: runtime::cache::Cached>(&self, kind: &'static str, feed: Feed<K>, client: Client) {
        self.tasks.spawn(kind, feed.run(client, self.clock.clone(), self.random.fork(), self.tasks.stopping()));
    }
}
