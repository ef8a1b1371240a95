//! The line before one credential's places: a turn for each deployment, and within it a turn for each lane.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::VisitId;

/// Where in its deployment's part of the line a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Calls that end VMs.
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

    /// Takes the next call out of the line: of the first deployment after the last one served that may have another place.
    pub(super) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<(VisitId, String)> {
        let after = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let until = self.last.as_deref().map_or(Bound::Excluded(""), Bound::Included);
        let rest = self.pools.range::<str, _>((after, Bound::Unbounded));
        let round = rest.chain(self.pools.range::<str, _>((Bound::Unbounded, until)));
        let pool = round.map(|(pool, _)| pool).find(|pool| may(pool))?.clone();
        let lanes = self.pools.get_mut(&pool)?;
        let id = lanes.next()?;
        if lanes.len() == 0 {
            self.pools.remove(&pool);
        }
        self.length -= 1;
        self.last = Some(pool.clone());
        Some((id, pool))
    }
}

impl Lanes {
    fn len(&self) -> usize {
        self.ending.len() + self.making.len()
    }

    fn next(&mut self) -> Option<VisitId> {
        let lane = match (self.ending.is_empty(), self.making.is_empty()) {
            (true, _) => Lane::Making,
            (false, false) if self.last == Some(Lane::Ending) => Lane::Making,
            (false, _) => Lane::Ending,
        };
        self.last = Some(lane);
        match lane {
            Lane::Ending => self.ending.pop_front(),
            Lane::Making => self.making.pop_front(),
        }
    }
}
