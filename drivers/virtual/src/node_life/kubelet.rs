//! Simulates one kubelet: the life of a node from the boot of its VM to its end.
//!
//! Each reconcile checks the VM and the clock, does what is due, and returns the next due instant. Between reconciles
//! it sleeps until then or until it is notified. Failures are retried with exponential backoff. No state is needed
//! after a restart of the kubelet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backoff::shortened;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::kubelets::Kubelets;
use super::mounts::{Attaching, Mounts};
use super::object::Word;
use super::pods::{Chore, Done, KubeletPod, PodKey};
use super::writes::{WriteError, Writes};
use super::{Monitor, NodeLife};
use crate::cloud::VirtualCloud;
use crate::vm::{State, Vm, VmId};

/// Delay between the registration and the readiness of a node.
const FIRST_READY: Duration = Duration::from_millis(300);

pub(super) struct Kubelet<'a> {
    cloud: &'a VirtualCloud,
    writes: &'a Writes,
    kubelets: &'a Kubelets,
    life: &'a NodeLife,
    notify: Arc<Notify>,
    id: VmId,
    node: String,
    dice: fastrand::Rng,
    registered: Option<Registered>,
    done: Done,
    mounts: Mounts,
    failures: u32,
}

/// A node that this kubelet has registered.
struct Registered {
    uid: String,
    boots: u32,
    lease_due: Instant,
    status_due: Instant,
    last_renewal: Instant,
    lease: Lease,
    heard: Standing,
}

/// Whether this kubelet has a lease since it registered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lease {
    Wanted,
    Held,
}

/// The last writer of the node's conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The kubelet.
    Heard,
    /// The VM is silent.
    Silent,
    /// The monitor set the conditions to Unknown.
    GivenUp,
}

/// The result of a reconcile.
enum Next {
    /// The next reconcile is due at this instant.
    At(Instant),
    /// The next reconcile is due after a notification.
    Notification,
    /// The VM is gone and nothing is left to do.
    Finished,
}

impl<'a> Kubelet<'a> {
    pub(super) fn new(
        cloud: &'a VirtualCloud,
        writes: &'a Writes,
        kubelets: &'a Kubelets,
        vm: &Vm,
        dice: fastrand::Rng,
    ) -> Self {
        let node = vm.node_name.as_str().to_owned();
        Self {
            notify: kubelets.open(&vm.id, &node),
            life: &cloud.shared.config.node_life,
            id: vm.id.clone(),
            registered: None,
            done: Done::default(),
            mounts: Mounts::default(),
            failures: 0,
            cloud,
            writes,
            kubelets,
            node,
            dice,
        }
    }

