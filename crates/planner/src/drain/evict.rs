//! Evicts pods.
//!
//! Pods without volumes are evicted in parallel, pods with volumes one by one, and pods that are configured as last
//! after all others.

use api::view::PodView;

use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::mode::Mode;
use super::pod::{self, Need, PodVolumes};
use super::selection::{self, PodId, Rank};
use super::{Advance, Outcome, Pods, Step, Watched, serial};

pub(super) fn advance<'a>(mut builder: AdvanceBuilder<'a, '_>, pods: &Pods<'a>) -> Advance {
    let limits = builder.request.limits;
    for pod in &pods.unreadable {
        builder.block(pod.clone(), Obstacle::Undecodable, None);
    }
    let to_drain = pods.readable.iter().copied().filter(|pod| selection::must_be_drained(pod, limits));
    let (ordinary, last): (Vec<&PodView>, Vec<&PodView>) =
        to_drain.partition(|pod| selection::rank(pod, limits) == Rank::Ordinary);
    evict(&mut builder, &ordinary, &pods.readable);
    if builder.is_done() {
        evict(&mut builder, &last, &pods.readable);
    } else {
        for pod in last {
            builder.block(PodId::of(pod).to_string(), Obstacle::Last, None);
        }
    }
    if builder.is_done() { builder.finished(Outcome::Drained(Mode::Evict)) } else { builder.in_progress() }
}

fn evict<'a>(builder: &mut AdvanceBuilder<'a, '_>, to_drain: &[&'a PodView], all_pods: &[&PodView]) {
    let (with, without): (Vec<&PodView>, Vec<&PodView>) =
        to_drain.iter().partition(|pod| selection::has_volumes(pod, builder.request.limits));
    let mut budgets = Budgets::of(&builder.view.budgets, to_drain);
    for pod in without {
        match pod::need(builder, pod, PodVolumes::None, &mut budgets) {
            Need::Request(verb) => builder.request_removal(PodId::of(pod), verb, budgets.version(pod)),
            Need::Wait(obstacle, until) => {
                if matches!(obstacle, Obstacle::Budget { .. }) && builder.view.budgets == Watched::NotYet {
                    builder.step(Step::Watch);
                }
                builder.block(PodId::of(pod).to_string(), obstacle, until);
            }
        }
    }
    serial::advance(builder, with, all_pods, &mut budgets);
}
