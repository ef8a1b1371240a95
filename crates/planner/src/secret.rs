//! What a Secret needs from us: to stay while a class names it.
//!
//! Most Secrets of a namespace are none of our business, and those are never written to. A class names a Secret by name and
//! namespace; the reference compares the name alone and so holds on to namesakes.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::finalizers;
use api::view::SecretView;
use api::{MachineClass, Object, SecretData, SecretRef};
use jiff::Timestamp;

use crate::drain::Outlook;
use crate::in_use_protection::{self, Kept, Plan, Said, Users};
use crate::machine::SecretState;
use crate::wake::later;

/// A read that fails in a way that passes by itself is told only after this long.
const TOLD_AFTER: Duration = Duration::from_secs(30);

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
    in_use_protection::plan(&Kept {
        finalizers: &seen.secret.metadata.finalizers,
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

/// What is known of a Secret that a class names.
#[derive(Clone, Debug)]
pub struct Reference<'a> {
    /// Namespace and name.
    pub secret: String,
    /// What is in it.
    pub content: Content<'a>,
}

/// What is known of what is in a Secret.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// This, in the version that the cache shows.
    Read(&'a SecretData),
    /// It is being read.
    Reading,
    /// It could not be read and is read again.
    Unreadable(&'a ReadFailure),
    /// The cache does not show it, and may be late.
    NotSeen,
    /// There is no such Secret.
    Missing,
}

/// A Secret that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// Why, as a sentence.
    pub why: String,
    /// Whether that passes by itself.
    pub outlook: Outlook,
    /// Since when it cannot be read.
    pub since: Timestamp,
}

/// Whether the Secrets that a class names can be used for a machine. One that is missing counts as empty, as in the reference; but
/// where the user data is not found it is the missing Secret that is told.
#[must_use]
pub fn state(class: Option<&MachineClass>, named: &[Reference<'_>], machine: &str, now: Timestamp) -> SecretState {
    for Reference { secret, content } in named {
        match content {
            Content::Unreadable(failure) if failure.is_told(now) => {
                let why = &failure.why;
                return SecretState::Unusable(format!("failed to read Secret {secret}: {why}; it is tried again"));
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
    /// Whether people are told of it by now.
    fn is_told(&self, now: Timestamp) -> bool {
        self.outlook == Outlook::Lasting || later(self.since, TOLD_AFTER) <= now
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
            Plan { because: in_use_protection::Reason::NotNeeded, ..Plan::default() },
            "foreign Secrets are left alone"
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

    #[test]
    fn a_secret_that_is_being_read_or_not_seen_yet_is_neither_usable_nor_missing() {
        let full = SecretData::from_iter([("userData", "#cloud-config")]);
        for content in [Content::Reading, Content::NotSeen] {
            let named = [reference("ns/a", Content::Read(&full)), reference("ns/b", content)];
            assert_eq!(state(None, &named, "m", at(0)), SecretState::Fetching);
        }
    }

    /// Shows MC-M1.
    #[test]
    fn secret_is_reported_as_not_read_when_it_is_in_another_namespace() {
        let mut class = MachineClass::default();
        class.metadata.namespace = "ns".into();
        let told = |secret| match state(Some(&class), &[reference(secret, Content::Missing)], "m", at(0)) {
            SecretState::Unusable(why) => why,
            other => panic!("{other:?}"),
        };
        let why = told("other/b");
        assert!(why.starts_with("Secret other/b is not read, because only Secrets in namespace ns are;"), "{why}");
        assert!(told("ns/b").starts_with("Secret ns/b does not exist;"));
    }

    #[test]
    fn a_missing_secret_is_told_only_where_something_is_missing_without_it() {
        let (full, keys) = (SecretData::from_iter([("userData", "#")]), SecretData::from_iter([("key", "k")]));
        let missing = || reference("ns/b", Content::Missing);
        assert_eq!(state(None, &[reference("ns/a", Content::Read(&full)), missing()], "m", at(0)), SecretState::Ready);
        let why = unusable(&[reference("ns/a", Content::Read(&keys)), missing()], at(0));
        assert!(why.starts_with("Secret ns/b does not exist; create it"), "{why}");
    }

    #[test]
    fn a_read_that_fails_is_told_at_once_if_somebody_must_act_and_else_after_a_while() {
        let failure = |outlook| ReadFailure { why: "no".into(), outlook, since: at(0) };
        let stays = failure(Outlook::Lasting);
        let why = unusable(&[reference("ns/a", Content::Unreadable(&stays))], at(0));
        assert_eq!(why, "failed to read Secret ns/a: no; it is tried again");
        let passes = failure(Outlook::Passing);
        let named = [reference("ns/a", Content::Unreadable(&passes))];
        assert_eq!(state(None, &named, "m", at(29)), SecretState::Fetching);
        assert!(unusable(&named, at(30)).contains("failed to read"));
    }

    /// Shows MC-W34.
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
