//! The requests of a drain, in tasks of their own.
//!
//! An eviction can take seconds, and a Node can have hundreds of pods. So the requests of a reconcile run in a separate
//! task, and their number is limited over all drains. Each response is recorded in the memory of the drain. A rejected
//! or failed request wakes the Machine immediately, because no watch event reports it; the end of the batch wakes it,
//! too. Leadership is checked right before each request.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use api::view::{PersistentVolumeSpec, VolumeAttachmentView};
use api::{MachineClass, VolumeId, VolumeName};
use driver::Code;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use planner::drain::attachments::AttachmentId;
use planner::drain::{Answer, Failure, Found, Note, Persistence, PodId, Step, Verb, VolumeClaimKey};
use runtime::client::ApiError;
use runtime::lease::Leadership;
use runtime::queue::Queue;
use runtime::{Clock, Key, Tasks};
use tokio::sync::Semaphore;

use super::measure::Measures;
use super::requests;
use super::running::Drain;
use crate::driver_calls::DriverCalls;
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
    /// Returns the requests of a step.
    pub(super) fn of(step: &Step) -> Vec<Self> {
        match step {
            Step::Watch => Vec::new(),
            Step::Evict(pod) => vec![Self::Evict(pod.clone())],
            Step::Delete(pod) => vec![Self::Delete(pod.clone())],
            Step::FindClaims(claims) => claims.iter().cloned().map(Self::FindClaim).collect(),
            Step::FindDisks(volumes) => volumes.iter().cloned().map(Self::FindDisk).collect(),
        }
    }

    /// Returns the note that this request failed, so that it is retried with backoff.
    fn failed(self, text: &str, at: Timestamp) -> Note {
        let answer =
            Answer::Failed(Failure { text: text.to_owned(), persistence: Persistence::Permanent, retry_after: None });
        match self {
            Self::Evict(pod) => Note::Answered { pod: pod.uid, verb: Verb::Evict, answer, at },
            Self::Delete(pod) => Note::Answered { pod: pod.uid, verb: Verb::Delete, answer, at },
            Self::FindClaim(claim) => Note::ClaimFound { claim, volume: Found::Unreadable, at },
            Self::FindDisk(volume) => Note::DiskFound { volume, id: Found::Unreadable, at },
            Self::DeleteAttachment(id) => Note::AttachmentAnswered { attachment: id.name, answer, at },
        }
    }
}

/// Sends the requests.
#[derive(Clone)]
pub(super) struct EvictionTasks {
    pub(super) client: Client,
    pub(super) attachments: Writer<VolumeAttachmentView>,
    pub(super) driver_calls: DriverCalls,
    pub(super) leadership: Leadership,
    /// Limits the number of concurrent requests.
    pub(super) permits: Arc<Semaphore>,
    pub(super) queue: Queue<Key>,
    pub(super) clock: Clock,
    pub(super) measures: Measures,
    pub(super) tasks: Tasks,
}

/// Whether a response wakes the Machine immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// No watch event reports it.
    Now,
    /// A watch event reports it, or the end of the batch is early enough.
    Later,
}

impl EvictionTasks {
    /// Sends these requests for a drain, until it ends.
    pub(super) fn run(
        &self,
        key: &Key,
        drain: &Arc<Drain>,
        class: Option<Arc<MachineClass>>,
        eviction_tasks: Vec<EvictionTask>,
    ) {
        let (this, key, stop, process) = (self.clone(), key.clone(), drain.stopping(), self.tasks.stopping());
        // The task must not own the drain: dropping the drain stops the task.
        let drain = Arc::downgrade(drain);
        self.tasks.spawn("requests of a drain", async move {
            let concurrency = this.permits.available_permits().max(1);
            let work = stream::iter(eviction_tasks).for_each_concurrent(concurrency, |task| async {
                let sent = AssertUnwindSafe(this.send(task.clone(), class.as_deref(), &drain)).catch_unwind().await;
                let sent = sent.unwrap_or_else(|_| {
                    this.queue.panicked(&key, "drain request");
                    Some((task.failed("the request panicked", this.clock.now()), Wake::Later))
                });
                let Some((note, wake)) = sent else { return };
                if let Some(drain) = drain.upgrade() {
                    drain.note([note]);
                }
                if wake == Wake::Now {
                    this.queue.add(key.clone());
                }
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = process.cancelled() => {}
                () = work => this.queue.add(key.clone()),
            }
        });
    }

    /// Sends one request. Returns `None` without a request if this process no longer leads.
    async fn send(
        &self,
        task: EvictionTask,
        class: Option<&MachineClass>,
        drain: &Weak<Drain>,
    ) -> Option<(Note, Wake)> {
        let _permit = self.permits.acquire().await.ok()?;
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
                (note, Wake::Later)
            }
            EvictionTask::FindClaim(claim) => {
                let volume = self.volume_of(&claim).await;
                (Note::ClaimFound { claim, volume, at: self.clock.now() }, Wake::Later)
            }
            EvictionTask::FindDisk(volume) => {
                let id = self.disk_of(&volume, class).await;
                (Note::DiskFound { volume, id, at: self.clock.now() }, Wake::Later)
            }
        })
    }

    fn answered(&self, verb: Verb, pod: api::Uid, answer: Answer) -> (Note, Wake) {
        let word = match verb {
            Verb::Evict => "evict",
            Verb::Delete => "delete",
        };
        self.measures.answered(word, &answer);
        let wake = match answer {
            Answer::Accepted | Answer::Gone => Wake::Later,
            Answer::Refused(_) | Answer::Failed(_) => Wake::Now,
        };
        (Note::Answered { pod, verb, answer, at: self.clock.now() }, wake)
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
            Some(class) => self.query_driver(volume, class, spec).await,
            None => Found::Known(None), // the class determines the driver
        }
    }

    async fn query_driver(
        &self,
        volume: &VolumeName,
        class: &MachineClass,
        spec: PersistentVolumeSpec,
    ) -> Found<Option<VolumeId>> {
        match self.driver_calls.volume_ids(class, &[spec]).await {
            Ok(ids) => Found::Known(ids.into_iter().next().filter(|id| !id.is_empty()).map(|id| id.as_str().into())),
            Err(error) if matches!(error.code(), Code::Unimplemented | Code::InvalidArgument) => Found::Known(None),
            Err(error) => {
                tracing::warn!(
                    volume = volume.as_str(),
                    error = error.to_string(),
                    "failed to query the driver for the id of a volume"
                );
                Found::Unreadable
            }
        }
    }
}

fn unreadable<T>(kind: &str, name: &str, why: &ApiError) -> Found<T> {
    tracing::warn!(kind, name, %why, "failed to look up the volume of a pod");
    Found::Unreadable
}
