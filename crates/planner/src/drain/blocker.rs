//! Who is still on the node, and why.
//!
//! The status text, the Event and `explain` all come from these values. What somebody has to do something about comes first in
//! the order of the obstacles; what only takes its time comes last.

use std::fmt;

use api::names::descriptions;
use api::{Text, VolumeName};

use super::memory::Verb;

/// A pod that is still on the node, or whose volumes are not yet where they belong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// What is in the way.
    pub obstacle: Obstacle,
    /// The pod, as `namespace/name`; a volume's name where the pod is not known any more.
    pub pod: String,
}

/// What is in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A budget that can never allow an eviction, although all its pods are healthy.
    Misconfigured {
        /// The budget, as `namespace/name`.
        budget: String,
    },
    /// The server refuses for a reason that does not pass by itself.
    Failed {
        /// What it says.
        text: String,
    },
    /// It should have ended long ago.
    Overdue {
        /// Who holds it.
        finalizers: Vec<Text>,
    },
    /// Its volumes have not left the node in time.
    StuckVolumes(Vec<VolumeName>),
    /// Several budgets cover it, which no eviction gets past.
    SeveralBudgets(Vec<String>),
    /// A budget allows no eviction at the moment.
    Budget {
        /// The budget, as `namespace/name`; empty if no budget is known that would refuse.
        budget: String,
        /// How many of its pods must be healthy.
        needed: i32,
        /// How many are.
        healthy: i32,
    },
    /// Its namespace is being deleted.
    NamespaceEnding,
    /// The server was busy or away.
    Busy {
        /// What it said.
        text: String,
    },
    /// It exists, but nobody can read it.
    Unreadable,
    /// Its volumes are leaving the node.
    Detaching(Vec<VolumeName>),
    /// Its volumes have left and are expected on another node.
    Reattaching(Vec<VolumeName>),
    /// Its volumes are being looked up.
    VolumesUnknown,
    /// It is ending.
    Ending,
    /// The server has not answered yet.
    Unanswered(Verb),
    /// Other pods with volumes go first.
    Turn,
    /// It goes when all others have gone.
    Last,
}

impl Blocker {
    /// The sentence with which this pod fails the drain, as the reference words it; `None` if it only takes its time.
    pub fn failure(&self, node: &str) -> Option<String> {
        let pod = self.pod.rsplit('/').next().unwrap_or_default();
        match &self.obstacle {
            Obstacle::Misconfigured { budget } => Some(format!(
                "error while evicting pod {pod:?}: pod disruption budget {budget} {}",
                descriptions::MISCONFIGURED_BUDGET
            )),
            Obstacle::Failed { text } => {
                Some(format!("error when evicting pod {pod:?}: {text} scheduled on node {node}"))
            }
            Obstacle::Overdue { finalizers } => {
                let held = match finalizers.as_slice() {
                    [] => String::new(),
                    list => format!(" (it is held by finalizer {})", list.join(", ")),
                };
                Some(format!("error when waiting for pod {pod:?}/{node} terminating: context deadline exceeded{held}"))
            }
            Obstacle::StuckVolumes(_) => Some("timeout while waiting for PVs to detach from node".to_owned()),
            _ => None,
        }
    }
}

/// The failures of all pods as one error, the way the reference joins them: each text once, brackets around several. A node can
/// carry hundreds of pods, so what would be the eleventh text is only counted.
pub(super) fn failure(blockers: &[Blocker], node: &str) -> Option<String> {
    const SHOWN: usize = 10;
    let mut texts: Vec<String> = Vec::new();
    for text in blockers.iter().filter_map(|blocker| blocker.failure(node)) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pod, self.obstacle)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misconfigured { budget } => {
                write!(f, "pod disruption budget {budget} {}", descriptions::MISCONFIGURED_BUDGET)
            }
            Self::Failed { text } => write!(f, "cannot be evicted: {text}"),
            Self::Overdue { finalizers } if finalizers.is_empty() => {
                f.write_str("should have ended by now, but its node does not report it")
            }
            Self::Overdue { finalizers } => write!(f, "has ended, but is held by finalizer {}", finalizers.join(", ")),
            Self::StuckVolumes(volumes) => write!(f, "volume {} does not leave the node", joined(volumes)),
            Self::SeveralBudgets(budgets) => {
                write!(
                    f,
                    "is covered by several pod disruption budgets, which no eviction gets past: {}",
                    budgets.join(", ")
                )
            }
            Self::Budget { budget, .. } if budget.is_empty() => {
                f.write_str("a pod disruption budget allows no eviction")
            }
            Self::Budget { budget, needed, healthy } => {
                write!(f, "pod disruption budget {budget} needs {needed} healthy pods and has {healthy}")
            }
            Self::NamespaceEnding => f.write_str("its namespace is being deleted and will delete it"),
            Self::Busy { text } => write!(f, "the API server could not evict it: {text}"),
            Self::Unreadable => f.write_str("exists but cannot be read"),
            Self::Detaching(volumes) => write!(f, "volume {} is leaving the node", joined(volumes)),
            Self::Reattaching(volumes) => write!(f, "volume {} is expected on another node", joined(volumes)),
            Self::VolumesUnknown => f.write_str("its volumes are being looked up"),
            Self::Ending => f.write_str("ending"),
            Self::Unanswered(Verb::Evict) => f.write_str("being evicted"),
            Self::Unanswered(Verb::Delete) => f.write_str("being deleted"),
            Self::Turn => f.write_str("waiting for other pods with volumes"),
            Self::Last => f.write_str("goes when all others have gone"),
        }
    }
}

fn joined(volumes: &[VolumeName]) -> String {
    volumes.iter().map(VolumeName::as_str).collect::<Vec<_>>().join(", ")
}