    /// Runs until the VM is gone. Returns its id, so that its place can be reused.
    pub(super) async fn live(mut self) -> VmId {
        loop {
            let next = match self.reconcile().await {
                Ok(next) => {
                    self.failures = 0;
                    next
                }
                Err(error) => Next::At(self.try_again_after(&error)),
            };
            let notify = self.notify.clone();
            match next {
                Next::At(due) => tokio::select! {
                    biased;
                    () = notify.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                Next::Notification => notify.notified().await,
                Next::Finished => {
                    self.kubelets.close(&self.id, &self.node);
                    return self.id;
                }
            }
        }
    }

    async fn reconcile(&mut self) -> Result<Next, WriteError> {
        let now = Instant::now();
        let Some(vm) = self.cloud.vm(&self.id) else {
            return Ok(self.mind_silence(now).await?.map_or(Next::Finished, Next::At));
        };
        let joins = vm.joins().filter(|_| matches!(vm.state(now), State::Booting | State::Running));
        match joins {
            Some(joins) if joins <= now => self.work(&vm, now).await,
            _ => {
                // Off, hung, deleting or not booted yet: silent until the kubelet starts or the VM is gone.
                let silence = self.mind_silence(now).await?;
                let gone = vm.leaving.map(|leaving| leaving.gone);
                Ok([joins, gone, silence].into_iter().flatten().min().map_or(Next::Notification, Next::At))
            }
        }
    }

    /// The work of a kubelet while its VM is running.
    async fn work(&mut self, vm: &Vm, now: Instant) -> Result<Next, WriteError> {
        let word = Word::of(vm);
        let at = self.cloud.time().1;
        if self.registered.as_ref().is_none_or(|known| known.boots != vm.boots) {
            let joined = self.writes.register(vm, word, at).await?;
            self.mounts.begin(joined.in_use);
            tracing::debug!(node = self.node, vm = %vm.id, "node registered");
            self.registered = Some(Registered {
                uid: joined.uid,
                boots: vm.boots,
                lease_due: now,
                status_due: now
                    + if joined.said == word { self.jittered(self.life.status_period) } else { FIRST_READY },
                last_renewal: now,
                lease: Lease::Wanted,
                heard: Standing::Heard,
            });
        }
        let (lease_period, status_period) =
            (self.jittered(self.life.lease_period), self.jittered(self.life.status_period));
        let Some(known) = self.registered.as_mut() else { return Ok(Next::Notification) };
        // After a silence the node may be marked Unknown: write the status immediately.
        let overdue = known.heard != Standing::Heard || known.last_renewal + self.life.lease_duration <= now;
        if overdue || known.status_due <= now {
            self.writes.say(&self.node, word, at).await?;
            (known.status_due, known.heard) = (now + status_period, Standing::Heard);
            if overdue {
                known.lease_due = now;
            }
        }
        if known.lease_due <= now {
            let duration = self.life.lease_duration;
            match known.lease {
                Lease::Wanted => self.writes.take_out(&self.node, &known.uid, duration, at).await?,
                Lease::Held => self.writes.renew(&self.node, &known.uid, duration, at).await?,
            }
            (known.lease_due, known.last_renewal, known.lease) = (now + lease_period, now, Lease::Held);
        }
        let due = known.lease_due.min(known.status_due);
        let pods_due = self.mind_pods(vm, now).await?;
        Ok(Next::At(pods_due.map_or(due, |pods| pods.min(due))))
    }

    /// Starts and removes the pods that are due. Returns the next due instant.
    async fn mind_pods(&mut self, vm: &Vm, now: Instant) -> Result<Option<Instant>, WriteError> {
        let pods = self.kubelets.pods(&self.node);
        let mut failed = self.mind_mounts(&pods).await.err();
        let mut next = None;
        for (due, chore, key, pod) in self.done.left(&pods) {
            if due > now {
                next = Some(due);
                break;
            }
            if chore == Chore::Start && !self.is_mountable(pod) {
                continue; // the attachment notifies the kubelet
            }
            let at = self.cloud.time().1;
            let outcome = match chore {
                Chore::Start => self.writes.start(key, pod, vm, at).await,
                Chore::Remove => self.writes.remove(key, pod, at).await,
            };
            // A failed write for one pod must not prevent the others from ending.
            match outcome {
                Ok(()) => {
                    self.done.note(&pod.uid, chore);
                    if chore == Chore::Remove {
                        self.mounts.release(&pod.uid);
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Err(error) = self.say_mounts().await {
            failed = Some(error);
        }
        failed.map_or(Ok(next), Err)
    }

    /// Resolves the volumes of the pods and reports them before they are used.
    async fn mind_mounts(&mut self, pods: &BTreeMap<PodKey, KubeletPod>) -> Result<(), WriteError> {
        let mut failed = None;
        for (key, pod) in self.mounts.update(pods) {
            if self.done.is_removed(&pod.uid) {
                continue;
            }
            match self.writes.mounts(&key.0, &pod.claims).await {
                Ok(mounts) => self.mounts.learn(&pod.uid, mounts),
                Err(error) => failed = Some(error),
            }
        }
        self.say_mounts().await?;
        failed.map_or(Ok(()), Err)
    }

    async fn say_mounts(&mut self) -> Result<(), WriteError> {
        if let Some(in_use) = self.mounts.to_say() {
            self.writes.say_in_use(&self.node, &in_use).await?;
            self.mounts.note_said(in_use);
        }
        Ok(())
    }

    /// Returns whether all volumes of a pod are attached.
    fn is_mountable(&self, pod: &KubeletPod) -> bool {
        let attached = |volume: &str| self.kubelets.is_attached(&self.node, volume);
        pod.claims.is_empty()
            || self.mounts.of(&pod.uid).is_some_and(|mounts| {
                mounts.iter().all(|mount| mount.attaching == Attaching::Foreign || attached(&mount.volume))
            })
    }

    /// Acts as the monitor for a silent node. Returns when to check again, if necessary.
    async fn mind_silence(&mut self, now: Instant) -> Result<Option<Instant>, WriteError> {
        let Some(known) = self.registered.as_mut().filter(|known| known.heard != Standing::GivenUp) else {
            return Ok(None);
        };
        known.heard = Standing::Silent;
        let Monitor::Grace(grace) = self.life.monitor else { return Ok(None) };
        if now < known.last_renewal + grace {
            return Ok(Some(known.last_renewal + grace));
        }
        self.writes.say(&self.node, Word::Unknown, self.cloud.time().1).await?;
        known.heard = Standing::GivenUp;
        Ok(None)
    }

    /// Returns the period with a small random extension, so that nodes that started together do not stay in step.
    fn jittered(&mut self, period: Duration) -> Duration {
        period.mul_f64(1.0 + 0.04 * self.dice.f64())
    }

    fn try_again_after(&mut self, error: &WriteError) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let wait = shortened(self.life.pauses().after(self.failures), 0.5, 1.0 - self.dice.f64());
        tracing::debug!(node = self.node, ?error, ?wait, "request of a kubelet failed; retrying");
        Instant::now() + wait
    }
}
