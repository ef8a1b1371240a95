//! How many machines may be too many, and how many too few, while a deployment changes.

use api::{
    InPlaceUpdate, IntOrString, MachineDeployment, OrchestrationType, RollingUpdate, Rounding, StrategyType,
    UpdateLimits,
};

/// The limits of a deployment, resolved against its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many machines there are to be.
    pub replicas: i32,
    /// How many more there may be while old ones are replaced.
    pub surge: i32,
    /// How many fewer may be available.
    pub unavailable: i32,
    /// The surge that is written into the annotation `max-replicas`: in the reference's books only a rolling update has one.
    pub booked_surge: i32,
}

impl Limits {
    /// The limits of a deployment. What cannot be read counts as none; validation has told about it.
    #[must_use]
    pub fn of(deployment: &MachineDeployment) -> Self {
        let replicas = deployment.spec.replicas.max(0);
        let strategy = &deployment.spec.strategy;
        let (surge, unavailable) = match (&strategy.kind, &strategy.rolling_update, &strategy.in_place_update) {
            (StrategyType::RollingUpdate, Some(RollingUpdate { limits, .. }), _) => resolve(limits, replicas),
            (StrategyType::InPlaceUpdate, _, Some(InPlaceUpdate { limits, orchestration_type, .. })) => {
                // Who chooses the machines himself is given no extra ones.
                let surge =
                    (*orchestration_type != OrchestrationType::Manual).then_some(()).and(limits.max_surge.clone());
                resolve(&UpdateLimits { max_surge: surge, ..limits.clone() }, replicas)
            }
            _ => (0, 0),
        };
        let booked_surge = if strategy.kind == StrategyType::RollingUpdate { surge } else { 0 };
        Self { replicas, surge, unavailable: unavailable.min(replicas), booked_surge }
    }

    /// How many machines there may be at most.
    #[must_use]
    pub fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// How many there may be at most in the annotation `max-replicas`.
    #[must_use]
    pub fn booked_most(&self) -> i32 {
        self.replicas.saturating_add(self.booked_surge)
    }

    /// How many available ones there should be at least, as far as it is up to us.
    #[must_use]
    pub fn least_available(&self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }

    /// The same while so many Failed machines are preserved, in old sets and in the new one. They take up places and are never
    /// available, so with as many of them as may be too many or too few together nothing could ever move; then one more may be
    /// missing, as where both are zero. And those of the new set are still there when the roll-out has come to its end.
    #[must_use]
    pub fn least_available_beside(&self, old: i32, new: i32) -> i32 {
        let movable = self.most().saturating_sub(old).saturating_sub(new).saturating_sub(1);
        self.least_available().min(movable).min(self.replicas.saturating_sub(new)).max(0)
    }
}

/// With neither a machine too many nor one too few allowed nothing could ever move, so one may be missing.
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
    fn numbers_and_shares_are_resolved(
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
    fn recreate_has_neither_and_manual_updates_have_no_surge() {
        let block = json!({ "maxSurge": 2, "maxUnavailable": 1, "orchestrationType": "Manual" });
        let recreate = limits(5, &json!({ "type": "Recreate", "rollingUpdate": block }));
        assert_eq!((recreate.surge, recreate.unavailable), (0, 0));
        let manual = limits(5, &json!({ "type": "InPlaceUpdate", "inPlaceUpdate": block }));
        assert_eq!((manual.surge, manual.unavailable, manual.booked_surge), (0, 1, 0));
    }

    #[test]
    fn a_missing_block_crashes_nothing() {
        assert_eq!(limits(5, &json!({ "type": "RollingUpdate" })).most(), 5);
    }
}
