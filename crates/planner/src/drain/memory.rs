//! The requests of one drain and their results.
//!
//! The cluster shows the pods that are left on the Node. It does not show the last requests, the time since the first
//! refusal, or the volumes of a pod that has just been deleted. This state is kept here only and may be lost at any
//! time: then a request is repeated or a wait starts again, and no pod is treated worse. All changes are [`Note`]s, so
//! that a reconcile and a result that arrives in between do not overwrite each other.

use std::collections::{BTreeMap, BTreeSet};

use api::{Uid, VolumeId, VolumeName};
use jiff::Timestamp;

use super::answer::Answer;
use super::volumes::{Move, MoveKey, VolumeClaimKey};

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Evict, with the grace period, if the PodDisruptionBudgets allow it.
    Evict,
    /// Delete, without a grace period.
    Delete,
}

/// The state of one drain. Initially empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub(super) pods: BTreeMap<Uid, Attempts>,
    pub(super) moves: BTreeMap<MoveKey, Move>,
    pub(super) claims: BTreeMap<VolumeClaimKey, Lookup<Option<VolumeName>>>,
    pub(super) disks: BTreeMap<VolumeName, Lookup<Option<VolumeId>>>,
    pub(super) shared: BTreeSet<VolumeName>,
    /// By name: a recreated attachment counts as the same.
    pub(super) attachments: BTreeMap<String, Attempts>,
    pub(super) earlier_detachments: EarlierDetachments,
    pub(super) attachments_missing_since: Option<Timestamp>,
    pub(super) forced_since: Option<Timestamp>,
    /// The pods on the Node when the forced drain began.
    pub(super) present_when_forced: Option<BTreeSet<Uid>>,
}

/// Whether the volumes that were being detached at the start of the drain are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EarlierDetachments {
    #[default]
    NotRecorded,
    Recorded,
}

/// The attempts for one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// A request without a response.
    pub(super) requested: Option<(Verb, Timestamp)>,
    /// The version of the PodDisruptionBudget at the last request. Only a newer version causes a retry.
    pub(super) budget: Option<String>,
    /// An accepted request.
    pub(super) granted: Option<Granted>,
    /// The last failed attempt.
    pub(super) failed: Option<FailedAttempt>,
    /// Time of the first refusal.
    pub(super) first_refusal: Option<Timestamp>,
    /// Time of the first failure of any kind.
    pub(super) first_failure: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) verb: Verb,
    pub(super) at: Timestamp,
    pub(super) how: Grant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// The pod is terminating.
    Accepted,
    /// The pod did not exist any more.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    pub(super) verb: Verb,
    pub(super) answer: Answer,
    pub(super) at: Timestamp,
    /// Number of consecutive failures.
    pub(super) count: u32,
}

/// The lookup of an object that is read only when needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lookup<T> {
    Requested { attempts: u32, at: Timestamp },
    Failed { attempts: u32, at: Timestamp },
    Known(T),
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The lookup succeeded.
    Known(T),
    /// The lookup failed.
    Unreadable,
}

/// A change of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A pod is about to be evicted or deleted. Written by the planner.
    Requested {
        /// The pod.
        pod: Uid,
        /// The verb.
        verb: Verb,
        /// The version of the PodDisruptionBudget.
        budget: Option<String>,
        /// The time.
        at: Timestamp,
    },
    /// The result of the request. Written by the executor.
    Answered {
        /// The pod.
        pod: Uid,
        /// The verb.
        verb: Verb,
        /// The result.
        answer: Answer,
        /// The time.
        at: Timestamp,
    },
    /// The refusals of the pod do not count towards its deletion. Written by the planner.
    RefusalsReset {
        /// The pod.
        pod: Uid,
    },
    /// The pod is not on the Node any more. Written by the planner.
    PodLeft {
        /// The pod.
        pod: Uid,
    },
    /// Volumes are moving to another Node. Written by the planner.
    Moving {
        /// The key of the move.
        key: MoveKey,
        /// The objects.
        what: Move,
    },
    /// The volumes are detached. Written by the planner.
    Detached {
        /// The key of the move.
        key: MoveKey,
        /// When this was observed.
        at: Timestamp,
    },
    /// The drain does not wait for the volumes any more. Written by the planner.
    MoveEnded {
        /// The key of the move.
        key: MoveKey,
    },
    /// Volumes that several pods of the Node use. Written by the planner.
    Shared {
        /// The objects.
        volumes: BTreeSet<VolumeName>,
    },
    /// The volumes that were being detached at the start of the drain are recorded. Written by the planner.
    EarlierDetachmentsRecorded,
    /// The list of VolumeAttachments is needed and not available yet. Written by the planner.
    AttachmentsMissing {
        /// The time.
        since: Timestamp,
    },
    /// Claims are about to be looked up. Written by the planner.
    ClaimsRequested {
        /// The objects.
        claims: Vec<VolumeClaimKey>,
        /// The time.
        at: Timestamp,
    },
    /// The volume of a claim, `None` if the claim does not exist or is unbound. Written by the executor.
    ClaimFound {
        /// The objects.
        claim: VolumeClaimKey,
        /// The volume.
        volume: Found<Option<VolumeName>>,
        /// The time.
        at: Timestamp,
    },
    /// The IDs of volumes are about to be looked up. Written by the planner.
    DisksRequested {
        /// The objects.
        volumes: Vec<VolumeName>,
        /// The time.
        at: Timestamp,
    },
    /// The ID of a volume, `None` if the volume does not exist, is unknown to the driver, or the driver lacks the call.
    /// Written by the executor.
    DiskFound {
        /// The objects.
        volume: VolumeName,
        /// The ID.
        id: Found<Option<VolumeId>>,
        /// The time.
        at: Timestamp,
    },
    /// The drain is forced since this time, or not any more. Written by the planner.
    Forced {
        /// The time.
        since: Option<Timestamp>,
    },
    /// The pods on the Node when the forced drain began. Written by the planner.
    PresentWhenForced {
        /// The pods.
        pods: BTreeSet<Uid>,
    },
    /// A VolumeAttachment is about to be deleted. Written by the planner.
    AttachmentRequested {
        /// The name of the attachment.
        attachment: String,
        /// The time.
        at: Timestamp,
    },
    /// The result of the request. Written by the executor.
    AttachmentAnswered {
        /// The name of the attachment.
        attachment: String,
        /// The result.
        answer: Answer,
        /// The time.
        at: Timestamp,
    },
}

