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

pub(super) fn advance(mut pass: Pass<'_, '_>, pods: &Pods<'_>) -> Advance {
    let limits = pass.request.limits;
    let leaving: Vec<&PodView> = pods
        .readable
        .iter()
        .copied()
        .filter(|pod| selection::has_to_leave(pod, limits) && !serial::is_let_go(&pass, pod))
        .collect();
    let (mut now, later): (Vec<&PodView>, Vec<&PodView>) =
        leaving.into_iter().partition(|pod| selection::rank(pod, limits) == Rank::Ordinary);
    if now.is_empty() && pods.unreadable.is_empty() {
        now = later;
    } else {
        for pod in later {
            pass.block(PodId::of(pod).to_string(), Obstacle::Last, None);
        }
    }
    for pod in &pods.unreadable {
        pass.block(pod.clone(), Obstacle::Unreadable, None);
    }
    let (with, without): (Vec<&PodView>, Vec<&PodView>) =
        now.into_iter().partition(|pod| selection::has_volumes(pod, limits));
    let mut budgets = Budgets::of(&pass.view.budgets);
    for pod in without {
        match pod::need(&mut pass, pod, Luggage::None, &mut budgets) {
            Need::Request(verb) => pass.ask(PodId::of(pod), verb, budgets.version(pod)),
            Need::Wait(obstacle, until) => {
                if matches!(obstacle, Obstacle::Budget { .. }) && pass.view.budgets == Watched::NotYet {
                    pass.step(Step::Watch);
                }
                pass.block(PodId::of(pod).to_string(), obstacle, until);
            }
        }
    }
    serial::advance(&mut pass, with, &pods.readable, &mut budgets);
    if pass.is_over() { pass.ended(Outcome::Drained(Mode::Gentle)) } else { pass.working() }
}
