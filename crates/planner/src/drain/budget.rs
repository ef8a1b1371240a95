//! Which disruption budget keeps a pod, and whether it opens.

use std::collections::BTreeMap;

use api::Object;
use api::view::{PodDisruptionBudgetView, PodView};

use super::Watched;
use super::blocker::Obstacle;

/// The budgets of the cluster, by namespace, and how many evictions each still allows in this builder.
pub(super) struct Budgets<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudgetView>>,
    spent: BTreeMap<(&'a str, &'a str), i32>,
}

impl<'a> Budgets<'a> {
    /// The budgets that may cover these pods. A cluster has thousands, a node's pods live in a few namespaces.
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
            budgets.sort_by_key(|budget| budget.name()); // of several the first by name counts, so that every reconcile agrees
        }
        Self { by_namespace, spent: BTreeMap::new() }
    }

    /// The budgets that cover a pod. One without a selector covers nobody, and one with a bad selector is passed over.
    fn covering(&self, pod: &PodView) -> impl Iterator<Item = &'a PodDisruptionBudgetView> {
        let labels = &pod.metadata.labels;
        let budgets = self.by_namespace.get(pod.namespace()).into_iter().flatten().copied();
        budgets.filter(move |budget| {
            budget.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels).unwrap_or(false))
        })
    }

    /// The version of the budget that covers a pod, to tell later whether it has changed.
    pub(super) fn version(&self, pod: &PodView) -> Option<String> {
        self.covering(pod).next().map(|budget| budget.resource_version().to_owned())
    }

    /// Whether the budget has changed since the pod was refused and allows one more: then it is tried at once. As many pods as
    /// it allows, not all that wait for it.
    pub(super) fn has_opened(&mut self, pod: &PodView, refused_under: Option<&str>) -> bool {
        // A budget that is gone keeps nobody; without one the next attempt is made under none, so this is asked once.
        let Some(budget) = self.covering(pod).next() else { return refused_under.is_some() };
        if Some(budget.resource_version()) == refused_under {
            return false;
        }
        let spent = self.spent.entry((budget.namespace(), budget.name())).or_default();
        let open = *spent < budget.status.disruptions_allowed;
        *spent += i32::from(open);
        open
    }

    /// What keeps a pod that a budget refused.
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

    /// What keeps a pod that several budgets cover.
    pub(super) fn several(&self, pod: &PodView) -> Obstacle {
        Obstacle::SeveralBudgets(self.covering(pod).map(named).collect())
    }
}

fn named(budget: &PodDisruptionBudgetView) -> String {
    format!("{}/{}", budget.namespace(), budget.name())
}
