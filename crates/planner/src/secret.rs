//! Keeps a Secret while a MachineClass uses it.
//!
//! Secrets that no MachineClass names are never written. A MachineClass names a Secret by name and namespace. MCM
//! compares only the name, and so also protects Secrets of the same name in other namespaces.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::finalizers;
use api::view::SecretView;
use api::{MachineClass, Object, SecretData, SecretRef};
use jiff::Timestamp;

use crate::drain::Persistence;
use crate::in_use_protection::{self, Notice, Plan, Protected, Users};
use crate::machine::SecretState;
use meta::time::later;

/// A transient read failure is reported only after this time.
const REPORTED_AFTER: Duration = Duration::from_secs(30);

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Secret, without its data.
    pub secret: &'a SecretView,
    /// The MachineClasses that name it.
    pub users: Users<'a>,
    /// What was reported about it already.
    pub reported: &'a BTreeSet<Notice>,
}

/// Decides what to do about a Secret.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    in_use_protection::plan(&Protected {
        finalizers: &seen.secret.metadata.finalizers,
        finalizer: finalizers::SECRET,
        deleting: seen.secret.is_deleting(),
        users: seen.users,
        kind_of_users: "MachineClasses",
        reported: seen.reported,
    })
}

/// Returns namespace and name of the Secrets that a MachineClass names. A reference without a namespace means the
/// MachineClass's own.
pub fn named_by(class: &MachineClass) -> impl Iterator<Item = (&str, &str)> {
    let named = [&class.secret_ref, &class.credentials_secret_ref].into_iter().flatten();
    named.filter(|secret| !secret.name.is_empty()).map(|secret| (namespace_of(secret, class), secret.name.as_str()))
}

/// What is known about a Secret that a MachineClass names.
#[derive(Clone, Debug)]
pub struct Reference<'a> {
    /// Namespace and name.
    pub secret: String,
    /// Its data.
    pub content: Content<'a>,
}

/// What is known about the data of a Secret.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The data of the version that the cache contains.
    Read(&'a SecretData),
    /// The Secret is being read.
    Reading,
    /// The read failed and is retried.
    Unreadable(&'a ReadFailure),
    /// The cache does not contain the Secret, but may be behind.
    NotSeen,
    /// The Secret does not exist.
    Missing,
}

/// A failed read of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// The cause.
    pub why: String,
    /// Whether the failure is transient.
    pub outlook: Persistence,
    /// Since when the reads fail.
    pub since: Timestamp,
}

/// Returns whether the Secrets that a MachineClass names can be used for a Machine. As in MCM, a missing Secret counts
/// as empty. If the user data is missing, the error names the missing Secret.
#[must_use]
pub fn state(class: Option<&MachineClass>, named: &[Reference<'_>], machine: &str, now: Timestamp) -> SecretState {
    for Reference { secret, content } in named {
        match content {
            Content::Unreadable(failure) if failure.is_reported(now) => {
                let why = &failure.why;
                return SecretState::Unusable(format!("failed to read Secret {secret}: {why}; retrying"));
            }
            Content::Unreadable(_) | Content::Reading | Content::NotSeen => return SecretState::Fetching,
            Content::Read(_) | Content::Missing => {}
        }
    }
    let has_user_data = |reference: &Reference<'_>| match reference.content {
        Content::Read(data) => api::validation::user_data(data, machine).is_ok(),
        _ => false,
    };
    if named.iter().any(has_user_data) {
        return SecretState::Ready;
    }
    if let Some(missing) = named.iter().find(|reference| matches!(reference.content, Content::Missing)) {
        let secret = &missing.secret;
        let elsewhere = class.map(Object::namespace).filter(|own| !secret.starts_with(&format!("{own}/")));
        return SecretState::Unusable(match elsewhere {
            Some(own) => format!(
                "Secret {secret} is not read, because only Secrets in namespace {own} are; create it there with the key userData, and \
                 name it there in its MachineClass"
            ),
            None => format!(
                "Secret {secret} does not exist; create it with the key userData, or name another one in its MachineClass"
            ),
        });
    }
    let fix = match class.and_then(|class| class.secret_ref.as_ref()) {
        Some(secret) => format!("add the key userData to Secret {:?}", secret.name),
        None => "name a Secret with the key userData in secretRef of its MachineClass".to_owned(),
    };
    match api::validation::user_data(&SecretData::default(), machine) {
        Ok(_) => SecretState::Ready,
        Err(missing) => SecretState::Unusable(format!("{missing}; {fix}")),
    }
}

