//! What this process did and was told in one drain.
//!
//! The world shows who is still on the node; it does not show whom we asked a second ago, who refused for how long and which
//! volumes the pod that just vanished had. That is kept here, and only here, and may be lost at any time: what follows is a
//! question asked twice or a wait begun again, never a pod treated worse. Everything that changes it is a [`Note`], so that a
//! pass and an answer that arrives meanwhile cannot undo each other.

use std::collections::{BTreeMap, BTreeSet};

use api::{Uid, VolumeId, VolumeName};
use jiff::Timestamp;

use super::answer::Answer;
use super::volumes::{Move, MoveKey, VolumeClaimKey};

/// Evict or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// With its grace, if its budgets allow.
    Evict,
    /// With no grace.
    Delete,
}

/// What one drain remembers. Starts empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub(super) pods: BTreeMap<Uid, Tries>,
    pub(super) moves: BTreeMap<MoveKey, Move>,
    pub(super) claims: BTreeMap<VolumeClaimKey, NodeLookup<Option<VolumeName>>>,
    pub(super) disks: BTreeMap<VolumeName, NodeLookup<Option<VolumeId>>>,
    pub(super) shared: BTreeSet<VolumeName>,
    /// By name: one that is made again is the same to whoever wants its volume.
    pub(super) attachments: BTreeMap<String, Tries>,
    pub(super) leftovers: Leftovers,
    pub(super) attachments_missed_since: Option<Timestamp>,
    pub(super) forced_since: Option<Timestamp>,
    /// Who was on the node when force first looked.
    pub(super) present_when_forced: Option<BTreeSet<Uid>>,
}

/// Whether volumes that were leaving when we first looked have been taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leftovers {
    #[default]
    NotSeen,
    Seen,
}

/// The attempts on one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// A request that has not been answered.
    pub(super) asked: Option<(Verb, Timestamp)>,
    /// The budget's version when it was last asked: only a newer one is news.
    pub(super) budget: Option<String>,
    /// A request that was granted.
    pub(super) granted: Option<Granted>,
    /// The last attempt that came to nothing.
    pub(super) setback: Option<Setback>,
    /// When it was first refused by right.
    pub(super) first_refusal: Option<Timestamp>,
    /// When an attempt first came to nothing for whatever reason.
    pub(super) first_setback: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) verb: Verb,
    pub(super) at: Timestamp,
    pub(super) how: Grant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// It is on its way out.
    Accepted,
    /// It was gone already.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setback {
    pub(super) verb: Verb,
    pub(super) answer: Answer,
    pub(super) at: Timestamp,
    /// How many in a row.
    pub(super) count: u32,
}

/// A question about an object that is read only when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeLookup<T> {
    Asked { tries: u32, at: Timestamp },
    Failed { tries: u32, at: Timestamp },
    Known(T),
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// This is it.
    Known(T),
    /// It could not be read just now.
    Unreadable,
}

/// A change of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A pod is about to be evicted or deleted. Made by the plan.
    Asked {
        /// The pod.
        pod: Uid,
        /// Which of the two.
        verb: Verb,
        /// The version of the budget it was decided under.
        budget: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// What became of it. Made by whoever carried it out.
    Answered {
        /// The pod.
        pod: Uid,
        /// What was asked.
        verb: Verb,
        /// What became of it.
        answer: Answer,
        /// When.
        at: Timestamp,
    },
    /// Its refusals do not count towards its deletion. Made by the plan.
    RefusalsForgiven {
        /// The pod.
        pod: Uid,
    },
    /// It has left the node. Made by the plan.
    PodLeft {
        /// The pod.
        pod: Uid,
    },
    /// Volumes are on their way to another node. Made by the plan.
    Moving {
        /// Whose.
        key: MoveKey,
        /// Which.
        what: Move,
    },
    /// They have left the node. Made by the plan.
    Detached {
        /// Whose.
        key: MoveKey,
        /// When that was seen.
        at: Timestamp,
    },
    /// They are nobody's concern any more. Made by the plan.
    Settled {
        /// Whose.
        key: MoveKey,
    },
    /// Volumes that several pods of the node use. Made by the plan.
    Shared {
        /// Which.
        volumes: BTreeSet<VolumeName>,
    },
    /// Volumes that were leaving when the drain began have been taken up. Made by the plan.
    LeftoversSeen,
    /// The cluster's attachments are needed and not seen yet. Made by the plan.
    AttachmentsMissed {
        /// Since when.
        since: Timestamp,
    },
    /// Claims are about to be looked up. Made by the plan.
    ClaimsAsked {
        /// Which.
        claims: Vec<VolumeClaimKey>,
        /// When.
        at: Timestamp,
    },
    /// What a claim is bound to: nothing if it does not exist or is unbound. Made by whoever looked.
    ClaimFound {
        /// Which.
        claim: VolumeClaimKey,
        /// Its volume.
        volume: Found<Option<VolumeName>>,
        /// When.
        at: Timestamp,
    },
    /// Volumes' ids are about to be looked up. Made by the plan.
    DisksAsked {
        /// Which.
        volumes: Vec<VolumeName>,
        /// When.
        at: Timestamp,
    },
    /// A volume's id: nothing if the volume does not exist, is foreign to the driver, or the driver has no such call. Made by
    /// whoever looked.
    DiskFound {
        /// Which.
        volume: VolumeName,
        /// Its id.
        id: Found<Option<VolumeId>>,
        /// When.
        at: Timestamp,
    },
    /// The drain is forced since then, or no longer. Made by the plan.
    Forced {
        /// Since when.
        since: Option<Timestamp>,
    },
    /// Who was on the node when force first looked. Made by the plan.
    PresentWhenForced {
        /// The pods.
        pods: BTreeSet<Uid>,
    },
    /// A VolumeAttachment is about to be deleted. Made by the plan.
    AttachmentAsked {
        /// The attachment, by its name.
        attachment: String,
        /// When.
        at: Timestamp,
    },
    /// What became of it. Made by whoever carried it out.
    AttachmentAnswered {
        /// The attachment, by its name.
        attachment: String,
        /// What became of it.
        answer: Answer,
        /// When.
        at: Timestamp,
    },
}

