//! A roll-out that could go on does.
//!
//! At the end everything has to come to rest, but days in which nothing goes wrong for hours are rare. So pools are looked at in between
//! too: where every machine runs and nothing keeps us from acting, what is not as it was asked for must be on its way.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::machines::{Deployment, Machine};
use super::{Invariant, Oracle};

/// For how long nothing may change. Nothing waits longer than this for its turn: requests that fail are repeated every few minutes at
/// the latest, and whoever could not see takes a minute or two until it believes that it can.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// What pools looked like, and since when.
#[derive(Debug, Default)]
pub(super) struct Stalls(BTreeMap<String, (Picture, Timestamp)>);

/// What a roll-out changes.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    replicas: i64,
    class: String,
    sizes: Vec<i64>,
    machines: Vec<String>,
}

impl Oracle {
    /// Looks at all pools; what stands still. Nothing does before `hindered` is over for long enough.
    pub(super) fn stalled(&mut self, hindered: Timestamp) -> Option<(Invariant, String)> {
        let mut before = std::mem::take(&mut self.stalls.0);
        let (mut pictures, mut stalled) = (BTreeMap::new(), None);
        for (name, deployment) in &self.machines.deployments {
            let Some(picture) = self.unfinished(name, deployment) else { continue };
            let before = before.remove(name).filter(|(before, _)| *before == picture);
            let since = before.map_or(self.now, |(_, since)| since);
            if self.now.duration_since(since.max(hindered)) > LIMIT {
                let Picture { replicas, class, machines, .. } = &picture;
                let what = format!("deployment {name} wants {replicas} of {class}, has {machines:?}, and stands still");
                stalled = stalled.or(Some((Invariant::Progress, what)));
            }
            pictures.insert(name.clone(), (picture, since));
        }
        self.stalls = Stalls(pictures);
        stalled
    }

    /// What a pool looks like that is not as it was asked for, and that nothing keeps from becoming so.
    fn unfinished(&self, name: &str, deployment: &Deployment) -> Option<Picture> {
        let machines = &self.machines;
        let wanted = deployment.wanted.as_ref().filter(|wanted| !deployment.goes && !wanted.is_held)?;
        let sets = || machines.sets.iter().filter(|(_, set)| set.deployment == name);
        let wishes: Vec<_> = sets().filter_map(|(_, set)| set.wishes.now()).collect();
        if wishes.iter().any(|wish| wish.is_frozen) {
            return None;
        }
        let members: Vec<(&String, &Machine)> =
            machines.known.iter().filter(|(_, machine)| sets().any(|(set, _)| *set == machine.set)).collect();
        let is_done = members.len() as u64 == wanted.replicas.unsigned_abs()
            && members.iter().all(|(_, machine)| machine.class == wanted.class);
        if is_done || !members.iter().all(|(_, machine)| self.is_steady(machine)) {
            return None;
        }
        Some(Picture {
            replicas: wanted.replicas,
            class: wanted.class.clone(),
            sizes: wishes.iter().map(|wish| wish.replicas).collect(),
            machines: members.into_iter().map(|(name, _)| name.clone()).collect(),
        })
    }

    /// Whether a machine runs and nobody wants anything else of it.
    fn is_steady(&self, machine: &Machine) -> bool {
        machine.deleted.is_none()
            && !machine.is_kept
            && machine.phase.now().is_some_and(|phase| phase == "Running")
            && self.nodes.well_since(&machine.node).is_some()
    }
}
