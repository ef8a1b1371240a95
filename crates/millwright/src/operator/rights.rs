//! Asks the API server what the controllers may do.
//!
//! By the same reviews with which `kubectl auth can-i` asks, for the service account that the controllers run under: that of the leader's pod, unless a
//! person names another. Whoever may not ask is told so; what was not asked is not called missing.

use anyhow::{Context, anyhow};
use inspect::check::Report;
use inspect::leader::{Component, Lease};
use inspect::rights::{Place, RIGHTS, Right};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use runtime::client::{ApiError, RetryClass};

use super::leader;

/// Whose rights are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The service account of the leader's pod.
    OfTheLeader,
    /// This service account.
    Named {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Whoever the kubeconfig is for.
    Own,
    /// Nobody's.
    Unasked,
}

/// Where is asked.
pub(super) struct Inquiry<'a> {
    /// The cluster that holds the machines.
    pub(super) control: &'a Client,
    /// The cluster that nodes join.
    pub(super) target: TargetCluster<'a>,
    /// The namespace of the machines.
    pub(super) namespace: &'a str,
    /// The leases of the components.
    pub(super) leases: &'a [Lease],
}

/// The cluster that nodes join, as far as rights are concerned.
pub(super) enum TargetCluster<'a> {
    /// The one that holds the machines: the same account.
    Same,
    /// Another, where the controllers are somebody else.
    Other(&'a Client),
    /// None.
    None,
}

impl Inquiry<'_> {
    /// Adds what is missing, and what could not be asked.
    pub(super) async fn check(&self, account: &Account, report: &mut Report) {
        if *account == Account::Unasked {
            return;
        }
        for component in Component::ALL {
            if let Err(error) = self.check_component(component, account, report).await {
                report.not_checked.push(format!("what the controllers may do: {error:#}"));
            }
        }
        if matches!((&self.target, account), (TargetCluster::Other(_), Account::OfTheLeader | Account::Named { .. })) {
            let why = "with --account=self and the kubeconfigs of the controllers it is";
            report.not_checked.push(format!("what the controllers may do in the cluster that nodes join: {why}"));
        }
        report.findings.sort();
        report.not_checked.sort();
        report.not_checked.dedup();
    }

    async fn check_component(
        &self,
        component: Component,
        account: &Account,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let subject = self.subject(component, account).await?;
        for right in RIGHTS.iter().filter(|right| right.component == component) {
            let Some(client) = self.client(right.place, &subject) else { continue };
            for verb in right.verbs {
                if self.is_allowed(client, right, verb, &subject).await? {
                    continue;
                }
                let mut instead = !Right::instead_of(verb).is_empty();
                for other in Right::instead_of(verb) {
                    instead = instead && self.is_allowed(client, right, other, &subject).await?;
                }
                if !instead {
                    report.findings.push(right.lacking(verb, &subject.object(), self.namespace));
                }
            }
        }
        Ok(())
    }

    async fn subject(&self, component: Component, account: &Account) -> anyhow::Result<Subject> {
        match account {
            Account::Own | Account::Unasked => Ok(Subject::Own),
            Account::Named { namespace, name } => Ok(Subject::account(namespace, name)),
            Account::OfTheLeader => {
                let lease = self.leases.iter().find(|lease| lease.component == component).map(|lease| &lease.record);
                let pod =
                    leader::pod(lease).context("no leader is known; name their service account with --account")?;
                let pods: Api<Pod> = Api::namespaced(self.control.clone(), self.namespace);
                let found = pods.get(pod).await.map_err(|error| {
                    let error = ApiError::of(&error);
                    anyhow!(
                        "the leader's pod {pod:?} could not be read ({error}); name its service account with --account"
                    )
                })?;
                let name =
                    found.spec.and_then(|spec| spec.service_account_name).unwrap_or_else(|| "default".to_owned());
                Ok(Subject::account(self.namespace, &name))
            }
        }
    }

    /// The cluster in which a right is needed, if the subject is known there.
    fn client(&self, place: Place, subject: &Subject) -> Option<&Client> {
        match (place, &self.target) {
            (Place::Machines, _) | (Place::Target | Place::TargetNamespace(_), TargetCluster::Same) => {
                Some(self.control)
            }
            (_, TargetCluster::Other(client)) if *subject == Subject::Own => Some(client),
            (_, TargetCluster::Other(_) | TargetCluster::None) => None,
        }
    }

    async fn is_allowed(&self, client: &Client, right: &Right, verb: &str, subject: &Subject) -> anyhow::Result<bool> {
        let namespace = match right.place {
            Place::Machines => Some(self.namespace.to_owned()),
            Place::TargetNamespace(namespace) => Some(namespace.to_owned()),
            Place::Target => None,
        };
        let (resource, subresource) = match right.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (right.resource, None),
        };
        let attributes = ResourceAttributes {
            namespace,
            verb: Some(verb.to_owned()),
            group: Some(right.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            name: Some(right.name.to_owned()).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        let status = subject.review(client, attributes).await.map_err(|error| refused(&error))?;
        Ok(status.is_some_and(|status| status.allowed))
    }
}

