//! Limits on surplus and missing Machines during a rollout.

use api::{
    InPlaceUpdate, IntOrString, MachineDeployment, OrchestrationType, RollingUpdate, Rounding, StrategyType,
    UpdateLimits,
};

/// The limits of a MachineDeployment, calculated for its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Desired number of Machines.
    pub replicas: i32,
    /// Maximum number of additional Machines.
    pub surge: i32,
    /// Maximum number of unavailable Machines.
    pub unavailable: i32,
    /// The surge in the annotation `max-replicas`. MCM records one for rolling updates only.
    pub booked_surge: i32,
}

impl Limits {
    /// Returns the limits of a MachineDeployment. Invalid values count as zero; validation has reported them.
    #[must_use]
    pub fn of(deployment: &MachineDeployment) -> Self {
        let replicas = deployment.spec.replicas.max(0);
        let strategy = &deployment.spec.strategy;
        let (surge, unavailable) = match (&strategy.kind, &strategy.rolling_update, &strategy.in_place_update) {
            (StrategyType::RollingUpdate, Some(RollingUpdate { limits, .. }), _) => resolve(limits, replicas),
            (StrategyType::InPlaceUpdate, _, Some(InPlaceUpdate { limits, orchestration_type, .. })) => {
                // With manual orchestration there is no surge.
                let surge =
                    (*orchestration_type != OrchestrationType::Manual).then_some(()).and(limits.max_surge.clone());
                resolve(&UpdateLimits { max_surge: surge, ..limits.clone() }, replicas)
            }
            _ => (0, 0),
        };
        let booked_surge = if strategy.kind == StrategyType::RollingUpdate { surge } else { 0 };
        Self { replicas, surge, unavailable: unavailable.min(replicas), booked_surge }
    }

    /// Maximum number of Machines.
    #[must_use]
    pub fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// Maximum number of Machines in the annotation `max-replicas`.
    #[must_use]
    pub fn recorded_maximum(&self) -> i32 {
        self.replicas.saturating_add(self.booked_surge)
    }

    /// Minimum number of available Machines.
    #[must_use]
    pub fn least_available(&self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }

    /// Minimum number of available Machines while Failed Machines are preserved, in old MachineSets and in the new one.
    /// Preserved Machines occupy replicas and are never available. With as many of them as surge and unavailable limits
    /// allow together, the rollout would be blocked, so one more may be unavailable, as if both limits were zero. Those
    /// of the new MachineSet still exist at the end of the rollout.
    #[must_use]
    pub fn least_available_with_preserved(&self, old: i32, new: i32) -> i32 {
        let movable = self.most().saturating_sub(old).saturating_sub(new).saturating_sub(1);
        self.least_available().min(movable).min(self.replicas.saturating_sub(new)).max(0)
    }
}

/// If neither a surge nor an unavailable Machine is allowed, the rollout would be blocked, so one may be unavailable.
fn resolve(limits: &UpdateLimits, replicas: i32) -> (i32, i32) {
    let number = |limit: &Option<IntOrString>, rounding| {
        limit.as_ref().and_then(|limit| limit.scaled(replicas, rounding)).unwrap_or(0).max(0)
    };
    let (surge, unavailable) =
        (number(&limits.max_surge, Rounding::Up), number(&limits.max_unavailable, Rounding::Down));
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn limits(replicas: i32, strategy: &Value) -> Limits {
        let deployment = json!({ "metadata": {}, "spec": { "replicas": replicas, "strategy": strategy } });
        Limits::of(&serde_json::from_value(deployment).unwrap())
    }

    /// Shows MD-S9.
    #[rstest]
    #[case(10, json!(3), json!(2), (3, 2))]
    #[case(10, json!("25%"), json!("25%"), (3, 2))]
    #[case(3, json!("10%"), json!("10%"), (1, 0))]
    #[case(3, json!(0), json!("10%"), (0, 1))]
    #[case(3, json!(0), json!(0), (0, 1))]
    #[case(3, json!(1), json!(9), (1, 3))]
    #[case(3, json!(-1), json!(-4), (0, 1))]
    #[case(0, json!(1), json!(1), (1, 0))]
    fn numbers_and_percentages_are_calculated(
        #[case] replicas: i32,
        #[case] surge: Value,
        #[case] unavailable: Value,
        #[case] expected: (i32, i32),
    ) {
        let block = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        let rolling = limits(replicas, &json!({ "type": "RollingUpdate", "rollingUpdate": block }));
        assert_eq!((rolling.surge, rolling.unavailable), expected);
    }

    /// Shows MD-S9.
    #[test]
    fn recreate_has_no_limits_and_manual_updates_no_surge() {
        let block = json!({ "maxSurge": 2, "maxUnavailable": 1, "orchestrationType": "Manual" });
        let recreate = limits(5, &json!({ "type": "Recreate", "rollingUpdate": block }));
        assert_eq!((recreate.surge, recreate.unavailable), (0, 0));
        let manual = limits(5, &json!({ "type": "InPlaceUpdate", "inPlaceUpdate": block }));
        assert_eq!((manual.surge, manual.unavailable, manual.booked_surge), (0, 1, 0));
    }

    #[test]
    fn missing_strategy_settings_count_as_zero() {
        assert_eq!(limits(5, &json!({ "type": "RollingUpdate" })).most(), 5);
    }
}
