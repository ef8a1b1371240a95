//! The requests of a drain, made outside of any worker.
//!
//! An eviction can take seconds, and a node can have hundreds of pods. So the requests that a reconcile asks for run in a task of
//! their own, a limited number of them at once over all drains. Each answer goes into the drain's memory; a refusal wakes the
//! machine at once, because nothing else will tell of it, and so does the end of the batch. Right before each request leaves it
//! is asked once more whether we still lead.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use api::view::{PersistentVolumeSpec, VolumeAttachmentView};
use api::{MachineClass, VolumeId, VolumeName};
use driver::Code;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use planner::drain::attachments::AttachmentId;
use planner::drain::{Answer, Failure, Found, Note, Outlook, PodId, Step, Verb, VolumeClaimKey};
use runtime::client::ApiError;
use runtime::lease::Leadership;
use runtime::queue::Queue;
use runtime::{Clock, Key, Tasks};
use tokio::sync::Semaphore;

use super::measure::Measures;
use super::requests;
use super::running::Drain;
use crate::limiter::CallLimiter;
use crate::write::Writer;

/// One request.
#[derive(Clone, Debug)]
pub(super) enum EvictionTask {
    Evict(PodId),
    Delete(PodId),
    FindClaim(VolumeClaimKey),
    FindDisk(VolumeName),
    DeleteAttachment(AttachmentId),
}

impl EvictionTask {
    /// The requests of a step.
    pub(super) fn of(step: &Step) -> Vec<Self> {
        match step {
            Step::Watch => Vec::new(),
            Step::Evict(pod) => vec![Self::Evict(pod.clone())],
            Step::Delete(pod) => vec![Self::Delete(pod.clone())],
            Step::FindClaims(claims) => claims.iter().cloned().map(Self::FindClaim).collect(),
            Step::FindDisks(volumes) => volumes.iter().cloned().map(Self::FindDisk).collect(),
        }
    }

    /// The note that this request failed, so that it is retried with backoff.
    fn failed(self, text: &str, at: Timestamp) -> Note {
        let answer = Answer::Failed(Failure { text: text.to_owned(), outlook: Outlook::Lasting, retry_after: None });
        match self {
            Self::Evict(pod) => Note::Answered { pod: pod.uid, verb: Verb::Evict, answer, at },
            Self::Delete(pod) => Note::Answered { pod: pod.uid, verb: Verb::Delete, answer, at },
            Self::FindClaim(claim) => Note::ClaimFound { claim, volume: Found::Unreadable, at },
            Self::FindDisk(volume) => Note::DiskFound { volume, id: Found::Unreadable, at },
            Self::DeleteAttachment(id) => Note::AttachmentAnswered { attachment: id.name, answer, at },
        }
    }
}

/// Who makes the requests.
#[derive(Clone)]
pub(super) struct EvictionTasks {
    pub(super) client: Client,
    pub(super) attachments: Writer<VolumeAttachmentView>,
    pub(super) limiter: CallLimiter,
    pub(super) leadership: Leadership,
    /// How many requests may be under way at once.
    pub(super) places: Arc<Semaphore>,
    pub(super) queue: Queue<Key>,
    pub(super) clock: Clock,
    pub(super) measures: Measures,
    pub(super) tasks: Tasks,
}

/// Whether an answer has to be told at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// Nobody else will tell.
    Now,
    /// The world will show it, or the end of the batch will do.
    Later,
}

