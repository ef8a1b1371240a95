//! Permissions to patch that are missing, as far as known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::RestMetrics;

/// Time after which a denial is checked again.
const BELIEVED_FOR: Duration = Duration::from_mins(10);

/// What a permission applies to: a kind or subresource, in one namespace or in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    namespace: Option<String>,
    /// `machines`, `machines/status`.
    resource: String,
}

/// The alternative to a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The object is read and updated.
    Replace,
    /// None: get and update are forbidden too.
    None,
}

/// The denials of one identity. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Denials {
    known: Arc<Mutex<BTreeMap<Subject, Denial>>>,
}

#[derive(Clone, Copy)]
struct Denial {
    way: Way,
    since: Instant,
}

impl Subject {
    /// Returns what the URL of an object refers to.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let rest = match segments.first() {
            Some(&"api") => segments.get(2..)?,
            Some(&"apis") => segments.get(3..)?,
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if rest.len() > 1 => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let resource = match rest {
            [kind, _name] => (*kind).to_owned(),
            [kind, _name, part] => format!("{kind}/{part}"),
            _ => return None,
        };
        Some(Self { namespace, resource })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in namespace {namespace}", self.resource),
            None => f.write_str(&self.resource),
        }
    }
}

impl Denials {
    /// Returns the alternative to a patch; `None` if patches are allowed as far as known.
    pub(super) fn way(&self, subject: &Subject) -> Option<Way> {
        let known = self.known.lock().get(subject).copied();
        known.filter(|denial| denial.since.elapsed() < BELIEVED_FOR).map(|denial| denial.way)
    }

    /// A patch is forbidden, and this alternative is used. Logged only when it changes.
    pub(super) fn deny(&self, subject: &Subject, way: Way, metrics: &RestMetrics) {
        let before = self.known.lock().insert(subject.clone(), Denial { way, since: Instant::now() });
        metrics.permission_missing("patch", &subject.resource);
        if before.is_some_and(|before| before.way == way) {
            return;
        }
        match way {
            Way::Replace => tracing::warn!(
                "may not patch {subject}; using get and update instead, which needs one more request: \
                 grant the verb patch"
            ),
            Way::None => tracing::error!("may neither patch {subject} nor get and update it: grant the verb patch"),
        }
    }

    /// A patch was allowed.
    pub(super) fn allow(&self, subject: &Subject, metrics: &RestMetrics) {
        if self.known.lock().remove(subject).is_some() {
            metrics.permission_granted("patch", &subject.resource);
            tracing::info!("may patch {subject} again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/api/v1/nodes/n", Some("nodes"))]
    #[case("/api/v1/nodes/n/status?x=y", Some("nodes/status"))]
    #[case("/api/v1/namespaces/a", Some("namespaces"))]
    #[case("/apis/g/v1/namespaces/a/machines/m", Some("machines in namespace a"))]
    #[case("/apis/g/v1/namespaces/a/machines/m/status", Some("machines/status in namespace a"))]
    #[case("/api/v1/nodes", None)]
    #[case("/version", None)]
    fn an_address_tells_what_a_role_is_asked_about(#[case] address: &str, #[case] expected: Option<&str>) {
        let subject = Subject::of(&address.parse().unwrap());
        assert_eq!(subject.map(|subject| subject.to_string()).as_deref(), expected);
    }
}