impl Memory {
    /// Takes notes, in order.
    pub fn take(&mut self, notes: impl IntoIterator<Item = Note>) {
        for note in notes {
            self.note(note);
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Asked { pod, verb, budget, at } => self.pods.entry(pod).or_default().ask(verb, budget, at),
            Note::Answered { pod, verb, answer, at } => self.pods.entry(pod).or_default().answer(verb, answer, at),
            Note::RefusalsForgiven { pod } => {
                if let Some(tries) = self.pods.get_mut(&pod) {
                    (tries.first_refusal, tries.first_setback) = (None, None);
                }
            }
            Note::PodLeft { pod } => drop(self.pods.remove(&pod)),
            Note::Moving { key, what } => drop(self.moves.insert(key, what)),
            Note::Detached { key, at } => {
                if let Some(moving) = self.moves.get_mut(&key) {
                    moving.detached = Some(at);
                }
            }
            Note::Settled { key } => drop(self.moves.remove(&key)),
            Note::Shared { volumes } => self.shared.extend(volumes),
            Note::LeftoversSeen => self.leftovers = Leftovers::Seen,
            Note::AttachmentsMissed { since } => self.attachments_missed_since = Some(since),
            Note::ClaimsAsked { claims, at } => claims.into_iter().for_each(|c| ask(&mut self.claims, c, at)),
            Note::ClaimFound { claim, volume, at } => find(&mut self.claims, claim, volume, at),
            Note::DisksAsked { volumes, at } => volumes.into_iter().for_each(|v| ask(&mut self.disks, v, at)),
            Note::DiskFound { volume, id, at } => find(&mut self.disks, volume, id, at),
            Note::Forced { since } => (self.forced_since, self.present_when_forced) = (since, None),
            Note::PresentWhenForced { pods } => self.present_when_forced = Some(pods),
            Note::AttachmentAsked { attachment, at } => {
                self.attachments.entry(attachment).or_default().ask(Verb::Delete, None, at);
            }
            Note::AttachmentAnswered { attachment, answer, at } => {
                self.attachments.entry(attachment).or_default().answer(Verb::Delete, answer, at);
            }
        }
    }
}

impl Tries {
    fn ask(&mut self, verb: Verb, budget: Option<String>, at: Timestamp) {
        self.asked = Some((verb, at));
        self.budget = budget;
        self.granted = None;
    }

    fn answer(&mut self, verb: Verb, answer: Answer, at: Timestamp) {
        // A deletion may follow an eviction that is still under way: each answer is about its own question.
        self.asked = self.asked.filter(|(asked, _)| *asked != verb);
        let how = match answer {
            Answer::Accepted => Grant::Accepted,
            Answer::Gone => Grant::Gone,
            Answer::Refused(_) | Answer::Failed(_) => return self.set_back(verb, answer, at),
        };
        self.granted = Some(Granted { verb, at, how });
        self.setback = None;
    }

    fn set_back(&mut self, verb: Verb, answer: Answer, at: Timestamp) {
        if matches!(answer, Answer::Refused(_)) {
            self.first_refusal.get_or_insert(at);
        }
        self.first_setback.get_or_insert(at);
        let count = self.setback.as_ref().filter(|s| s.verb == verb).map_or(0, |s| s.count).saturating_add(1);
        self.setback = Some(Setback { verb, answer, at, count });
    }
}

fn ask<K: Ord, T>(inquiries: &mut BTreeMap<K, NodeLookup<T>>, key: K, at: Timestamp) {
    let tries = inquiries.get(&key).map_or(0, NodeLookup::tries).saturating_add(1);
    inquiries.insert(key, NodeLookup::Asked { tries, at });
}

fn find<K: Ord, T>(inquiries: &mut BTreeMap<K, NodeLookup<T>>, key: K, found: Found<T>, at: Timestamp) {
    let tries = inquiries.get(&key).map_or(1, NodeLookup::tries);
    let node_lookup = match found {
        Found::Known(what) => NodeLookup::Known(what),
        Found::Unreadable => NodeLookup::Failed { tries, at },
    };
    inquiries.insert(key, node_lookup);
}

impl<T> NodeLookup<T> {
    fn tries(&self) -> u32 {
        match self {
            Self::Asked { tries, .. } | Self::Failed { tries, .. } => *tries,
            Self::Known(_) => 0,
        }
    }
}
