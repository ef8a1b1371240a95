//! Classifies responses of the API server to evictions and deletions.
//!
//! The status code is not sufficient. A 429 may be an exhausted PodDisruptionBudget, a budget that is not counted yet,
//! or a busy server. A 403 may be a terminating namespace. A 404 may be about an object other than the pod. A 409 may
//! mean that the pod was replaced. A refusal starts the time after which the pod is deleted; a failure does not.

use std::time::Duration;

/// An error response.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub code: u16,
    /// The message of the server.
    pub message: &'a str,
    /// The kind of object that the response is about (`details.kind`).
    pub about: &'a str,
    /// The causes (`details.causes[].reason`).
    pub causes: &'a [&'a str],
    /// Retry-After, from the header or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
}

/// The result of an eviction or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is terminating.
    Accepted,
    /// The pod does not exist any more; another one may have its name.
    Gone,
    /// The pod may not be evicted at present.
    Refused(Refusal),
    /// The request failed.
    Failed(Failure),
}

/// The cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A PodDisruptionBudget.
    Budget {
        /// Retry-After.
        retry_after: Option<Duration>,
    },
    /// Several PodDisruptionBudgets cover the pod, which the server does not support.
    SeveralBudgets,
    /// Its namespace is terminating and deletes its pods.
    NamespaceTerminating,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message of the server or the connection.
    pub text: String,
    /// Whether a retry may succeed.
    pub persistence: Persistence,
    /// Retry-After.
    pub retry_after: Option<Duration>,
}

/// Whether a failure is likely to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// A retry may succeed: the server was busy or unreachable.
    Transient,
    /// A retry without a change fails again.
    Permanent,
}

impl Answer {
    /// Classifies an error response.
    #[must_use]
    pub fn read(reply: &Reply<'_>) -> Self {
        let caused_by = |cause: &str| reply.causes.contains(&cause);
        match reply.code {
            // A server without the resource also returns 404. Only a response about pods means that the pod is deleted.
            404 if reply.about == "pods" => Self::Gone,
            409 if reply.message.contains("UID in precondition") => Self::Gone,
            // API Priority and Fairness returns 429 with Retry-After and without a cause. MCM's client retries these
            // itself.
            429 if caused_by("DisruptionBudget") || reply.retry_after.is_none() => {
                Self::Refused(Refusal::Budget { retry_after: reply.retry_after })
            }
            500 if reply.message.contains("more than one PodDisruptionBudget") => {
                Self::Refused(Refusal::SeveralBudgets)
            }
            403 if caused_by("NamespaceTerminating") || reply.message.contains("because it is being terminated") => {
                Self::Refused(Refusal::NamespaceTerminating)
            }
            409 | 429 | 500.. => Self::failed(reply, Persistence::Transient),
            _ => Self::failed(reply, Persistence::Permanent),
        }
    }

    /// No response: the connection was lost or timed out. The watch shows whether the pod is terminating.
    #[must_use]
    pub fn lost(text: String) -> Self {
        Self::Failed(Failure { text, persistence: Persistence::Transient, retry_after: None })
    }

    fn failed(reply: &Reply<'_>, persistence: Persistence) -> Self {
        Self::Failed(Failure { text: reply.message.to_owned(), persistence, retry_after: reply.retry_after })
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(Refusal::Budget { retry_after }) => *retry_after,
            Self::Failed(failure) => failure.retry_after,
            Self::Accepted | Self::Gone | Self::Refused(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const BUDGET: Answer = Answer::Refused(Refusal::Budget { retry_after: None });
    const TEN: Option<Duration> = Some(Duration::from_secs(10));

    fn failed(text: &str, persistence: Persistence, retry_after: Option<Duration>) -> Answer {
        Answer::Failed(Failure { text: text.into(), persistence, retry_after })
    }

    /// Shows DR-Q6, DR-8.
    #[rstest]
    #[case::spent_budget(429, "Cannot evict pod", "", &["DisruptionBudget"], None, BUDGET)]
    #[case::plain_429(429, "no", "", &[], None, BUDGET)]
    #[case::uncounted_budget(429, "still being processed", "", &["DisruptionBudget"], TEN,
        Answer::Refused(Refusal::Budget { retry_after: TEN }))]
    #[case::busy_server(429, "too many requests", "", &[], TEN, failed("too many requests", Persistence::Transient, TEN))]
    #[case::several_budgets(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", "", &[], None,
        Answer::Refused(Refusal::SeveralBudgets))]
    #[case::other_500(500, "etcd is unavailable", "", &[], None, failed("etcd is unavailable", Persistence::Transient, None))]
    #[case::unavailable(503, "down", "", &[], TEN, failed("down", Persistence::Transient, TEN))]
    #[case::namespace_by_cause(403, "no", "", &["NamespaceTerminating"], None, Answer::Refused(Refusal::NamespaceTerminating))]
    #[case::namespace_by_text(403, "unable to create new content in namespace x because it is being terminated", "", &[], None,
        Answer::Refused(Refusal::NamespaceTerminating))]
    #[case::no_permission(403, "pods/eviction is forbidden", "", &[], None, failed("pods/eviction is forbidden", Persistence::Permanent, None))]
    #[case::deleted(404, "pods \"p\" not found", "pods", &[], None, Answer::Gone)]
    #[case::no_such_resource(404, "the server could not find the requested resource", "", &[], None,
        failed("the server could not find the requested resource", Persistence::Permanent, None))]
    #[case::another_pod(409, "Precondition failed: UID in precondition: a, UID in object meta: b", "pods", &[], None, Answer::Gone)]
    #[case::other_conflict(409, "try again", "pods", &[], None, failed("try again", Persistence::Transient, None))]
    #[case::invalid(422, "no", "", &[], None, failed("no", Persistence::Permanent, None))]
    fn response_is_classified(
        #[case] code: u16,
        #[case] message: &str,
        #[case] about: &str,
        #[case] causes: &[&str],
        #[case] retry_after: Option<Duration>,
        #[case] expected: Answer,
    ) {
        assert_eq!(Answer::read(&Reply { code, message, about, causes, retry_after }), expected);
    }
}
