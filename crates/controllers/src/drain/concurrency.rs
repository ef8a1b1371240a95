//! Who may begin, where the number of drains is limited.
//!
//! Whoever wants to begin asks here, again and again until it may; all that ask are judged together and under one lock, so that two
//! workers cannot spend the same place. Whoever ends wakes those that wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use planner::drain::concurrency::{Admission, Caps, Contender, Standing, admissions};
use runtime::Key;
use runtime::queue::Queue;

/// The drains that run or want to. Clones are the same.
#[derive(Clone)]
pub(super) struct ConcurrencyLimit {
    caps: Caps,
    drains: Arc<Mutex<BTreeMap<Key, DrainEntry>>>,
    queue: Queue<Key>,
}

struct DrainEntry {
    deployment: Option<String>,
    standing: Standing,
}

impl ConcurrencyLimit {
    pub(super) fn new(caps: Caps, queue: Queue<Key>) -> Self {
        Self { caps, drains: Arc::default(), queue }
    }

    /// Whether this machine's drain may begin. One that has begun goes on.
    pub(super) fn admit(&self, machine: &Key, deployment: Option<&str>, standing: Standing) -> Admission {
        if self.caps == Caps::default() {
            return Admission::Now;
        }
        let mut drains = self.drains.lock();
        let running = drains.get(machine).is_some_and(|drain| drain.standing == Standing::Running);
        if !running {
            drains.insert(machine.clone(), DrainEntry { deployment: deployment.map(str::to_owned), standing });
        }
        let names: BTreeMap<String, &DrainEntry> = drains.iter().map(|(key, drain)| (key.to_string(), drain)).collect();
        let contenders = names
            .iter()
            .map(|(name, drain)| {
                let deployment = drain.deployment.as_deref();
                (name.as_str(), Contender { deployment, standing: drain.standing })
            })
            .collect();
        let turn =
            admissions(&contenders, self.caps).get(machine.to_string().as_str()).copied().unwrap_or(Admission::Now);
        if let (Admission::Now, Some(drain)) = (turn, drains.get_mut(machine)) {
            drain.standing = Standing::Running;
        }
        turn
    }

    /// The drain of this machine is over; those that wait look again.
    pub(super) fn give_back(&self, machine: &Key) {
        let mut drains = self.drains.lock();
        if drains.remove(machine).is_some_and(|drain| drain.standing == Standing::Running) {
            for key in drains.iter().filter(|(_, drain)| drain.standing != Standing::Running).map(|(key, _)| key) {
                self.queue.add(key.clone());
            }
        }
    }
}
