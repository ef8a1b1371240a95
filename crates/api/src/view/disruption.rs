//! Pod disruption budgets: what refused an eviction.

use std::collections::BTreeMap;

use crate::LabelSelector;
use crate::Object;
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A PodDisruptionBudget as a drain sees it.
    pub struct PodDisruptionBudgetView: "PodDisruptionBudget", "poddisruptionbudgets", group "policy", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Whom it protects.
        pub spec: DisruptionSpec = "spec",
        /// What it allows right now.
        pub status: DisruptionStatus = "status",
    }
}

record! {
    /// Whom a budget protects.
    pub struct DisruptionSpec {
        /// The pods; none if missing, all of the namespace if empty.
        pub selector: Option<LabelSelector> = "selector",
    }
}

record! {
    /// What a budget allows right now.
    pub struct DisruptionStatus {
        /// The generation of the spec this status is about.
        pub observed_generation: i64 = "observedGeneration",
        /// How many more pods may be disrupted.
        pub disruptions_allowed: i32 = "disruptionsAllowed",
        /// How many protected pods are healthy.
        pub current_healthy: i32 = "currentHealthy",
        /// How many of them must be.
        pub desired_healthy: i32 = "desiredHealthy",
        /// How many protected pods there are.
        pub expected_pods: i32 = "expectedPods",
        /// Pods whose eviction was allowed and which are not yet counted as gone.
        pub disrupted_pods: BTreeMap<String, String> = "disruptedPods",
    }
}

impl PodDisruptionBudgetView {
    /// Whether it can never allow an eviction, although all its pods are healthy: waiting is pointless. A pod on its way
    /// out (`disruptedPods`) makes a sound budget look like this for a moment, so it must have none.
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
    fn a_budget_that_can_never_allow_is_told_from_one_that_waits(
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
