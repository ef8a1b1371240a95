//! Asking pods to leave.
//!
//! Pods without volumes all at once, pods with volumes one by one, and those that the operator wants last after everybody else.

use api::view::PodView;

use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::mode::Mode;
use super::pod::{self, Luggage, Need};
use super::selection::{self, PodId, Rank};
use super::{Advance, Outcome, Pods, Step, Watched, serial};

pub(super) fn advance<'a>(mut builder: AdvanceBuilder<'a, '_>, pods: &Pods<'a>) -> Advance {
    let limits = builder.request.limits;
    for pod in &pods.unreadable {
        builder.block(pod.clone(), Obstacle::Unreadable, None);
    }
    let leaving = pods.readable.iter().copied().filter(|pod| selection::has_to_leave(pod, limits));
    let (ordinary, last): (Vec<&PodView>, Vec<&PodView>) =
        leaving.partition(|pod| selection::rank(pod, limits) == Rank::Ordinary);
    ask_to_leave(&mut builder, &ordinary, &pods.readable);
    if builder.is_over() {
        ask_to_leave(&mut builder, &last, &pods.readable);
    } else {
        for pod in last {
            builder.block(PodId::of(pod).to_string(), Obstacle::Last, None);
        }
    }
    if builder.is_over() { builder.ended(Outcome::Drained(Mode::Gentle)) } else { builder.working() }
}

fn ask_to_leave<'a>(builder: &mut AdvanceBuilder<'a, '_>, leaving: &[&'a PodView], everybody: &[&PodView]) {
    let (with, without): (Vec<&PodView>, Vec<&PodView>) =
        leaving.iter().partition(|pod| selection::has_volumes(pod, builder.request.limits));
    let mut budgets = Budgets::of(&builder.view.budgets, leaving);
    for pod in without {
        match pod::need(builder, pod, Luggage::None, &mut budgets) {
            Need::Request(verb) => builder.ask(PodId::of(pod), verb, budgets.version(pod)),
            Need::Wait(obstacle, until) => {
                if matches!(obstacle, Obstacle::Budget { .. }) && builder.view.budgets == Watched::NotYet {
                    builder.step(Step::Watch);
                }
                builder.block(PodId::of(pod).to_string(), obstacle, until);
            }
        }
    }
    serial::advance(builder, with, everybody, &mut budgets);
}
