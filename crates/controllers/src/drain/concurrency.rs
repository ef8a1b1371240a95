//! Who may begin, where the number of drains is limited.
//!
//! Whoever wants to begin asks here, again and again until it may; all that ask are judged together and under one lock, so that two
//! workers cannot spend the same place. Whoever ends wakes those that wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plan::drain::concurrency::{Admission, Caps, Contender, Standing, admissions};
use runtime::Key;
use runtime::queue::Queue;

/// The drains that run or want to. Clones are the same.
#[derive(Clone)]
pub(super) struct ConcurrencyLimit {
    caps: Caps,
    claims: Arc<Mutex<BTreeMap<Key, Claim>>>,
    queue: Queue<Key>,
}

struct Claim {
    deployment: Option<String>,
    standing: Standing,
}

impl ConcurrencyLimit {
    pub(super) fn new(caps: Caps, queue: Queue<Key>) -> Self {
        Self { caps, claims: Arc::default(), queue }
    }

    /// Whether this machine's drain may begin. One that has begun goes on.
    pub(super) fn claim(&self, machine: &Key, deployment: Option<&str>, standing: Standing) -> Admission {
        if self.caps == Caps::default() {
            return Admission::Now;
        }
        let mut claims = self.claims.lock();
        let running = claims.get(machine).is_some_and(|claim| claim.standing == Standing::Running);
        if !running {
            claims.insert(machine.clone(), Claim { deployment: deployment.map(str::to_owned), standing });
        }
        let names: BTreeMap<String, &Claim> = claims.iter().map(|(key, claim)| (key.to_string(), claim)).collect();
        let contenders = names
            .iter()
            .map(|(name, claim)| {
                let deployment = claim.deployment.as_deref();
                (name.as_str(), Contender { deployment, standing: claim.standing })
            })
            .collect();
        let turn =
            admissions(&contenders, self.caps).get(machine.to_string().as_str()).copied().unwrap_or(Admission::Now);
        if let (Admission::Now, Some(claim)) = (turn, claims.get_mut(machine)) {
            claim.standing = Standing::Running;
        }
        turn
    }

    /// The drain of this machine is over; those that wait look again.
    pub(super) fn give_back(&self, machine: &Key) {
        let mut claims = self.claims.lock();
        if claims.remove(machine).is_some_and(|claim| claim.standing == Standing::Running) {
            for key in claims.iter().filter(|(_, claim)| claim.standing != Standing::Running).map(|(key, _)| key) {
                self.queue.add(key.clone());
            }
        }
    }
}
