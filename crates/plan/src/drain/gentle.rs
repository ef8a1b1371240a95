//! Asking pods to leave.
//!
//! Pods without volumes all at once, pods with volumes one by one, and those that the operator wants last after everybody else.

use api::view::PodView;

use super::blocker::Obstacle;
use super::budget::Budgets;
use super::mode::Mode;
use super::pass::Pass;
use super::pod::{self, Luggage, Need};
use super::selection::{self, PodId, Rank};
use super::{Advance, Outcome, Pods, Step, Watched, serial};

pub(super) fn advance<'a>(mut pass: Pass<'a, '_>, pods: &Pods<'a>) -> Advance {
    let limits = pass.request.limits;
    for pod in &pods.unreadable {
        pass.block(pod.clone(), Obstacle::Unreadable, None);
    }
    let leaving = pods.readable.iter().copied().filter(|pod| selection::has_to_leave(pod, limits));
    let (ordinary, last): (Vec<&PodView>, Vec<&PodView>) =
        leaving.partition(|pod| selection::rank(pod, limits) == Rank::Ordinary);
    ask_to_leave(&mut pass, &ordinary, &pods.readable);
    if pass.is_over() {
        ask_to_leave(&mut pass, &last, &pods.readable);
    } else {
        for pod in last {
            pass.block(PodId::of(pod).to_string(), Obstacle::Last, None);
        }
    }
    if pass.is_over() { pass.ended(Outcome::Drained(Mode::Gentle)) } else { pass.working() }
}

fn ask_to_leave<'a>(pass: &mut Pass<'a, '_>, leaving: &[&'a PodView], everybody: &[&PodView]) {
    let (with, without): (Vec<&PodView>, Vec<&PodView>) =
        leaving.iter().partition(|pod| selection::has_volumes(pod, pass.request.limits));
    let mut budgets = Budgets::of(&pass.view.budgets, leaving);
    for pod in without {
        match pod::need(pass, pod, Luggage::None, &mut budgets) {
            Need::Request(verb) => pass.ask(PodId::of(pod), verb, budgets.version(pod)),
            Need::Wait(obstacle, until) => {
                if matches!(obstacle, Obstacle::Budget { .. }) && pass.view.budgets == Watched::NotYet {
                    pass.step(Step::Watch);
                }
                pass.block(PodId::of(pod).to_string(), obstacle, until);
            }
        }
    }
    serial::advance(pass, with, everybody, &mut budgets);
}
