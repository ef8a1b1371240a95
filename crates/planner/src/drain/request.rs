//! The request for a drain, and its limits.
//!
//! Three callers drain Nodes: a deletion, an in-place update and a preservation. They differ in the start time and in
//! the label that requests force. Everything else is read in the same way from the Machine, its Node and the flags.

use std::time::Duration;

use api::names::conditions::in_place;
use api::names::labels;
use api::view::NodeView;
use api::{GoDuration, Machine, NodeCondition, Object, SpecDuration};
use jiff::Timestamp;

use super::Limits;
use crate::Presence;
use crate::safety::Outages;

/// The caller of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The Machine is being deleted. The deletion continues even if a forced drain fails.
    Deletion,
    /// The Node is updated in place.
    InPlaceUpdate,
    /// The Failed Machine is preserved for inspection.
    Preservation,
}

/// Whether a label requests force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForceLabel {
    /// The label is absent.
    Absent,
    /// The label is set.
    Set,
}

/// The request for a drain.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The name of the Node, which may not exist (any more).
    pub node: &'a str,
    /// The caller.
    pub caller: Caller,
    /// The start time: the deletion, the selection for the update, or the last change of the phase. `None` if it is not
    /// recorded yet; then no timeout forces the drain.
    pub reference: Option<Timestamp>,
    /// Time from then until the drain is forced.
    pub timeout: Duration,
    /// Maximum number of refused evictions, limited by `timeout`.
    pub evict_retries: u32,
    /// Whether force is requested.
    pub force: ForceLabel,
    /// The conditions of the Node, or the copy on the Machine if the Node does not exist.
    pub conditions: &'a [NodeCondition],
    /// Outages of the API server. They count neither for the timeout nor for the time for which the Node is unhealthy.
    pub outages: &'a Outages,
    /// The settings of all drains.
    pub limits: &'a Limits,
}

impl<'a> Request<'a> {
    /// Returns the drain of a Machine that is being deleted.
    pub fn for_deletion(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let label = machine.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true);
        Self::new(machine, name, node, limits, outages).with(Caller::Deletion, machine.deleted_at(), label)
    }

    /// Returns the drain before an in-place update. Its start time is the selection of the Node.
    pub fn for_in_place(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let selected = node.present().and_then(|node| node.condition(in_place::TYPE));
        let since = selected
            .filter(|condition| &*condition.reason == in_place::SELECTED)
            .and_then(|condition| condition.last_transition_time)
            .map(api::Time::timestamp);
        Self::new(machine, name, node, limits, outages).with(Caller::InPlaceUpdate, since, requests_force(machine))
    }

    /// Returns the drain of a Failed Machine that is preserved.
    pub fn for_preservation(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let since = machine.status.current_status.last_update_time.map(api::Time::timestamp);
        Self::new(machine, name, node, limits, outages).with(Caller::Preservation, since, requests_force(machine))
    }

    fn new(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let configuration = &machine.spec.configuration;
        let timeout = configuration
            .drain_timeout
            .as_ref()
            .and_then(SpecDuration::valid)
            .map_or(limits.timeout, GoDuration::to_std);
        let retries = configuration.max_evict_retries.map_or(limits.max_evict_retries, i64::from);
        Self {
            node: name,
            caller: Caller::Deletion,
            reference: None,
            timeout,
            evict_retries: effective_retries(retries, timeout, limits.evict_interval),
            force: ForceLabel::Absent,
            // The copy on the Machine is not updated during its deletion. Only the Node shows that it has recovered or
            // become unhealthy.
            conditions: match node {
                Presence::Present(node) => &node.status.conditions,
                Presence::Absent | Presence::Undecodable(()) => &machine.status.conditions,
            },
            outages,
            limits,
        }
    }

    fn with(self, caller: Caller, reference: Option<Timestamp>, label: bool) -> Self {
        Self { caller, reference, force: if label { ForceLabel::Set } else { ForceLabel::Absent }, ..self }
    }

    /// Returns when the drain is forced. The time is absolute: a restart does not restart the timeout. An outage
    /// extends it by at most the timeout, so that a deletion ends although the API server stays unreachable.
    pub fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        self.reference.map(|reference| self.outages.deadline_within(reference, self.timeout, self.timeout, now))
    }

    /// Returns the time from the first refusal until a pod is deleted: as long as MCM needs for its retries,
    /// independent of the number of attempts. `None` if refusals never lead to a deletion.
    pub fn refusal_limit(&self) -> Option<Duration> {
        match self.limits.force {
            super::Force::WhenOverdue => Some(self.limits.evict_interval.saturating_mul(self.evict_retries)),
            super::Force::OnlyWhenAsked => None,
        }
    }
}

/// In-place updates and preservations require exactly this value.
fn requests_force(machine: &Machine) -> bool {
    machine.label(labels::FORCE_DRAIN) == Some(labels::FORCE_DRAIN_VALUE)
}

