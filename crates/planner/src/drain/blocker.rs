//! The pods that are left on the Node, and why.
//!
//! The status text, the Event and `explain` are written from these values. Obstacles are in order: those that a user
//! must fix come first.

use std::fmt;

use api::texts;
use api::{Text, VolumeName};

use super::memory::Verb;

/// A pod that is left on the Node, or whose volumes are still moving.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The obstacle.
    pub obstacle: Obstacle,
    /// The pod, as `namespace/name`; the name of the volume if the pod is unknown.
    pub pod: String,
}

/// An obstacle to the drain of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A PodDisruptionBudget that never allows an eviction, although all its pods are healthy.
    Misconfigured {
        /// The budget, as `namespace/name`.
        budget: String,
    },
    /// The request fails permanently.
    Failed {
        /// The error.
        text: String,
    },
    /// The termination time of the pod has passed.
    Overdue {
        /// Its finalizers.
        finalizers: Vec<Text>,
    },
    /// Its volumes were not detached in time.
    StuckVolumes(Vec<VolumeName>),
    /// Several PodDisruptionBudgets cover it, which the API server does not support.
    SeveralBudgets(Vec<String>),
    /// A PodDisruptionBudget allows no eviction at present.
    Budget {
        /// The budget, as `namespace/name`; empty if none in the cache covers the pod.
        budget: String,
        /// Number of pods that must be healthy.
        needed: i32,
        /// Number of healthy pods.
        healthy: i32,
    },
    /// Its namespace is terminating.
    NamespaceTerminating,
    /// The request failed and is retried.
    Busy {
        /// The error.
        text: String,
    },
    /// The pod cannot be decoded.
    Undecodable,
    /// Its volumes are being detached.
    Detaching(Vec<VolumeName>),
    /// Its volumes are detached and not yet attached to another Node.
    Reattaching(Vec<VolumeName>),
    /// Its volumes are being looked up.
    VolumesUnknown,
    /// The pod is terminating.
    Terminating,
    /// The request has no response yet.
    InProgress(Verb),
    /// Other pods with volumes are evicted first.
    Queued,
    /// It is evicted after all other pods.
    Last,
}

impl Blocker {
    /// Returns the text of the failure in MCM's words, or `None` if the drain only has to wait.
    pub fn failure(&self, node: &str) -> Option<String> {
        let pod = self.pod.rsplit('/').next().unwrap_or_default();
        match &self.obstacle {
            Obstacle::Misconfigured { budget } => Some(format!(
                "error while evicting pod {pod:?}: pod disruption budget {budget} {}",
                texts::MISCONFIGURED_BUDGET
            )),
            Obstacle::Failed { text } => {
                Some(format!("error when evicting pod {pod:?}: {text} scheduled on node {node}"))
            }
            Obstacle::Overdue { finalizers } => {
                let held = match finalizers.as_slice() {
                    [] => String::new(),
                    list => format!(" (finalizers: {})", list.join(", ")),
                };
                Some(format!("error when waiting for pod {pod:?}/{node} terminating: context deadline exceeded{held}"))
            }
            Obstacle::StuckVolumes(_) => Some("timeout while waiting for PVs to detach from node".to_owned()),
            _ => None,
        }
    }
}

/// Joins the failures of all pods as MCM does: each text once, in brackets if there are several. A Node can have
/// hundreds of pods, so after ten texts the others are only counted.
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
                write!(f, "PodDisruptionBudget {budget} {}", texts::MISCONFIGURED_BUDGET)
            }
            Self::Failed { text } => write!(f, "eviction failed: {text}"),
            Self::Overdue { finalizers } if finalizers.is_empty() => {
                f.write_str("termination grace period has passed, but the Node does not report the end")
            }
            Self::Overdue { finalizers } => write!(f, "has terminated, but has finalizer {}", finalizers.join(", ")),
            Self::StuckVolumes(volumes) => write!(f, "volume {} is not detached from the Node", joined(volumes)),
            Self::SeveralBudgets(budgets) => {
                write!(
                    f,
                    "is covered by several PodDisruptionBudgets, which prevents any eviction: {}",
                    budgets.join(", ")
                )
            }
            Self::Budget { budget, .. } if budget.is_empty() => {
                f.write_str("waiting for a PodDisruptionBudget (0 disruptions allowed)")
            }
            Self::Budget { budget, needed, healthy } => {
                write!(f, "waiting for PodDisruptionBudget {budget} (requires {needed} healthy pods, has {healthy})")
            }
            Self::NamespaceTerminating => f.write_str("namespace is terminating and deletes the pod"),
            Self::Busy { text } => write!(f, "eviction failed, retrying: {text}"),
            Self::Undecodable => f.write_str("cannot be decoded"),
            Self::Detaching(volumes) => write!(f, "volume {} is being detached from the Node", joined(volumes)),
            Self::Reattaching(volumes) => {
                write!(f, "waiting for volume {} to be attached to another Node", joined(volumes))
            }
            Self::VolumesUnknown => f.write_str("looking up its volumes"),
            Self::Terminating => f.write_str("terminating"),
            Self::InProgress(Verb::Evict) => f.write_str("being evicted"),
            Self::InProgress(Verb::Delete) => f.write_str("being deleted"),
            Self::Queued => f.write_str("waiting for other pods with volumes"),
            Self::Last => f.write_str("waiting for all other pods"),
        }
    }
}

fn joined(volumes: &[VolumeName]) -> String {
    volumes.iter().map(VolumeName::as_str).collect::<Vec<_>>().join(", ")
}
