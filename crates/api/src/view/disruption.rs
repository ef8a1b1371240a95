//! PodDisruptionBudgets, which may reject evictions.

use std::collections::BTreeMap;

use crate::LabelSelector;
use crate::Object;
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// The fields of a PodDisruptionBudget that a drain uses.
    pub struct PodDisruptionBudgetView: "PodDisruptionBudget", "poddisruptionbudgets", group "policy", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Desired state.
        pub spec: DisruptionSpec = "spec",
        /// Observed state.
        pub status: DisruptionStatus = "status",
    }
}

record! {
    /// Spec of a PodDisruptionBudget.
    pub struct DisruptionSpec {
        /// Selector of pods; none if missing, all of the namespace if empty.
        pub selector: Option<LabelSelector> = "selector",
    }
}

record! {
    /// Status of a PodDisruptionBudget.
    pub struct DisruptionStatus {
        /// Generation of the spec that was observed.
        pub observed_generation: i64 = "observedGeneration",
        /// Number of disruptions that are allowed.
        pub disruptions_allowed: i32 = "disruptionsAllowed",
        /// Number of healthy pods.
        pub current_healthy: i32 = "currentHealthy",
        /// Minimum number of healthy pods.
        pub desired_healthy: i32 = "desiredHealthy",
        /// Number of pods.
        pub expected_pods: i32 = "expectedPods",
        /// Pods that were evicted and are not processed by the disruption controller yet.
        pub disrupted_pods: BTreeMap<String, String> = "disruptedPods",
    }
}

impl PodDisruptionBudgetView {
    /// Returns whether the budget never allows an eviction, although all pods are healthy, so waiting does not help. A valid budget
    /// has the same status while a pod is being evicted, so `disruptedPods` must be empty.
    pub fn is_misconfigured(&self) -> bool {
        let status = &self.status;
        self.generation() == status.observed_generation
            && status.expected_pods > 0
            && status.current_healthy >= status.expected_pods
            && status.disrupted_pods.is_empty()
            && status.disruptions_allowed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    /// Shows DR-6.
    #[rstest]
    #[case(3, 3, 1, false, 1, false)]
    #[case(3, 3, 0, true, 1, false)]
    #[case(3, 2, 0, true, 1, false)]
    #[case(3, 2, 0, false, 1, false)]
    #[case(3, 3, 0, false, 1, true)]
    #[case(3, 4, 0, false, 1, true)]
    #[case(3, 2, -1, false, 1, false)]
    #[case(0, 0, 0, false, 1, false)]
    #[case(3, 3, 0, false, 2, false)]
    fn misconfigured_budget_is_detected(
        #[case] expected: i32,
        #[case] healthy: i32,
        #[case] allowed: i32,
        #[case] in_flight: bool,
        #[case] generation: i64,
        #[case] misconfigured: bool,
    ) {
        let disrupted = if in_flight { json!({"a": "2026-01-01T00:00:00Z"}) } else { json!(null) };
        let budget: PodDisruptionBudgetView = serde_json::from_value(json!({
            "metadata": {"generation": generation, "annotations": {"a": "b"}},
            "status": {
                "observedGeneration": 1, "expectedPods": expected, "currentHealthy": healthy,
                "disruptionsAllowed": allowed, "disruptedPods": disrupted,
            },
        }))
        .unwrap();
        assert_eq!(budget.is_misconfigured(), misconfigured);
        assert!(budget.metadata.annotations.is_empty());
    }
}