impl ReadFailure {
    /// Returns whether the failure is reported at this time.
    fn is_reported(&self, now: Timestamp) -> bool {
        self.outlook == Persistence::Permanent || later(self.since, REPORTED_AFTER) <= now
    }
}

fn namespace_of<'a>(secret: &'a SecretRef, class: &'a MachineClass) -> &'a str {
    if secret.namespace.is_empty() { class.namespace() } else { &secret.namespace }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_has_its_finalizer_while_a_class_names_it() {
        let secret: SecretView =
            serde_json::from_value(json!({ "metadata": { "name": "s", "namespace": "ns" } })).unwrap();
        let reported = BTreeSet::new();
        let needed = Users { count: 1, example: Some("c"), undecodable: 0 };
        let plan = plan(&Observed { secret: &secret, users: needed, reported: &reported });
        assert_eq!(plan.finalizers.unwrap(), ["machine.sapcloud.io/machine-controller"]);
        let unused = Users { count: 0, example: None, undecodable: 0 };
        let plan = super::plan(&Observed { secret: &secret, users: unused, reported: &reported });
        assert_eq!(
            plan,
            Plan { because: in_use_protection::Reason::Unused, ..Plan::default() },
            "Secrets that are not used are not written"
        );
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn reference<'a>(secret: &str, content: Content<'a>) -> Reference<'a> {
        Reference { secret: secret.to_owned(), content }
    }

    fn unusable(named: &[Reference<'_>], now: Timestamp) -> String {
        match state(None, named, "m", now) {
            SecretState::Unusable(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Shows LIM-18.
    #[test]
    fn secret_state_is_fetching_while_a_read_is_in_progress() {
        let full = SecretData::from_iter([("userData", "#cloud-config")]);
        for content in [Content::Reading, Content::NotSeen] {
            let named = [reference("ns/a", Content::Read(&full)), reference("ns/b", content)];
            assert_eq!(state(None, &named, "m", at(0)), SecretState::Fetching);
        }
    }

    /// Shows MC-M1.
    #[test]
    fn secret_in_another_namespace_is_reported_as_not_read() {
        let mut class = MachineClass::default();
        class.metadata.namespace = "ns".into();
        let reason = |secret| match state(Some(&class), &[reference(secret, Content::Missing)], "m", at(0)) {
            SecretState::Unusable(why) => why,
            other => panic!("{other:?}"),
        };
        let why = reason("other/b");
        assert!(why.starts_with("Secret other/b is not read, because only Secrets in namespace ns are;"), "{why}");
        assert!(reason("ns/b").starts_with("Secret ns/b does not exist;"));
    }

    /// Shows LIM-18.
    #[test]
    fn missing_secret_is_reported_only_if_user_data_is_missing() {
        let (full, keys) = (SecretData::from_iter([("userData", "#")]), SecretData::from_iter([("key", "k")]));
        let missing = || reference("ns/b", Content::Missing);
        assert_eq!(state(None, &[reference("ns/a", Content::Read(&full)), missing()], "m", at(0)), SecretState::Ready);
        let why = unusable(&[reference("ns/a", Content::Read(&keys)), missing()], at(0));
        assert!(why.starts_with("Secret ns/b does not exist; create it"), "{why}");
    }

    /// Shows LIM-17.
    #[test]
    fn transient_read_failure_is_reported_after_a_delay() {
        let failure = |outlook| ReadFailure { why: "no".into(), outlook, since: at(0) };
        let stays = failure(Persistence::Permanent);
        let why = unusable(&[reference("ns/a", Content::Unreadable(&stays))], at(0));
        assert_eq!(why, "failed to read Secret ns/a: no; retrying");
        let passes = failure(Persistence::Transient);
        let named = [reference("ns/a", Content::Unreadable(&passes))];
        assert_eq!(state(None, &named, "m", at(29)), SecretState::Fetching);
        assert!(unusable(&named, at(30)).contains("failed to read"));
    }

    /// Shows MC-W34.
    #[test]
    fn class_names_a_secret_by_name_and_namespace() {
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
