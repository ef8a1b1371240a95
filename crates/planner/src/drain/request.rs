//! What a caller asks of a drain, and how far it may go.
//!
//! Three callers empty a node: a deletion, an in-place update and a preservation. They differ in when the clock started and
//! in which label asks for force; the rest is read the same way for all of them, from the Machine, its Node and the flags.

use std::time::Duration;

use api::names::conditions::in_place;
use api::names::labels;
use api::view::NodeView;
use api::{GoDuration, Machine, NodeCondition, Object, SpecDuration};
use jiff::Timestamp;

use super::Limits;
use crate::Presence;
use crate::safety::Outages;

/// Whose drain it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The machine is being deleted. It goes on even if a forced drain fails.
    Deletion,
    /// The node's software is to be replaced.
    InPlaceUpdate,
    /// The failed machine is kept for inspection.
    Preservation,
}

/// Whether somebody asked for force, by label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForceLabel {
    /// Nobody did.
    Absent,
    /// Somebody did.
    Set,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The node, whether or not it (still) exists.
    pub node: &'a str,
    /// Whose drain it is.
    pub caller: Caller,
    /// When the clock started: deletion, selection for the update, or the last change of phase. `None` if nobody has written
    /// it down yet; then time does not force the drain.
    pub reference: Option<Timestamp>,
    /// How long from then until the drain is forced.
    pub timeout: Duration,
    /// How many evictions may be refused, `timeout` considered.
    pub evict_retries: u32,
    /// Whether force is asked for.
    pub force: ForceLabel,
    /// How the node is: by itself, or by the machine's copy if it is gone.
    pub conditions: &'a [NodeCondition],
    /// When this process could not see the API server; that time counts neither for the timeout nor for an illness.
    pub outages: &'a Outages,
    /// Everything that is the same for all drains.
    pub limits: &'a Limits,
}

impl<'a> Request<'a> {
    /// The drain of a machine that is being deleted.
    pub fn for_deletion(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let label = machine.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true);
        Self::new(machine, name, node, limits, outages).asked(Caller::Deletion, machine.deleted_at(), label)
    }

    /// The drain before an in-place update. Its clock runs while the node is selected for the update.
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
        Self::new(machine, name, node, limits, outages).asked(Caller::InPlaceUpdate, since, asks_for_drain(machine))
    }

    /// The drain of a failed machine that is preserved.
    pub fn for_preservation(
        machine: &'a Machine,
        name: &'a str,
        node: Presence<&'a NodeView>,
        limits: &'a Limits,
        outages: &'a Outages,
    ) -> Self {
        let since = machine.status.current_status.last_update_time.map(api::Time::timestamp);
        Self::new(machine, name, node, limits, outages).asked(Caller::Preservation, since, asks_for_drain(machine))
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
            .and_then(SpecDuration::usable)
            .map_or(limits.timeout, GoDuration::to_std);
        let retries = configuration.max_evict_retries.map_or(limits.max_evict_retries, i64::from);
        Self {
            node: name,
            caller: Caller::Deletion,
            reference: None,
            timeout,
            evict_retries: effective_retries(retries, timeout, limits.evict_interval),
            force: ForceLabel::Absent,
            // The machine's copy stands still once its deletion has begun: only the node itself can say that it has
            // recovered, or fallen ill since.
            conditions: match node {
                Presence::Present(node) => &node.status.conditions,
                Presence::Absent | Presence::Undecodable => &machine.status.conditions,
            },
            outages,
            limits,
        }
    }

    fn asked(self, caller: Caller, reference: Option<Timestamp>, label: bool) -> Self {
        Self { caller, reference, force: if label { ForceLabel::Set } else { ForceLabel::Absent }, ..self }
    }

    /// When the drain becomes forceful. Absolute: a restart does not start the clock again. An outage extends it by at most the timeout:
    /// a deletion ends although the API server stays unreachable.
    pub fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        self.reference.map(|reference| self.outages.deadline_within(reference, self.timeout, self.timeout, now))
    }

    /// How long after its first refusal a pod is deleted instead: as long as the reference needs for its retries, however
    /// often we try meanwhile. `None` if it never is.
    pub fn refusal_limit(&self) -> Option<Duration> {
        match self.limits.force {
            super::Force::WhenOverdue => Some(self.limits.evict_interval.saturating_mul(self.evict_retries)),
            super::Force::OnlyWhenAsked => None,
        }
    }
}

/// In-place updates and preservations want this very word.
fn asks_for_drain(machine: &Machine) -> bool {
    machine.label(labels::FORCE_DRAIN) == Some(labels::FORCE_DRAIN_VALUE)
}

/// No more retries than fit into the timeout.
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
    fn timeout_and_retries_are_those_of_the_machine_else_of_the_flags(
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
    fn each_caller_has_its_own_word_for_force(
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
    fn each_caller_has_its_own_clock_and_time_of_an_outage_is_given_back() {
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
    fn health_is_the_node_s_own_and_the_machine_s_copy_only_once_the_node_is_gone() {
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
