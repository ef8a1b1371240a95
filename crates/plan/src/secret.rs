//! What a Secret needs from us: to stay while a class names it.
//!
//! Most Secrets of a namespace are none of our business, and those are never written to. A class names a Secret by name and
//! namespace; the reference compares the name alone and so holds on to namesakes.

use std::collections::BTreeSet;

use api::names::finalizers;
use api::view::SecretView;
use api::{MachineClass, Object, SecretRef};

use crate::custody::{self, Kept, Plan, Said, Users};

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Secret, without what is in it.
    pub secret: &'a SecretView,
    /// The classes that name it.
    pub users: Users<'a>,
    /// What people have been told about it already.
    pub said: &'a BTreeSet<Said>,
}

/// Decides what to do about a Secret.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    custody::plan(&Kept {
        finalizers: seen.secret.metadata.finalizers.as_deref(),
        ours: finalizers::SECRET,
        deleting: seen.secret.is_deleting(),
        users: seen.users,
        kind_of_users: "machine classes",
        said: seen.said,
    })
}

/// The Secrets a class names, as namespace and name. A reference without a namespace means the class's own.
pub fn named_by(class: &MachineClass) -> impl Iterator<Item = (&str, &str)> {
    let named = [&class.secret_ref, &class.credentials_secret_ref].into_iter().flatten();
    named.filter(|secret| !secret.name.is_empty()).map(|secret| (namespace_of(secret, class), secret.name.as_str()))
}

fn namespace_of<'a>(secret: &'a SecretRef, class: &'a MachineClass) -> &'a str {
    if secret.namespace.is_empty() { class.namespace() } else { &secret.namespace }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_held_by_its_own_finalizer_while_a_class_names_it() {
        let secret: SecretView =
            serde_json::from_value(json!({ "metadata": { "name": "s", "namespace": "ns" } })).unwrap();
        let said = BTreeSet::new();
        let needed = Users { count: 1, example: Some("c"), unreadable: 0 };
        let plan = plan(&Observed { secret: &secret, users: needed, said: &said });
        assert_eq!(plan.finalizers.unwrap(), ["machine.sapcloud.io/machine-controller"]);
        let nobody = Users { count: 0, example: None, unreadable: 0 };
        let plan = super::plan(&Observed { secret: &secret, users: nobody, said: &said });
        assert_eq!(
            plan,
            Plan { because: custody::Reason::NotNeeded, ..Plan::default() },
            "foreign Secrets are left alone"
        );
    }

    #[test]
    fn a_class_names_a_secret_by_name_and_namespace() {
        let class: MachineClass = serde_json::from_value(json!({
            "metadata": { "name": "c", "namespace": "ns" },
            "providerSpec": {},
            "secretRef": { "name": "user-data", "namespace": "elsewhere" },
            "credentialsSecretRef": { "name": "keys" },
        }))
        .unwrap();
        assert_eq!(named_by(&class).collect::<Vec<_>>(), [("elsewhere", "user-data"), ("ns", "keys")]);
    }
}
