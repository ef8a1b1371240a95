//! Nobody whom anybody would miss may be on the node when its VM goes.
//!
//! Draining is not built yet. Until it is, a node that carries pods anybody would miss is not deleted: the machine stays where
//! it is and says which pods.

use api::deletion::Step as Stage;
use api::names::descriptions;
use api::view::NodeView;

use super::super::{Facts, Notice, Observed, Plan, PodsOnNode, Reason, StatusWrite, Step, Tone, facts};
use super::{begin_vm_deletion, delete_vm};
use crate::{Awaited, Lookup, Wake};

/// D3: the node called `name` is emptied, whether or not it is (still) registered.
pub(super) fn drain(
    seen: &Observed<'_>,
    _facts: &Facts<'_>,
    name: &str,
    _node: Lookup<&NodeView>,
    pods: &PodsOnNode,
) -> Plan {
    let look = || {
        let step = Step::LookAtPods { node: name.to_owned() };
        Plan::of(vec![step], Wake::Again, Reason::PodsUnknown)
    };
    match pods {
        PodsOnNode::NotLooked => look(),
        PodsOnNode::Clear => begin_vm_deletion(seen, descriptions::DRAINED),
        PodsOnNode::Blocking { pods, at } => {
            let next = facts::later(*at, seen.policy.pods_recheck);
            if next <= seen.now {
                return look();
            }
            let because = Reason::PodsInTheWay(pods.clone());
            let write = StatusWrite::deleting(Stage::Drain, &format!("{because}."), seen.now);
            let mut steps = Vec::new();
            if write.is_news(seen.machine, seen.policy, seen.now) {
                steps.push(Step::Status(write));
                steps.push(Step::Tell(Notice {
                    tone: Tone::Warning,
                    reason: "DrainBlocked",
                    message: because.to_string(),
                }));
            }
            Plan::of(steps, Wake::By { awaited: Awaited::Pods, at: next }, because)
        }
    }
}

/// D4: volumes that a forced drain left attached. Nothing detaches them yet, so the VM goes with them.
pub(super) fn detach(seen: &Observed<'_>, _facts: &Facts<'_>) -> Plan {
    delete_vm(seen)
}