fn refused(error: &Error) -> anyhow::Error {
    let error = ApiError::of(error);
    match error.class {
        RetryClass::Forbidden => {
            anyhow!(
                "you may not create subjectaccessreviews.authorization.k8s.io: ask for a role that allows it ({error})"
            )
        }
        _ => anyhow!("failed to ask the API server: {error}"),
    }
}

/// Who is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Account { namespace: String, name: String },
    Own,
}

impl Subject {
    fn account(namespace: &str, name: &str) -> Self {
        Self::Account { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// As a finding names it.
    fn object(&self) -> String {
        match self {
            Self::Account { namespace, name } => format!("serviceaccount/{namespace}/{name}"),
            Self::Own => "user of the kubeconfig".to_owned(),
        }
    }

    async fn review(
        &self,
        client: &Client,
        attributes: ResourceAttributes,
    ) -> Result<Option<SubjectAccessReviewStatus>, Error> {
        let params = PostParams::default();
        match self {
            Self::Own => {
                let spec = SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(attributes),
                    ..SelfSubjectAccessReviewSpec::default()
                };
                let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
                Ok(Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status)
            }
            Self::Account { namespace, name } => {
                // As the API server would know it by its token: roles may be bound to these groups.
                let groups =
                    ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
                let spec = SubjectAccessReviewSpec {
                    user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                    groups: Some(groups.map(str::to_owned).to_vec()),
                    resource_attributes: Some(attributes),
                    ..SubjectAccessReviewSpec::default()
                };
                let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
                Ok(Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    /// An API server that allows everything but what `denied` names as `verb resource`.
    fn server(denied: &'static [&'static str]) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await.unwrap();
            let answer = if path.ends_with("/pods/mc-0") {
                json!({ "metadata": { "name": "mc-0" }, "spec": { "serviceAccountName": "robot", "containers": [] } })
            } else {
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                let wanted = review["spec"]["resourceAttributes"].clone();
                let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
                let asked = format!("{} {}", text("verb"), text("resource"));
                let known =
                    review["spec"]["user"].as_str().is_none_or(|user| user == "system:serviceaccount:shoot:robot");
                review["status"] = json!({ "allowed": known && !denied.contains(&asked.as_str()) });
                review
            };
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(serde_json::to_vec(&answer).unwrap())))
        });
        Client::new(service, "default")
    }

    async fn checked(denied: &'static [&'static str], account: &Account) -> Report {
        let client = server(denied);
        let record = inspect::leader::Record::Held {
            holder: "mc-0_1".to_owned(),
            renewed: None,
            good_for: std::time::Duration::from_secs(15),
        };
        let leases = Component::ALL.map(|component| Lease { component, record: record.clone() });
        let inquiry = Inquiry { control: &client, target: TargetCluster::Same, namespace: "shoot", leases: &leases };
        let mut report = Report::default();
        inquiry.check(account, &mut report).await;
        report
    }

    /// Shows OPR-19.
    #[tokio::test]
    async fn the_service_account_of_the_leaders_pod_is_asked_about() {
        assert_eq!(checked(&[], &Account::OfTheLeader).await, Report::default());
        let nobody = Account::Named { namespace: "shoot".to_owned(), name: "nobody".to_owned() };
        let missing: usize = RIGHTS.iter().map(|right| right.verbs.len()).sum();
        assert_eq!(checked(&[], &nobody).await.findings.len(), missing);
    }

    /// Shows OPR-19.
    #[tokio::test]
    async fn a_verb_that_is_missing_is_found_and_a_patch_only_if_nothing_stands_in_for_it() {
        let report = checked(&["watch pods"], &Account::OfTheLeader).await;
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.field.as_str()).collect();
        assert_eq!(found, ["watch pods"]);
        assert_eq!(report.findings[0].object, "serviceaccount/shoot/robot");
        assert_eq!(checked(&["patch machineclasses"], &Account::Own).await, Report::default());
        let report = checked(&["patch machineclasses", "update machineclasses"], &Account::Own).await;
        assert_eq!(report.findings.len(), 1, "{report:?}");
    }
}