impl Memory {
    /// Applies notes, in order.
    pub fn take(&mut self, notes: impl IntoIterator<Item = Note>) {
        for note in notes {
            self.note(note);
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Requested { pod, verb, budget, at } => self.pods.entry(pod).or_default().ask(verb, budget, at),
            Note::Answered { pod, verb, answer, at } => self.pods.entry(pod).or_default().answer(verb, answer, at),
            Note::RefusalsReset { pod } => {
                if let Some(attempts) = self.pods.get_mut(&pod) {
                    (attempts.first_refusal, attempts.first_failure) = (None, None);
                }
            }
            Note::PodLeft { pod } => drop(self.pods.remove(&pod)),
            Note::Moving { key, what } => drop(self.moves.insert(key, what)),
            Note::Detached { key, at } => {
                if let Some(moving) = self.moves.get_mut(&key) {
                    moving.detached = Some(at);
                }
            }
            Note::MoveEnded { key } => drop(self.moves.remove(&key)),
            Note::Shared { volumes } => self.shared.extend(volumes),
            Note::EarlierDetachmentsRecorded => self.earlier_detachments = EarlierDetachments::Recorded,
            Note::AttachmentsMissing { since } => self.attachments_missing_since = Some(since),
            Note::ClaimsRequested { claims, at } => claims.into_iter().for_each(|c| ask(&mut self.claims, c, at)),
            Note::ClaimFound { claim, volume, at } => find(&mut self.claims, claim, volume, at),
            Note::DisksRequested { volumes, at } => volumes.into_iter().for_each(|v| ask(&mut self.disks, v, at)),
            Note::DiskFound { volume, id, at } => find(&mut self.disks, volume, id, at),
            Note::Forced { since } => (self.forced_since, self.present_when_forced) = (since, None),
            Note::PresentWhenForced { pods } => self.present_when_forced = Some(pods),
            Note::AttachmentRequested { attachment, at } => {
                self.attachments.entry(attachment).or_default().ask(Verb::Delete, None, at);
            }
            Note::AttachmentAnswered { attachment, answer, at } => {
                self.attachments.entry(attachment).or_default().answer(Verb::Delete, answer, at);
            }
        }
    }
}

impl Attempts {
    fn ask(&mut self, verb: Verb, budget: Option<String>, at: Timestamp) {
        self.requested = Some((verb, at));
        self.budget = budget;
        self.granted = None;
    }

    fn answer(&mut self, verb: Verb, answer: Answer, at: Timestamp) {
        // A deletion may follow an eviction that is still in progress: each response belongs to its own request.
        self.requested = self.requested.filter(|(requested, _)| *requested != verb);
        let how = match answer {
            Answer::Accepted => Grant::Accepted,
            Answer::Gone => Grant::Gone,
            Answer::Refused(_) | Answer::Failed(_) => return self.record_failure(verb, answer, at),
        };
        self.granted = Some(Granted { verb, at, how });
        self.failed = None;
    }

    fn record_failure(&mut self, verb: Verb, answer: Answer, at: Timestamp) {
        if matches!(answer, Answer::Refused(_)) {
            self.first_refusal.get_or_insert(at);
        }
        self.first_failure.get_or_insert(at);
        let count = self.failed.as_ref().filter(|s| s.verb == verb).map_or(0, |s| s.count).saturating_add(1);
        self.failed = Some(FailedAttempt { verb, answer, at, count });
    }
}

fn ask<K: Ord, T>(lookups: &mut BTreeMap<K, Lookup<T>>, key: K, at: Timestamp) {
    let attempts = lookups.get(&key).map_or(0, Lookup::attempts).saturating_add(1);
    lookups.insert(key, Lookup::Requested { attempts, at });
}

fn find<K: Ord, T>(lookups: &mut BTreeMap<K, Lookup<T>>, key: K, found: Found<T>, at: Timestamp) {
    let attempts = lookups.get(&key).map_or(1, Lookup::attempts);
    let lookup = match found {
        Found::Known(what) => Lookup::Known(what),
        Found::Unreadable => Lookup::Failed { attempts, at },
    };
    lookups.insert(key, lookup);
}

impl<T> Lookup<T> {
    fn attempts(&self) -> u32 {
        match self {
            Self::Requested { attempts, .. } | Self::Failed { attempts, .. } => *attempts,
            Self::Known(_) => 0,
        }
    }
}
