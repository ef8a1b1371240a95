//! What a CSI attacher does: volumes of this cloud are attached to nodes and detached from them, when a VolumeAttachment asks.
//!
//! In a cluster this is a side-car of the cloud's CSI driver. Who makes and deletes VolumeAttachments is somebody else: the
//! attach/detach controller. The attacher marks each with its finalizer, so that none disappears before the volume is off the node;
//! it works towards the cloud, so a node that is dead does not keep it from detaching.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backoff::shortened;
use futures::StreamExt;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::WatchEvent;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::NodeLife;
use super::kubelets::Kubelets;
use super::pods::WATCH_PATIENCE;
use super::writes::{WriteError, Writes};
use crate::provider::CSI_DRIVER;

/// Keeps a VolumeAttachment until its volume is off the node; named as external-attacher names its own.
pub const FINALIZER: &str = "external-attacher/csi-virtual-millwright-dev";

/// Something to do for an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttachAction {
    Attach,
    Detach,
}

/// A action that is under way.
#[derive(Clone, Debug)]
struct Job {
    action: AttachAction,
    due: Instant,
    failures: u32,
    attachment: VolumeAttachment,
}

/// What an attachment asks for; nothing if it is not ours or has what it wants.
fn asked(attachment: &VolumeAttachment) -> Option<AttachAction> {
    let marked = attachment.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    match attachment.metadata.deletion_timestamp {
        _ if attachment.spec.attacher != CSI_DRIVER => None,
        Some(_) => marked.then_some(AttachAction::Detach),
        None => (!attached).then_some(AttachAction::Attach),
    }
}

/// The attacher and what it has under way, by the attachments' names.
pub(super) struct Attacher<'a> {
    writes: &'a Writes,
    kubelets: &'a Kubelets,
    life: &'a NodeLife,
    jobs: Mutex<BTreeMap<String, Job>>,
    changed: Notify,
}

impl<'a> Attacher<'a> {
    pub(super) fn new(writes: &'a Writes, kubelets: &'a Kubelets, life: &'a NodeLife) -> Self {
        Self { writes, kubelets, life, jobs: Mutex::default(), changed: Notify::new() }
    }

    /// Attaches and detaches. Ends only with the process.
    pub(super) async fn work(&self, mut dice: fastrand::Rng) {
        let mut hands = dice.fork();
        tokio::join!(self.follow(&mut dice), self.attend(&mut hands));
    }

    /// Keeps the jobs up to date with the attachments of the cluster; what fails is tried again, later and later.
    async fn follow(&self, dice: &mut fastrand::Rng) {
        let mut attempts = 1_u32;
        loop {
            let begun = Instant::now();
            let ended = self.list_and_watch().await;
            let lasted = begun.elapsed() > self.life.lease_period;
            attempts = if lasted { 1 } else { attempts.saturating_add(1) };
            if let Err(error) = ended {
                tracing::debug!(%error, "the watch of volume attachments ended; listing them again");
            }
            tokio::time::sleep(shortened(self.life.pauses().after(attempts), 0.5, 1.0 - dice.f64())).await;
        }
    }

    async fn list_and_watch(&self) -> Result<(), WriteError> {
        let (attachments, version) = self.writes.list::<VolumeAttachment>().await?;
        let there: BTreeSet<String> = attachments.iter().filter_map(|one| one.metadata.name.clone()).collect();
        self.jobs.lock().retain(|name, _| there.contains(name));
        self.kubelets.retain_attachments(&there);
        for attachment in attachments {
            self.see(attachment);
        }
        let mut events = self.writes.watch::<VolumeAttachment>(&version).await?;
        while let Some(event) =
            tokio::time::timeout(WATCH_PATIENCE, events.next()).await.map_err(|_| WriteError::Late)?
        {
            match event.map_err(WriteError::from)? {
                WatchEvent::Added(one) | WatchEvent::Modified(one) => self.see(one),
                WatchEvent::Deleted(one) => self.forget(&one),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(WriteError::from(kube::Error::Api(status))),
            }
        }
        Ok(())
    }

