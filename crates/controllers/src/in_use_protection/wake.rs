//! Whose changes let classes and Secrets be looked at.
//!
//! | change | looked at |
//! | --- | --- |
//! | a MachineClass | itself, and the Secrets it names or named |
//! | a Machine that comes, goes or changes its class | the class, unless it is held already and stays |
//! | a Secret | itself, if a class names it or it carries our finalizer |
//! | a Machine or class that could not be read and now can, or is gone | all that may have been kept for its sake |

use std::collections::BTreeSet;
use std::sync::Arc;

use api::view::SecretView;
use api::{Machine, MachineClass, Object};
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};

use super::{InUseProtection, forget, is_ours};
use crate::indexes::CLASSES_BY_SECRET;
use crate::machine_controller::MachineController;

/// A Machine that comes, goes or changes its class lets that class be looked at.
pub(crate) fn on_machines(
    reflector: &mut Reflector<Machine>,
    in_use_protection: &Arc<InUseProtection>,
    classes: &Cache<MachineClass>,
) {
    let (in_use_protection, classes) = (in_use_protection.clone(), classes.clone());
    reflector.on_delta(move |key, delta| {
        if clears_up(delta) {
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
            // A thousand machines of one class that arrive together have nothing to say once it is held.
            let settled = now.as_deref() == Some(&name)
                && classes.get(&class).is_some_and(|class| planner::class::is_held(&class) && !class.is_deleting());
            if !settled {
                in_use_protection.classes.add(class);
            }
        }
    });
}

/// A class lets itself and its Secrets be looked at.
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
        if clears_up(delta) {
            secrets
                .list()
                .iter()
                .filter(|s| is_ours(s))
                .for_each(|s| in_use_protection.secrets.add(Key::new(s.namespace(), s.name())));
        }
        let named = |class: Option<&Arc<MachineClass>>| -> BTreeSet<Key> {
            class
                .iter()
                .flat_map(|class| planner::secret::named_by(class))
                .map(|(ns, name)| Key::new(ns, name))
                .collect()
        };
        for secret in named(delta.before()).symmetric_difference(&named(delta.now())) {
            in_use_protection.secrets.add(secret.clone());
        }
    });
}

/// A Secret lets itself be looked at, if it is any business of ours.
pub(crate) fn on_secrets(
    reflector: &mut Reflector<SecretView>,
    in_use_protection: &Arc<InUseProtection>,
    classes: &Cache<MachineClass>,
) {
    let (in_use_protection, classes) = (in_use_protection.clone(), classes.clone());
    reflector.on_delta(move |key, delta| match delta.now() {
        Some(secret) if concerns_us(secret, &classes) => in_use_protection.secrets.add(key.clone()),
        Some(_) => {}
        None => {
            if let Some(last) = delta.before() {
                forget(&in_use_protection, &last.uid());
            }
        }
    });
}

/// Adds every cached Secret that a class names or that carries our finalizer.
pub(crate) fn add_all_secrets(controller: &MachineController) {
    let secrets = controller.secrets.list();
    for secret in secrets.iter().filter(|secret| concerns_us(secret, &controller.classes)) {
        controller.in_use_protection.secrets.add(Key::new(secret.namespace(), secret.name()));
    }
}

/// Whether a class names the Secret or it carries our finalizer.
fn concerns_us(secret: &SecretView, classes: &Cache<MachineClass>) -> bool {
    is_ours(secret) || !classes.find(&CLASSES_BY_SECRET, secret.name()).is_empty()
}

/// Whether something that could not be read has become clear.
fn clears_up<K>(delta: &Delta<K>) -> bool {
    matches!(delta, Delta::Mended { .. } | Delta::RemovedUndecodable { .. })
}
