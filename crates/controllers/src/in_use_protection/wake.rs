//! The changes that wake MachineClasses and Secrets.
//!
//! | change | woken objects |
//! | --- | --- |
//! | a MachineClass | the class, and the Secrets that it refers to or referred to |
//! | a Machine that is created, is deleted or changes its class | the class, unless it has the finalizer and is not being deleted |
//! | a Secret | the Secret, if a class refers to it or it has the finalizer |
//! | a Machine or MachineClass that could not be decoded, and now can be or no longer exists | all objects that it may have used |

use std::collections::BTreeSet;
use std::sync::Arc;

use api::view::SecretView;
use api::{Machine, MachineClass, Object};
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};

use super::{InUseProtection, forget, has_finalizer};
use crate::indexes::CLASSES_BY_SECRET;
use crate::machine_controller::MachineController;

/// A Machine that is created, is deleted or changes its class wakes the class.
pub(crate) fn on_machines(
    reflector: &mut Reflector<Machine>,
    in_use_protection: &Arc<InUseProtection>,
    classes: &Cache<MachineClass>,
) {
    let (in_use_protection, classes) = (in_use_protection.clone(), classes.clone());
    reflector.on_delta(move |key, delta| {
        if became_readable(delta) {
            classes
                .list()
                .iter()
                .for_each(|class| in_use_protection.classes.add(Key::new(class.namespace(), class.name())));
            return;
        }
        let class_of = |machine: Option<&Arc<Machine>>| machine.map(|machine| machine.spec.class.name.clone());
        let (before, now) = (class_of(delta.before()), class_of(delta.now()));
        if before == now {
            return;
        }
        for name in [before, now.clone()].into_iter().flatten() {
            let class = Key::new(&*key.namespace, name.as_str());
            // Further Machines of a class that has the finalizer change nothing.
            let unaffected = now.as_deref() == Some(&name)
                && classes
                    .get(&class)
                    .is_some_and(|class| planner::class::has_finalizer(&class) && !class.is_deleting());
            if !unaffected {
                in_use_protection.classes.add(class);
            }
        }
    });
}

/// A MachineClass wakes itself and its Secrets.
pub(crate) fn on_classes(
    reflector: &mut Reflector<MachineClass>,
    in_use_protection: &Arc<InUseProtection>,
    secrets: &Cache<SecretView>,
) {
    let (in_use_protection, secrets) = (in_use_protection.clone(), secrets.clone());
    reflector.on_delta(move |key, delta| {
        in_use_protection.classes.add(key.clone());
        if let (Some(last), None) = (delta.before(), delta.now()) {
            forget(&in_use_protection, &last.uid());
        }
        if became_readable(delta) {
            secrets
                .list()
                .iter()
                .filter(|s| has_finalizer(s))
                .for_each(|s| in_use_protection.secrets.add(Key::new(s.namespace(), s.name())));
        }
        let referenced = |class: Option<&Arc<MachineClass>>| -> BTreeSet<Key> {
            class
                .iter()
                .flat_map(|class| planner::secret::named_by(class))
                .map(|(ns, name)| Key::new(ns, name))
                .collect()
        };
        for secret in referenced(delta.before()).symmetric_difference(&referenced(delta.now())) {
            in_use_protection.secrets.add(secret.clone());
        }
    });
}

/// A Secret wakes itself, if it is relevant.
pub(crate) fn on_secrets(
    reflector: &mut Reflector<SecretView>,
    in_use_protection: &Arc<InUseProtection>,
    classes: &Cache<MachineClass>,
) {
    let (in_use_protection, classes) = (in_use_protection.clone(), classes.clone());
    reflector.on_delta(move |key, delta| match delta.now() {
        Some(secret) if is_relevant(secret, &classes) => in_use_protection.secrets.add(key.clone()),
        Some(_) => {}
        None => {
            if let Some(last) = delta.before() {
                forget(&in_use_protection, &last.uid());
            }
        }
    });
}

/// Adds every cached Secret that is relevant.
pub(crate) fn add_all_secrets(controller: &MachineController) {
    let secrets = controller.secrets.list();
    for secret in secrets.iter().filter(|secret| is_relevant(secret, &controller.classes)) {
        controller.in_use_protection.secrets.add(Key::new(secret.namespace(), secret.name()));
    }
}

/// Returns whether a class refers to the Secret or it has the finalizer.
fn is_relevant(secret: &SecretView, classes: &Cache<MachineClass>) -> bool {
    has_finalizer(secret) || !classes.find(&CLASSES_BY_SECRET, secret.name()).is_empty()
}

/// Returns whether an object that could not be decoded now can be, or no longer exists.
fn became_readable<K>(delta: &Delta<K>) -> bool {
    matches!(delta, Delta::Fixed { .. } | Delta::RemovedUndecodable { .. })
}