    fn see(&self, attachment: VolumeAttachment) {
        let Some(name) = attachment.metadata.name.clone() else { return };
        let (node, volume) = (&attachment.spec.node_name, &attachment.spec.source.persistent_volume_name);
        let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
        if let Some(volume) = volume.as_ref().filter(|_| attached) {
            self.kubelets.attached(&name, node, volume);
        }
        let mut jobs = self.jobs.lock();
        let Some(action) = asked(&attachment) else {
            jobs.remove(&name);
            return;
        };
        let before = jobs
            .get(&name)
            .filter(|job| job.action == action && job.attachment.metadata.uid == attachment.metadata.uid);
        let latency = match action {
            AttachAction::Attach => self.life.attach,
            AttachAction::Detach => self.life.detach,
        };
        // Seeing it again does not put it off.
        let (due, failures) = before.map_or((Instant::now() + latency, 0), |job| (job.due, job.failures));
        jobs.insert(name, Job { action, due, failures, attachment });
        self.changed.notify_one();
    }

    fn forget(&self, attachment: &VolumeAttachment) {
        if let Some(name) = &attachment.metadata.name {
            self.jobs.lock().remove(name);
            self.kubelets.detached(name);
        }
    }

    /// Does what is due, whenever it is.
    async fn attend(&self, dice: &mut fastrand::Rng) {
        loop {
            let next =
                self.jobs.lock().iter().min_by_key(|(_, job)| job.due).map(|(name, job)| (name.clone(), job.clone()));
            match next {
                Some((name, job)) if job.due <= Instant::now() => self.carry_out(&name, job, dice).await,
                Some((_, job)) => {
                    let _ = tokio::time::timeout_at(job.due, self.changed.notified()).await; // either way it is time to look again
                }
                None => self.changed.notified().await,
            }
        }
    }

    async fn carry_out(&self, name: &str, job: Job, dice: &mut fastrand::Rng) {
        let done = match job.action {
            AttachAction::Attach => self.writes.attach(&job.attachment).await,
            AttachAction::Detach => self.writes.detach(&job.attachment).await,
        };
        let mut jobs = self.jobs.lock();
        match done {
            Ok(()) => drop(jobs.remove(name)),
            Err(error) => {
                let wait = self.life.pauses().after(job.failures.saturating_add(1));
                tracing::debug!(attachment = name, ?error, ?wait, "an attacher's request failed; trying again");
                if let Some(job) = jobs.get_mut(name) {
                    job.failures = job.failures.saturating_add(1);
                    job.due = Instant::now() + shortened(wait, 0.5, 1.0 - dice.f64()).max(Duration::from_millis(1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(CSI_DRIVER, json!({}), false, Some(AttachAction::Attach))]
    #[case(CSI_DRIVER, json!({ "finalizers": [FINALIZER] }), false, Some(AttachAction::Attach))]
    #[case(CSI_DRIVER, json!({ "finalizers": [FINALIZER] }), true, None)]
    #[case(CSI_DRIVER, json!({ "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" }), true, Some(AttachAction::Detach))]
    #[case(CSI_DRIVER, json!({ "finalizers": ["other"], "deletionTimestamp": "2026-01-01T00:00:00Z" }), true, None)]
    #[case("ebs.csi.aws.com", json!({}), false, None)]
    fn an_attachment_asks(
        #[case] attacher: &str,
        #[case] meta: Value,
        #[case] attached: bool,
        #[case] expected: Option<AttachAction>,
    ) {
        let attachment = serde_json::from_value(json!({
            "metadata": meta, "status": { "attached": attached },
            "spec": { "attacher": attacher, "nodeName": "n", "source": { "persistentVolumeName": "v" } } }))
        .unwrap();
        assert_eq!(asked(&attachment), expected);
    }
}
