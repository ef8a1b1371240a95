//! Keeps finalizers on MachineClasses and Secrets that are in use. The decisions are made in `planner::class` and
//! `planner::secret`.
//!
//! There is one controller for each kind. Both count the users of an object, add or remove the finalizer, and emit one
//! Event about what uses the object or what is wrong with it. Which Events were emitted is kept in memory only; after a
//! restart they are emitted again.

pub(crate) mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::view::SecretView;
use api::{MachineClass, Object, Uid};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use planner::in_use_protection::{Notice, Plan, Users};
use planner::{Event, EventType};
use runtime::cache::{Lookup, Trust};
use runtime::queue::{Outcome, Queue, RetryPolicy};
use runtime::{Key, Metrics, Random};
use serde_json::{Value, json};

use crate::indexes::{CLASSES_BY_SECRET, MACHINES_BY_CLASS};
use crate::machine_controller::MachineController;
use crate::write::{Guard, Kind, Part, WriteError, Writer};

/// What the two controllers use besides the caches.
pub struct InUseProtection {
    /// MachineClasses to reconcile.
    pub classes: Queue<Key>,
    /// Secrets to reconcile.
    pub secrets: Queue<Key>,
    class_writer: Writer<MachineClass>,
    secret_writer: Writer<SecretView>,
    reported: Mutex<BTreeMap<Uid, BTreeSet<Notice>>>,
}

impl InUseProtection {
    /// Creates the queues, closed.
    pub(crate) fn new(
        class_writer: Writer<MachineClass>,
        secret_writer: Writer<SecretView>,
        metrics: &Metrics,
        random: &Random,
    ) -> Self {
        let queue = |name| Queue::new(name, RetryPolicy::default(), metrics, random).closed();
        let (classes, secrets) = (queue("machineclass"), queue("secret"));
        Self { classes, secrets, class_writer, secret_writer, reported: Mutex::default() }
    }

    fn reported(&self, uid: &Uid) -> BTreeSet<Notice> {
        self.reported.lock().get(uid).cloned().unwrap_or_default()
    }
}

/// Reconciles one MachineClass.
pub(crate) async fn reconcile_class(controller: Arc<MachineController>, key: Key) -> Outcome {
    let class = match controller.classes.look_up(&key) {
        Lookup::Present(class) => class,
        Lookup::Absent => {
            controller.driver_calls.forget_class(&key.name);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            // Its finalizers are not changed.
            let message =
                format!("MachineClass is invalid; no VMs are created from it until it is fixed: {}", object.error);
            let about = ObjectReference {
                api_version: Some(api::names::API_VERSION.to_owned()),
                kind: Some(MachineClass::kind().into_owned()),
                namespace: Some(object.namespace.clone()),
                name: Some(object.name.clone()),
                uid: Some(object.uid.clone()),
                ..ObjectReference::default()
            };
            let reason = api::names::events::millwright::INVALID;
            controller.events.emit(about, Event { event_type: EventType::Warning, reason, message });
            return Outcome::Done;
        }
    };
    let machines = controller.shared.machines.find(&MACHINES_BY_CLASS, class.name());
    let users = Users {
        count: machines.len(),
        example: machines.first().map(|machine| machine.name()),
        undecodable: controller.shared.machines.undecodable().len(),
    };
    let reported = controller.in_use_protection.reported(&class.uid());
    let plan = planner::class::plan(&planner::class::Observed { class: &class, users, reported: &reported });
    execute(&controller, &controller.in_use_protection.class_writer, &class, &plan, |_| {}).await
}

/// Reconciles one Secret.
pub(crate) async fn reconcile_secret(controller: Arc<MachineController>, key: Key) -> Outcome {
    let Some(secret) = controller.secrets.get(&key) else { return Outcome::Done };
    let refers_to_it = |class: &Arc<MachineClass>| {
        planner::secret::named_by(class).any(|(namespace, name)| namespace == &*key.namespace && name == &*key.name)
    };
    let classes: Vec<_> =
        controller.classes.find(&CLASSES_BY_SECRET, &key.name).into_iter().filter(refers_to_it).collect();
    let users = Users {
        count: classes.len(),
        example: classes.first().map(|class| class.name()),
        undecodable: controller.classes.undecodable().len(),
    };
    let reported = controller.in_use_protection.reported(&secret.uid());
    let plan = planner::secret::plan(&planner::secret::Observed { secret: &secret, users, reported: &reported });
    // Only the finalizers changed, so the data that was read is still current.
    let carry_over = |written: &SecretView| {
        controller.credentials.carry_over(&key, secret.resource_version(), written.resource_version());
    };
    execute(&controller, &controller.in_use_protection.secret_writer, &secret, &plan, carry_over).await
}

async fn execute<K: Kind>(
    controller: &MachineController,
    writer: &Writer<K>,
    object: &Arc<K>,
    plan: &Plan,
    on_written: impl FnOnce(&K),
) -> Outcome {
    if controller.shared.caches.trust() == Trust::Doubtful || controller.leadership.check().is_err() {
        return Outcome::Again { after: controller.shared.policy.short_retry };
    }
    let kind = K::kind();
    tracing::debug!(%kind, name = object.name(), because = ?plan.because, finalizers = ?plan.finalizers, "decided");
    if let Some(finalizers) = &plan.finalizers {
        // The patch replaces the whole list, so it is guarded by the resourceVersion.
        let body = json!({ "metadata": { "finalizers": finalizers } });
        if let Err(error) = write(writer, object, body, on_written).await {
            return failed(&kind, object.name(), &error);
        }
    }
    for (notice, event) in &plan.notices {
        controller.events.emit(object.object_ref(), event.clone());
        controller.in_use_protection.reported.lock().entry(object.uid()).or_default().insert(notice.clone());
    }
    Outcome::Done
}

async fn write<K: Kind>(
    writer: &Writer<K>,
    object: &K,
    body: Value,
    on_written: impl FnOnce(&K),
) -> Result<(), WriteError> {
    let mut held = writer.hold(Guard::as_seen(object), &"update its finalizers").await?;
    // A write whose finalizers a webhook reverted is an error, so that it is retried: Machines wait for the finalizer.
    held.patch_with(Part::Object, body, on_written).await?.kept().map(drop)
}

fn failed(kind: &str, name: &str, error: &WriteError) -> Outcome {
    tracing::info!(%kind, %name, why = %error, "failed to update finalizers; retrying");
    if error.is_gone() { Outcome::Done } else { error.outcome() }
}

/// Drops the notices of an object that no longer exists.
fn forget(in_use_protection: &InUseProtection, uid: &Uid) {
    in_use_protection.reported.lock().remove(uid);
}

/// Returns whether a Secret has the finalizer of Millwright.
fn has_finalizer(secret: &SecretView) -> bool {
    secret.has_finalizer(api::names::finalizers::SECRET)
}
