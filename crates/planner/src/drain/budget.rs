//! The PodDisruptionBudgets of pods, and whether they allow evictions again.

use std::collections::BTreeMap;

use api::Object;
use api::view::{PodDisruptionBudgetView, PodView};

use super::Watched;
use super::blocker::Obstacle;

/// The PodDisruptionBudgets by namespace, and the number of evictions that this call has used of each.
pub(super) struct Budgets<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudgetView>>,
    used: BTreeMap<(&'a str, &'a str), i32>,
}

impl<'a> Budgets<'a> {
    /// Returns the budgets that may cover these pods. A cluster has thousands, and the pods of a Node are in a few
    /// namespaces.
    pub(super) fn of(budgets: &Watched<Vec<&'a PodDisruptionBudgetView>>, pods: &[&'a PodView]) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudgetView>> =
            pods.iter().map(|pod| (pod.namespace(), Vec::new())).collect();
        if let Watched::Seen(budgets) = budgets {
            for budget in budgets {
                if let Some(here) = by_namespace.get_mut(budget.namespace()) {
                    here.push(budget);
                }
            }
        }
        for budgets in by_namespace.values_mut() {
            budgets.sort_by_key(|budget| budget.name()); // the first by name counts, so that all reconciles agree
        }
        Self { by_namespace, used: BTreeMap::new() }
    }

    /// Returns the budgets that cover a pod. A budget without a selector covers no pod; one with an invalid selector is
    /// skipped.
    fn covering(&self, pod: &PodView) -> impl Iterator<Item = &'a PodDisruptionBudgetView> {
        let labels = &pod.metadata.labels;
        let budgets = self.by_namespace.get(pod.namespace()).into_iter().flatten().copied();
        budgets.filter(move |budget| {
            budget.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels).unwrap_or(false))
        })
    }

    /// Returns the version of the budget that covers a pod, to detect changes.
    pub(super) fn version(&self, pod: &PodView) -> Option<String> {
        self.covering(pod).next().map(|budget| budget.resource_version().to_owned())
    }

    /// Returns whether the budget has changed since the refusal and allows an eviction: then the pod is evicted
    /// immediately. Only as many pods as the budget allows are retried.
    pub(super) fn has_opened(&mut self, pod: &PodView, refused_under: Option<&str>) -> bool {
        // A deleted budget keeps no pod. The next attempt records that there is none, so this is true once.
        let Some(budget) = self.covering(pod).next() else { return refused_under.is_some() };
        if Some(budget.resource_version()) == refused_under {
            return false;
        }
        let used = self.used.entry((budget.namespace(), budget.name())).or_default();
        let open = *used < budget.status.disruptions_allowed;
        *used += i32::from(open);
        open
    }

    /// Returns the obstacle of a pod that a budget refused.
    pub(super) fn obstacle(&self, pod: &PodView) -> Obstacle {
        match self.covering(pod).next() {
            Some(budget) if budget.is_misconfigured() => Obstacle::Misconfigured { budget: named(budget) },
            Some(budget) => Obstacle::Budget {
                budget: named(budget),
                needed: budget.status.desired_healthy,
                healthy: budget.status.current_healthy,
            },
            None => Obstacle::Budget { budget: String::new(), needed: 0, healthy: 0 },
        }
    }

    /// Returns the obstacle of a pod that several budgets cover.
    pub(super) fn several(&self, pod: &PodView) -> Obstacle {
        Obstacle::SeveralBudgets(self.covering(pod).map(named).collect())
    }
}

fn named(budget: &PodDisruptionBudgetView) -> String {
    format!("{}/{}", budget.namespace(), budget.name())
}
