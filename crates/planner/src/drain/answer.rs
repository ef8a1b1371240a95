//! What an API server's answer to an eviction or a deletion means.
//!
//! The numbers alone do not say it. A 429 may be a budget that is spent, a budget that nobody has counted yet or a server that
//! is busy; a 403 may be a namespace on its way out; a 404 may be about another thing than the pod; a 409 may say that the pod
//! is another one by now. A refusal is somebody's right and starts the clock after which the pod is deleted; a failure is not,
//! and does not.

use std::time::Duration;

/// A refusing or failing answer as it came.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub code: u16,
    /// The server's sentence.
    pub message: &'a str,
    /// The kind of object that the answer is about (`details.kind`).
    pub about: &'a str,
    /// What the server gives as causes (`details.causes[].reason`).
    pub causes: &'a [&'a str],
    /// How long the server wants to be left alone, by its header or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
}

/// What became of an eviction or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is on its way out.
    Accepted,
    /// There is no such pod any more; one of the same name is another.
    Gone,
    /// Somebody has the right to keep it for now.
    Refused(Refusal),
    /// It could not be done.
    Failed(Failure),
}

/// Who keeps a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A disruption budget.
    Budget {
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// More than one disruption budget covers it, and the server cannot judge.
    SeveralBudgets,
    /// Its namespace is being deleted, and its pods with it.
    NamespaceEnding,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the server or the connection said.
    pub text: String,
    /// Whether it is likely to builder.
    pub outlook: Outlook,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// Whether a failure is worth anybody's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The server was busy or away: it will builder.
    Passing,
    /// The server meant it.
    Lasting,
}

impl Answer {
    /// Reads a refusing or failing answer.
    #[must_use]
    pub fn read(reply: &Reply<'_>) -> Self {
        let caused_by = |cause: &str| reply.causes.contains(&cause);
        match reply.code {
            // A server without the resource says 404 too; only one that speaks of pods says that the pod is gone.
            404 if reply.about == "pods" => Self::Gone,
            409 if reply.message.contains("UID in precondition") => Self::Gone,
            // Fair queueing sends its 429 with a delay and without a cause; the reference's client waits it out unseen.
            429 if caused_by("DisruptionBudget") || reply.retry_after.is_none() => {
                Self::Refused(Refusal::Budget { retry_after: reply.retry_after })
            }
            500 if reply.message.contains("more than one PodDisruptionBudget") => {
                Self::Refused(Refusal::SeveralBudgets)
            }
            403 if caused_by("NamespaceTerminating") || reply.message.contains("because it is being terminated") => {
                Self::Refused(Refusal::NamespaceEnding)
            }
            409 | 429 | 500.. => Self::failed(reply, Outlook::Passing),
            _ => Self::failed(reply, Outlook::Lasting),
        }
    }

    /// No answer came: the connection broke or took too long. Whether the pod is on its way out will be seen.
    #[must_use]
    pub fn lost(text: String) -> Self {
        Self::Failed(Failure { text, outlook: Outlook::Passing, retry_after: None })
    }

    fn failed(reply: &Reply<'_>, outlook: Outlook) -> Self {
        Self::Failed(Failure { text: reply.message.to_owned(), outlook, retry_after: reply.retry_after })
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

    fn failed(text: &str, outlook: Outlook, retry_after: Option<Duration>) -> Answer {
        Answer::Failed(Failure { text: text.into(), outlook, retry_after })
    }

    /// Shows DR-Q6, DR-8.
    #[rstest]
    #[case::spent_budget(429, "Cannot evict pod", "", &["DisruptionBudget"], None, BUDGET)]
    #[case::plain_429(429, "no", "", &[], None, BUDGET)]
    #[case::uncounted_budget(429, "still being processed", "", &["DisruptionBudget"], TEN,
        Answer::Refused(Refusal::Budget { retry_after: TEN }))]
    #[case::busy_server(429, "too many requests", "", &[], TEN, failed("too many requests", Outlook::Passing, TEN))]
    #[case::several_budgets(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", "", &[], None,
        Answer::Refused(Refusal::SeveralBudgets))]
    #[case::other_500(500, "etcd is away", "", &[], None, failed("etcd is away", Outlook::Passing, None))]
    #[case::unavailable(503, "down", "", &[], TEN, failed("down", Outlook::Passing, TEN))]
    #[case::namespace_by_cause(403, "no", "", &["NamespaceTerminating"], None, Answer::Refused(Refusal::NamespaceEnding))]
    #[case::namespace_by_text(403, "unable to create new content in namespace x because it is being terminated", "", &[], None,
        Answer::Refused(Refusal::NamespaceEnding))]
    #[case::no_right(403, "pods/eviction is forbidden", "", &[], None, failed("pods/eviction is forbidden", Outlook::Lasting, None))]
    #[case::gone(404, "pods \"p\" not found", "pods", &[], None, Answer::Gone)]
    #[case::no_such_resource(404, "the server could not find the requested resource", "", &[], None,
        failed("the server could not find the requested resource", Outlook::Lasting, None))]
    #[case::another_pod(409, "Precondition failed: UID in precondition: a, UID in object meta: b", "pods", &[], None, Answer::Gone)]
    #[case::other_conflict(409, "try again", "pods", &[], None, failed("try again", Outlook::Passing, None))]
    #[case::invalid(422, "no", "", &[], None, failed("no", Outlook::Lasting, None))]
    fn an_answer_means(
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
