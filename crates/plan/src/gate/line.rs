//! The line before one credential's places: a turn for each deployment, and within it a turn for each lane.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::VisitId;

/// Where in its deployment's part of the line a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Calls on the way to a VM's end.
    Ending,
    /// All others.
    Making,
}

/// Who waits, by deployment.
#[derive(Debug, Default)]
pub(super) struct Line {
    pools: BTreeMap<String, Lanes>,
    /// The deployment that had the last turn.
    last: Option<String>,
    length: usize,
}

#[derive(Debug, Default)]
struct Lanes {
    ending: VecDeque<VisitId>,
    making: VecDeque<VisitId>,
    /// The lane that had the last turn.
    last: Option<Lane>,
}

impl Line {
    pub(super) fn join(&mut self, id: VisitId, pool: &str, lane: Lane) {
        let lanes = self.pools.entry(pool.to_owned()).or_default();
        match lane {
            Lane::Ending => lanes.ending.push_back(id),
            Lane::Making => lanes.making.push_back(id),
        }
        self.length += 1;
    }

    pub(super) fn quit(&mut self, id: VisitId, pool: &str) {
        let Some(lanes) = self.pools.get_mut(pool) else { return };
        let before = lanes.len();
        lanes.ending.retain(|other| *other != id);
        lanes.making.retain(|other| *other != id);
        self.length -= before - lanes.len();
        if lanes.len() == 0 {
            self.pools.remove(pool);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Takes the next call out of the line: of the first deployment after the last one served that may have another place for it.
    pub(super) fn next(&mut self, may: impl Fn(&str, Lane) -> bool) -> Option<(VisitId, String, Lane)> {
        let after = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let until = self.last.as_deref().map_or(Bound::Excluded(""), Bound::Included);
        let rest = self.pools.range::<str, _>((after, Bound::Unbounded));
        let mut round = rest.chain(self.pools.range::<str, _>((Bound::Unbounded, until)));
        let (pool, lane) = round.find_map(|(pool, lanes)| {
            let lane = lanes.in_turn().into_iter().find(|lane| may(pool, *lane))?;
            Some((pool.clone(), lane))
        })?;
        let lanes = self.pools.get_mut(&pool)?;
        let id = lanes.take(lane)?;
        if lanes.len() == 0 {
            self.pools.remove(&pool);
        }
        self.length -= 1;
        self.last = Some(pool.clone());
        Some((id, pool, lane))
    }
}

impl Lanes {
    fn len(&self) -> usize {
        self.ending.len() + self.making.len()
    }

    /// The lanes in which somebody waits, the one whose turn it is first.
    fn in_turn(&self) -> Vec<Lane> {
        let order = match self.last {
            Some(Lane::Ending) => [Lane::Making, Lane::Ending],
            Some(Lane::Making) | None => [Lane::Ending, Lane::Making],
        };
        let waits = |lane: &Lane| match lane {
            Lane::Ending => !self.ending.is_empty(),
            Lane::Making => !self.making.is_empty(),
        };
        order.into_iter().filter(waits).collect()
    }

    fn take(&mut self, lane: Lane) -> Option<VisitId> {
        self.last = Some(lane);
        match lane {
            Lane::Ending => self.ending.pop_front(),
            Lane::Making => self.making.pop_front(),
        }
    }
}
