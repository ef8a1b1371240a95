//! The queue of one credential: fair between MachineDeployments, and alternating between the priorities of each.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::CallId;

/// The queue within a MachineDeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPriority {
    /// Calls to delete a VM.
    Delete,
    /// All other calls.
    Create,
}

/// Queued calls by MachineDeployment.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    pools: BTreeMap<String, Priorities>,
    /// The MachineDeployment of the last call.
    last: Option<String>,
    length: usize,
}

#[derive(Debug, Default)]
struct Priorities {
    delete: VecDeque<CallId>,
    create: VecDeque<CallId>,
    /// The priority of the last call.
    last: Option<CallPriority>,
}

impl FairQueue {
    pub(super) fn push(&mut self, id: CallId, pool: &str, priority: CallPriority) {
        let priorities = self.pools.entry(pool.to_owned()).or_default();
        match priority {
            CallPriority::Delete => priorities.delete.push_back(id),
            CallPriority::Create => priorities.create.push_back(id),
        }
        self.length += 1;
    }

    pub(super) fn remove(&mut self, id: CallId, pool: &str) {
        let Some(priorities) = self.pools.get_mut(pool) else { return };
        let before = priorities.len();
        priorities.delete.retain(|other| *other != id);
        priorities.create.retain(|other| *other != id);
        self.length -= before - priorities.len();
        if priorities.len() == 0 {
            self.pools.remove(pool);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Removes and returns the next call: of the first MachineDeployment after the last one that `may_start` accepts.
    pub(super) fn next(
        &mut self,
        may_start: impl Fn(&str, CallPriority) -> bool,
    ) -> Option<(CallId, String, CallPriority)> {
        let after = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let until = self.last.as_deref().map_or(Bound::Excluded(""), Bound::Included);
        let rest = self.pools.range::<str, _>((after, Bound::Unbounded));
        let mut round = rest.chain(self.pools.range::<str, _>((Bound::Unbounded, until)));
        let (pool, priority) = round.find_map(|(pool, priorities)| {
            let priority = priorities.in_turn().into_iter().find(|priority| may_start(pool, *priority))?;
            Some((pool.clone(), priority))
        })?;
        let priorities = self.pools.get_mut(&pool)?;
        let id = priorities.take(priority)?;
        if priorities.len() == 0 {
            self.pools.remove(&pool);
        }
        self.length -= 1;
        self.last = Some(pool.clone());
        Some((id, pool, priority))
    }
}

impl Priorities {
    fn len(&self) -> usize {
        self.delete.len() + self.create.len()
    }

    /// Returns the priorities with queued calls, the next one first.
    fn in_turn(&self) -> Vec<CallPriority> {
        let order = match self.last {
            Some(CallPriority::Delete) => [CallPriority::Create, CallPriority::Delete],
            Some(CallPriority::Create) | None => [CallPriority::Delete, CallPriority::Create],
        };
        let is_queued = |priority: &CallPriority| match priority {
            CallPriority::Delete => !self.delete.is_empty(),
            CallPriority::Create => !self.create.is_empty(),
        };
        order.into_iter().filter(is_queued).collect()
    }

    fn take(&mut self, priority: CallPriority) -> Option<CallId> {
        self.last = Some(priority);
        match priority {
            CallPriority::Delete => self.delete.pop_front(),
            CallPriority::Create => self.create.pop_front(),
        }
    }
}