impl EvictionTasks {
    /// Makes these requests for a drain, until it ends.
    pub(super) fn run(
        &self,
        key: &Key,
        drain: &Arc<Drain>,
        class: Option<Arc<MachineClass>>,
        eviction_tasks: Vec<EvictionTask>,
    ) {
        let (own, key, stop, process) = (self.clone(), key.clone(), drain.stopping(), self.tasks.stopping());
        // The task must not keep the drain alive: its end is what stops the task.
        let drain = Arc::downgrade(drain);
        self.tasks.spawn("requests of a drain", async move {
            let at_once = own.places.available_permits().max(1);
            let work = stream::iter(eviction_tasks).for_each_concurrent(at_once, |task| async {
                let made = AssertUnwindSafe(own.make(task.clone(), class.as_deref(), &drain)).catch_unwind().await;
                let made = made.unwrap_or_else(|_| {
                    own.queue.panicked(&key, "drain request");
                    Some((task.failed("the request panicked", own.clock.now()), News::Later))
                });
                let Some((note, news)) = made else { return };
                if let Some(drain) = drain.upgrade() {
                    drain.note([note]);
                }
                if news == News::Now {
                    own.queue.add(key.clone());
                }
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = process.cancelled() => {}
                () = work => own.queue.add(key.clone()),
            }
        });
    }

    /// `None` when we may no longer act: then there is nothing to note either.
    async fn make(
        &self,
        task: EvictionTask,
        class: Option<&MachineClass>,
        drain: &Weak<Drain>,
    ) -> Option<(Note, News)> {
        let _place = self.places.acquire().await.ok()?;
        self.leadership.check().ok()?;
        Some(match task {
            EvictionTask::Evict(pod) => {
                let name = Key::new(pod.namespace.as_str(), pod.name.as_str());
                let answer = requests::evict(&self.client, &name, pod.uid.as_str()).await;
                self.answered(Verb::Evict, pod.uid, answer)
            }
            EvictionTask::Delete(pod) => {
                let name = Key::new(pod.namespace.as_str(), pod.name.as_str());
                let answer = requests::delete(&self.client, &name, pod.uid.as_str(), |left| {
                    if let Some(drain) = drain.upgrade() {
                        drain.deleted(&name, pod.uid.as_str(), left);
                    }
                });
                let answer = answer.await;
                self.answered(Verb::Delete, pod.uid, answer)
            }
            EvictionTask::DeleteAttachment(id) => {
                let answer = requests::delete_attachment(&self.attachments, &id).await;
                self.measures.answered("detach", &answer);
                let note = Note::AttachmentAnswered { attachment: id.name, answer, at: self.clock.now() };
                (note, News::Later)
            }
            EvictionTask::FindClaim(claim) => {
                let volume = self.volume_of(&claim).await;
                (Note::ClaimFound { claim, volume, at: self.clock.now() }, News::Later)
            }
            EvictionTask::FindDisk(volume) => {
                let id = self.disk_of(&volume, class).await;
                (Note::DiskFound { volume, id, at: self.clock.now() }, News::Later)
            }
        })
    }

    fn answered(&self, verb: Verb, pod: api::Uid, answer: Answer) -> (Note, News) {
        let word = match verb {
            Verb::Evict => "evict",
            Verb::Delete => "delete",
        };
        self.measures.answered(word, &answer);
        let news = match answer {
            Answer::Accepted | Answer::Gone => News::Later,
            Answer::Refused(_) | Answer::Failed(_) => News::Now,
        };
        (Note::Answered { pod, verb, answer, at: self.clock.now() }, news)
    }

    async fn volume_of(&self, claim: &VolumeClaimKey) -> Found<Option<VolumeName>> {
        let name = Key::new(claim.namespace.as_str(), claim.name.as_str());
        match requests::claim(&self.client, &name).await {
            Ok(found) => Found::Known(
                found.map(|claim| claim.spec.volume_name).filter(|volume| !volume.is_empty()).map(|v| (&*v).into()),
            ),
            Err(error) => unreadable("claim", &name.to_string(), &error),
        }
    }

    async fn disk_of(&self, volume: &VolumeName, class: Option<&MachineClass>) -> Found<Option<VolumeId>> {
        let spec = match requests::volume(&self.client, volume.as_str()).await {
            Ok(Some(volume)) => volume.spec,
            Ok(None) => return Found::Known(None),
            Err(error) => return unreadable("volume", volume.as_str(), &error),
        };
        match class {
            Some(class) => self.ask_driver(volume, class, spec).await,
            None => Found::Known(None), // without its class nobody knows which driver to ask
        }
    }

    async fn ask_driver(
        &self,
        volume: &VolumeName,
        class: &MachineClass,
        spec: PersistentVolumeSpec,
    ) -> Found<Option<VolumeId>> {
        match self.limiter.volume_ids(class, &[spec]).await {
            Ok(ids) => Found::Known(ids.into_iter().next().filter(|id| !id.is_empty()).map(|id| id.as_str().into())),
            Err(error) if matches!(error.code(), Code::Unimplemented | Code::InvalidArgument) => Found::Known(None),
            Err(error) => {
                tracing::warn!(
                    volume = volume.as_str(),
                    error = error.to_string(),
                    "the driver did not say which disk this volume is"
                );
                Found::Unreadable
            }
        }
    }
}

fn unreadable<T>(kind: &str, name: &str, why: &ApiError) -> Found<T> {
    tracing::warn!(kind, name, %why, "could not look up what a pod's disk is");
    Found::Unreadable
}
