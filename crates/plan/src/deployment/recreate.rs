//! All old machines go before the first new one comes.

use super::draft::{Draft, total};
use super::pass::Pass;
use super::reason::Reason;
use super::revision;

pub(super) fn roll(pass: &mut Pass<'_>) -> Option<Reason> {
    let limits = pass.limits;
    pass.keep_nodes_from_autoscaler();
    for old in pass.sets.old.iter_mut().filter(|old| old.is_active()) {
        old.resize(0, &limits);
    }
    let leaving = total(pass.sets.old.iter().map(Draft::present));
    if leaving > 0 {
        if let Some(new) = pass.sets.new.as_mut().filter(|new| new.size() > limits.replicas) {
            new.resize(limits.replicas, &limits);
        }
        return Some(Reason::OldMachinesLeave(usize::try_from(leaving).unwrap_or_default()));
    }
    match &mut pass.sets.new {
        None => revision::make_new(pass, limits.replicas),
        Some(new) => new.resize(limits.replicas, &limits),
    }
    pass.welcome_staying();
    None
}
