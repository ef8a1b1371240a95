//! Simulates a CSI attacher: attaches and detaches volumes of this cloud as VolumeAttachments request.
//!
//! In a real cluster the attacher is a sidecar of the CSI driver, and the attach/detach controller creates and deletes
//! VolumeAttachments. The attacher adds its finalizer to each, so that none disappears before the volume is detached.
//! It works on the cloud, so a dead node does not prevent detaching.

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

/// Keeps a VolumeAttachment until its volume is detached; named like the finalizers of external-attacher.
pub const FINALIZER: &str = "external-attacher/csi-virtual-millwright-dev";

/// Something to do for an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttachAction {
    Attach,
    Detach,
}

/// An action in progress.
#[derive(Clone, Debug)]
struct Job {
    action: AttachAction,
    due: Instant,
    failures: u32,
    attachment: VolumeAttachment,
}

/// Returns the requested action of an attachment; `None` if it belongs to another attacher or is complete.
fn asked(attachment: &VolumeAttachment) -> Option<AttachAction> {
    let marked = attachment.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    match attachment.metadata.deletion_timestamp {
        _ if attachment.spec.attacher != CSI_DRIVER => None,
        Some(_) => marked.then_some(AttachAction::Detach),
        None => (!attached).then_some(AttachAction::Attach),
    }
}

/// The attacher and its actions in progress, by attachment name.
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

    /// Attaches and detaches. Never returns.
    pub(super) async fn work(&self, mut dice: fastrand::Rng) {
        let mut hands = dice.fork();
        tokio::join!(self.follow(&mut dice), self.attend(&mut hands));
    }

    /// Follows the attachments of the cluster; failures are retried with backoff.
    async fn follow(&self, dice: &mut fastrand::Rng) {
        let mut attempts = 1_u32;
        loop {
            let begun = Instant::now();
            let ended = self.list_and_watch().await;
            let lasted = begun.elapsed() > self.life.lease_period;
            attempts = if lasted { 1 } else { attempts.saturating_add(1) };
            if let Err(error) = ended {
                tracing::debug!(%error, "watch of volume attachments ended; relisting");
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
        // A repeated event does not postpone the action.
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

    /// Executes due actions.
    async fn attend(&self, dice: &mut fastrand::Rng) {
        loop {
            let next =
                self.jobs.lock().iter().min_by_key(|(_, job)| job.due).map(|(name, job)| (name.clone(), job.clone()));
            match next {
                Some((name, job)) if job.due <= Instant::now() => self.carry_out(&name, job, dice).await,
                Some((_, job)) => {
                    let _ = tokio::time::timeout_at(job.due, self.changed.notified()).await; // check again in both cases
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
                tracing::debug!(attachment = name, ?error, ?wait, "request of the attacher failed; retrying");
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
