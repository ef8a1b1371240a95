//! The line before one credential's places: a turn for each deployment, and within it a turn for each priority.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::CallId;

/// Where in its deployment's part of the line a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPriority {
    /// Calls on the way to a VM's end.
    Ending,
    /// All others.
    Making,
}

/// Who waits, by deployment.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    pools: BTreeMap<String, Priorities>,
    /// The deployment that had the last turn.
    last: Option<String>,
    length: usize,
}

#[derive(Debug, Default)]
struct Priorities {
    ending: VecDeque<CallId>,
    making: VecDeque<CallId>,
    /// The priority that had the last turn.
    last: Option<CallPriority>,
}

impl FairQueue {
    pub(super) fn join(&mut self, id: CallId, pool: &str, priority: CallPriority) {
        let priorities = self.pools.entry(pool.to_owned()).or_default();
        match priority {
            CallPriority::Ending => priorities.ending.push_back(id),
            CallPriority::Making => priorities.making.push_back(id),
        }
        self.length += 1;
    }

    pub(super) fn quit(&mut self, id: CallId, pool: &str) {
        let Some(priorities) = self.pools.get_mut(pool) else { return };
        let before = priorities.len();
        priorities.ending.retain(|other| *other != id);
        priorities.making.retain(|other| *other != id);
        self.length -= before - priorities.len();
        if priorities.len() == 0 {
            self.pools.remove(pool);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Takes the next call out of the line: of the first deployment after the last one served that may have another place for it.
    pub(super) fn next(&mut self, may: impl Fn(&str, CallPriority) -> bool) -> Option<(CallId, String, CallPriority)> {
        let after = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let until = self.last.as_deref().map_or(Bound::Excluded(""), Bound::Included);
        let rest = self.pools.range::<str, _>((after, Bound::Unbounded));
        let mut round = rest.chain(self.pools.range::<str, _>((Bound::Unbounded, until)));
        let (pool, priority) = round.find_map(|(pool, priorities)| {
            let priority = priorities.in_turn().into_iter().find(|priority| may(pool, *priority))?;
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
        self.ending.len() + self.making.len()
    }

    /// The priorities in which somebody waits, the one whose turn it is first.
    fn in_turn(&self) -> Vec<CallPriority> {
        let order = match self.last {
            Some(CallPriority::Ending) => [CallPriority::Making, CallPriority::Ending],
            Some(CallPriority::Making) | None => [CallPriority::Ending, CallPriority::Making],
        };
        let waits = |priority: &CallPriority| match priority {
            CallPriority::Ending => !self.ending.is_empty(),
            CallPriority::Making => !self.making.is_empty(),
        };
        order.into_iter().filter(waits).collect()
    }

    fn take(&mut self, priority: CallPriority) -> Option<CallId> {
        self.last = Some(priority);
        match priority {
            CallPriority::Ending => self.ending.pop_front(),
            CallPriority::Making => self.making.pop_front(),
        }
    }
}
