//! Checks that a rollout that can continue does.
//!
//! At the end of a run the cluster must converge, but hours without faults are rare. So pools are also checked during
//! the run: if all Machines run and the controllers can act, a pool that differs from its spec must change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::machines::{Deployment, Machine};
use super::{Invariant, Oracle};

/// Maximum time without a change. All waits are shorter: failed requests are retried every few minutes at most, and
/// after an outage the controllers act again within two minutes.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// State of each pool that differs from its spec, and since when.
#[derive(Debug, Default)]
pub(super) struct Stalls(BTreeMap<String, (PoolState, Timestamp)>);

/// The state that a rollout changes.
#[derive(Debug, PartialEq, Eq)]
struct PoolState {
    replicas: i64,
    class: String,
    sizes: Vec<i64>,
    machines: Vec<String>,
}

impl Oracle {
    /// Checks all pools. `last_obstruction` restarts the time.
    pub(super) fn stalled(&mut self, last_obstruction: Timestamp) -> Option<(Invariant, String)> {
        let mut before = std::mem::take(&mut self.stalls.0);
        let (mut states, mut stalled) = (BTreeMap::new(), None);
        for (name, deployment) in &self.machines.deployments {
            let Some(state) = self.unfinished(name, deployment) else { continue };
            let before = before.remove(name).filter(|(before, _)| *before == state);
            let since = before.map_or(self.now, |(_, since)| since);
            if self.now.duration_since(since.max(last_obstruction)) > LIMIT {
                let PoolState { replicas, class, machines, .. } = &state;
                let message = format!(
                    "deployment {name} should have {replicas} machines of {class}, has {machines:?}, and does not change"
                );
                stalled = stalled.or(Some((Invariant::Progress, message)));
            }
            states.insert(name.clone(), (state, since));
        }
        self.stalls = Stalls(states);
        stalled
    }

    /// Returns the state of a pool that differs from its spec and could change.
    fn unfinished(&self, name: &str, deployment: &Deployment) -> Option<PoolState> {
        let machines = &self.machines;
        let wanted = deployment.desired.as_ref().filter(|wanted| !deployment.deleting && !wanted.is_blocked)?;
        let sets = || machines.sets.iter().filter(|(_, set)| set.deployment == name);
        let specs: Vec<_> = sets().filter_map(|(_, set)| set.specs.now()).collect();
        if specs.iter().any(|spec| spec.is_frozen) {
            return None;
        }
        let members: Vec<(&String, &Machine)> =
            machines.known.iter().filter(|(_, machine)| sets().any(|(set, _)| *set == machine.set)).collect();
        let is_complete = members.len() as u64 == wanted.replicas.unsigned_abs()
            && members.iter().all(|(_, machine)| machine.class == wanted.class);
        if is_complete || !members.iter().all(|(_, machine)| self.is_steady(machine)) {
            return None;
        }
        Some(PoolState {
            replicas: wanted.replicas,
            class: wanted.class.clone(),
            sizes: specs.iter().map(|spec| spec.replicas).collect(),
            machines: members.into_iter().map(|(name, _)| name.clone()).collect(),
        })
    }

    /// Whether a Machine is Running on a healthy Node and is neither deleted nor preserved.
    fn is_steady(&self, machine: &Machine) -> bool {
        machine.deleted.is_none()
            && !machine.preserve_requested
            && machine.phase.now().is_some_and(|phase| phase == "Running")
            && self.nodes.healthy_since(&machine.node).is_some()
    }
}