/// Limits the retries to those that fit into the timeout.
fn effective_retries(retries: i64, timeout: Duration, interval: Duration) -> u32 {
    let fitting = timeout.as_nanos().checked_div(interval.as_nanos()).unwrap_or(u128::MAX);
    let wanted = u128::try_from(retries).unwrap_or(0);
    u32::try_from(fitting.min(wanted)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::NO_OUTAGES;
    use rstest::rstest;
    use serde_json::json;

    fn machine(more: serde_json::Value) -> Machine {
        serde_json::from_value(more).unwrap()
    }

    /// Shows DR-Q10.
    #[rstest]
    #[case(json!({}), 7200, 360)]
    #[case(json!({"drainTimeout": "1h"}), 3600, 180)]
    #[case(json!({"drainTimeout": "4h"}), 14400, 360)]
    #[case(json!({"drainTimeout": "4h", "maxEvictRetries": 1000}), 14400, 720)]
    #[case(json!({"maxEvictRetries": 10}), 7200, 10)]
    #[case(json!({"maxEvictRetries": -1}), 7200, 0)]
    #[case(json!({"drainTimeout": "19s"}), 19, 0)]
    #[case(json!({"drainTimeout": "59s"}), 59, 2)]
    #[case(json!({"drainTimeout": "-5s"}), 0, 0)]
    #[case(json!({"drainTimeout": "soon"}), 7200, 360)]
    fn timeout_and_retries_of_the_machine_override_the_flags(
        #[case] spec: serde_json::Value,
        #[case] seconds: u64,
        #[case] retries: u32,
    ) {
        let limits = Limits::default();
        let machine = machine(json!({"spec": spec}));
        let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, &NO_OUTAGES);
        assert_eq!((request.timeout, request.evict_retries), (Duration::from_secs(seconds), retries));
    }

    /// Shows DR-3.
    #[rstest]
    #[case("force-deletion", "True", true, false)]
    #[case("force-deletion", "1", true, false)]
    #[case("force-deletion", "yes", false, false)]
    #[case("force-deletion", "false", false, false)]
    #[case("force-drain", "True", false, true)]
    #[case("force-drain", "true", false, false)]
    fn each_caller_has_its_own_force_label(
        #[case] key: &str,
        #[case] value: &str,
        #[case] deletion: bool,
        #[case] others: bool,
    ) {
        let limits = Limits::default();
        let machine = machine(json!({"metadata": {"labels": {key: value}}}));
        let forced = |request: Request<'_>| request.force == ForceLabel::Set;
        let none = &NO_OUTAGES;
        assert_eq!(forced(Request::for_deletion(&machine, "n", Presence::Absent, &limits, none)), deletion);
        assert_eq!(forced(Request::for_in_place(&machine, "n", Presence::Absent, &limits, none)), others);
        assert_eq!(forced(Request::for_preservation(&machine, "n", Presence::Absent, &limits, none)), others);
    }

    /// Shows DR-4.
    #[test]
    fn each_caller_has_its_own_start_time_and_outages_extend_it() {
        let limits = Limits::default();
        let machine = machine(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"},
            "status": {"currentStatus": {"lastUpdateTime": "2026-01-01T02:00:00Z"}},
        }));
        let node = |reason: &str| -> NodeView {
            let condition = json!({"type": "InPlaceUpdate", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T03:00:00Z"});
            serde_json::from_value(json!({"status": {"conditions": [condition]}})).unwrap()
        };
        let (selected, ready) = (node("SelectedForUpdate"), node("ReadyForUpdate"));
        let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let now = "2026-01-01T03:30:00Z".parse().unwrap();
        let mut outages = Outages::NONE;
        outages.begin("2026-01-01T01:30:00Z".parse().unwrap());
        outages.end("2026-01-01T01:40:00Z".parse().unwrap());
        let present = Presence::Present(&selected);
        let deadline = |request: Request<'_>| request.deadline(now);
        assert_eq!(
            deadline(Request::for_deletion(&machine, "n", present, &limits, &outages)),
            time("2026-01-01T03:10:00Z")
        );
        assert_eq!(
            deadline(Request::for_preservation(&machine, "n", present, &limits, &NO_OUTAGES)),
            time("2026-01-01T04:00:00Z")
        );
        assert_eq!(
            deadline(Request::for_in_place(&machine, "n", present, &limits, &NO_OUTAGES)),
            time("2026-01-01T05:00:00Z")
        );
        let other = Request::for_in_place(&machine, "n", Presence::Present(&ready), &limits, &NO_OUTAGES);
        assert_eq!(other.deadline(now), None);
    }

    /// Shows DR-Q19, MC-W18.
    #[test]
    fn machine_conditions_are_used_when_the_node_is_absent() {
        let limits = Limits::default();
        let ill = json!({"type": "Ready", "status": "Unknown"});
        let well = json!({"type": "Ready", "status": "True"});
        let machine = machine(json!({"status": {"conditions": [ill]}}));
        let node: NodeView = serde_json::from_value(json!({"status": {"conditions": [well]}})).unwrap();
        let conditions = |node| Request::for_deletion(&machine, "n", node, &limits, &NO_OUTAGES).conditions.to_vec();
        assert_eq!(conditions(Presence::Present(&node)), node.status.conditions);
        assert_eq!(conditions(Presence::Absent), machine.status.conditions);
    }
}
