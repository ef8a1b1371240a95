//! Classes and Secrets are held on to while they are needed: the shell of `planner::class` and `planner::secret`.
//!
//! Both controllers do the same to different kinds: count who needs an object, keep our finalizer on it accordingly, and tell people
//! once what keeps it or what is wrong with it. What has been told is remembered in memory only; after a restart it is told again.

pub(crate) mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::view::SecretView;
use api::{MachineClass, Object, Uid};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use planner::in_use_protection::{Plan, Said, Users};
use planner::{Event, EventType};
use runtime::cache::{Lookup, Trust};
use runtime::queue::{Outcome, Queue, RetryPolicy};
use runtime::{Key, Metrics, Random};
use serde_json::{Value, json};

use crate::indexes::{CLASSES_BY_SECRET, MACHINES_BY_CLASS};
use crate::machine_controller::MachineController;
use crate::write::{Guard, Kind, Part, Retry, WriteError, Writer};

/// What the two controllers need beyond the caches.
pub struct InUseProtection {
    /// Classes to look at.
    pub classes: Queue<Key>,
    /// Secrets to look at.
    pub secrets: Queue<Key>,
    class_writer: Writer<MachineClass>,
    secret_writer: Writer<SecretView>,
    said: Mutex<BTreeMap<Uid, BTreeSet<Said>>>,
}

impl InUseProtection {
    /// Remembers nothing yet.
    pub(crate) fn new(
        class_writer: Writer<MachineClass>,
        secret_writer: Writer<SecretView>,
        metrics: &Metrics,
        random: &Random,
    ) -> Self {
        let queue = |name| Queue::new(name, RetryPolicy::default(), metrics, random).closed();
        let (classes, secrets) = (queue("machineclass"), queue("secret"));
        Self { classes, secrets, class_writer, secret_writer, said: Mutex::default() }
    }

    fn said(&self, uid: &Uid) -> BTreeSet<Said> {
        self.said.lock().get(uid).cloned().unwrap_or_default()
    }
}

/// Looks at one class.
pub(crate) async fn reconcile_class(controller: Arc<MachineController>, key: Key) -> Outcome {
    let class = match controller.classes.look_up(&key) {
        Lookup::Present(class) => class,
        Lookup::Absent => {
            controller.limiter.forget_class(&key.name);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            // Whatever else is wrong with it, its finalizers are left as they are.
            let message =
                format!("it cannot be read, so no machine is made from it until that is mended: {}", object.error);
            let about = ObjectReference {
                api_version: Some(api::names::API_VERSION.to_owned()),
                kind: Some(MachineClass::kind().into_owned()),
                namespace: Some(object.namespace.clone()),
                name: Some(object.name.clone()),
                uid: Some(object.uid.clone()),
                ..ObjectReference::default()
            };
            let reason = api::names::events::ours::INVALID;
            crate::events::emit(&controller.events, about, &Event { event_type: EventType::Warning, reason, message });
            return Outcome::Done;
        }
    };
    let machines = controller.shared.machines.find(&MACHINES_BY_CLASS, class.name());
    let users = Users {
        count: machines.len(),
        example: machines.first().map(|machine| machine.name()),
        unreadable: controller.shared.machines.undecodable().len(),
    };
    let said = controller.in_use_protection.said(&class.uid());
    let plan = planner::class::plan(&planner::class::Observed { class: &class, users, said: &said });
    carry_out(&controller, &controller.in_use_protection.class_writer, &class, &plan, |_| {}).await
}

/// Looks at one Secret.
pub(crate) async fn reconcile_secret(controller: Arc<MachineController>, key: Key) -> Outcome {
    let Some(secret) = controller.secrets.get(&key) else { return Outcome::Done };
    let names_it = |class: &Arc<MachineClass>| {
        planner::secret::named_by(class).any(|(namespace, name)| namespace == &*key.namespace && name == &*key.name)
    };
    let classes: Vec<_> = controller.classes.find(&CLASSES_BY_SECRET, &key.name).into_iter().filter(names_it).collect();
    let users = Users {
        count: classes.len(),
        example: classes.first().map(|class| class.name()),
        unreadable: controller.classes.undecodable().len(),
    };
    let said = controller.in_use_protection.said(&secret.uid());
    let plan = planner::secret::plan(&planner::secret::Observed { secret: &secret, users, said: &said });
    // Only a finalizer changed, so what was read of it is still what is in it.
    let carry_over = |written: &SecretView| {
        controller.credentials.carry_over(&key, secret.resource_version(), written.resource_version());
    };
    carry_out(&controller, &controller.in_use_protection.secret_writer, &secret, &plan, carry_over).await
}

async fn carry_out<K: Kind>(
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
        // The list is rewritten whole, so it must be the one we saw.
        let body = json!({ "metadata": { "finalizers": finalizers } });
        if let Err(error) = write(writer, object, body, on_written).await {
            return failed(&kind, object.name(), &error);
        }
    }
    for (said, event) in &plan.tell {
        crate::events::emit(&controller.events, object.object_ref(), event);
        controller.in_use_protection.said.lock().entry(object.uid()).or_default().insert(said.clone());
    }
    Outcome::Done
}

async fn write<K: Kind>(
    writer: &Writer<K>,
    object: &K,
    body: Value,
    on_written: impl FnOnce(&K),
) -> Result<(), WriteError> {
    let mut held = writer.hold(Guard::as_seen(object), &"write its finalizers").await?;
    // A finalizer that a webhook has put back is wanted all the same: machines wait for it.
    held.patch_telling(Part::Object, body, on_written).await?.kept().map(drop)
}

fn failed(kind: &str, name: &str, error: &WriteError) -> Outcome {
    tracing::info!(%kind, %name, why = %error, "planning afresh");
    match error.retry() {
        Retry::Gone => Outcome::Done,
        _ => error.outcome(),
    }
}

/// Forgets what was told of an object that is gone.
fn forget(in_use_protection: &InUseProtection, uid: &Uid) {
    in_use_protection.said.lock().remove(uid);
}

/// Whether a Secret is any business of ours.
fn is_ours(secret: &SecretView) -> bool {
    secret.has_finalizer(api::names::finalizers::SECRET)
}
