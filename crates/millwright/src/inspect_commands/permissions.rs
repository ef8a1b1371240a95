//! Checks the permissions of the controllers.
//!
//! The API server reviews them as for `kubectl auth can-i`, for the service account of the controllers: that of the
//! leader's pod, unless the user names another. If the user may not create reviews, the report says so; permissions
//! that were not reviewed are not reported as missing.

use anyhow::{Context, anyhow};
use inspect::check::Report;
use inspect::leader::{Component, Lease};
use inspect::permissions::{PERMISSIONS, Permission, Scope};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use runtime::client::{ApiError, ErrorClass};

use super::leader;

/// The account whose permissions are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The service account of the leader's pod.
    Leader,
    /// This service account.
    Named {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// The user of the kubeconfig.
    CurrentUser,
    /// None: permissions are not checked.
    None,
}

/// The clusters in which permissions are checked.
pub(super) struct Inquiry<'a> {
    /// Client for the control cluster.
    pub(super) control: &'a Client,
    /// The target cluster.
    pub(super) target: TargetCluster<'a>,
    /// Namespace of the Machines.
    pub(super) namespace: &'a str,
    /// Leases of the components.
    pub(super) leases: &'a [Lease],
}

/// The target cluster, as far as permissions are concerned.
pub(super) enum TargetCluster<'a> {
    /// The control cluster, with the same account.
    Same,
    /// Another cluster, in which the controllers have another account.
    Other(&'a Client),
    /// There is no target cluster.
    None,
}

impl Inquiry<'_> {
    /// Adds missing permissions, and what could not be checked.
    pub(super) async fn check(&self, account: &Account, report: &mut Report) {
        if *account == Account::None {
            return;
        }
        for component in Component::ALL {
            if let Err(error) = self.check_component(component, account, report).await {
                report.not_checked.push(format!("permissions of the controllers: {error:#}"));
            }
        }
        if matches!((&self.target, account), (TargetCluster::Other(_), Account::Leader | Account::Named { .. })) {
            let why = "use --account=self with the kubeconfigs of the controllers";
            report.not_checked.push(format!("permissions of the controllers in the target cluster: {why}"));
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
        for permission in PERMISSIONS.iter().filter(|permission| permission.component == component) {
            let Some(client) = self.client(permission.scope, &subject) else { continue };
            for verb in permission.verbs {
                if self.is_allowed(client, permission, verb, &subject).await? {
                    continue;
                }
                let mut replaced = !Permission::instead_of(verb).is_empty();
                for other in Permission::instead_of(verb) {
                    replaced = replaced && self.is_allowed(client, permission, other, &subject).await?;
                }
                if !replaced {
                    report.findings.push(permission.lacking(verb, &subject.object(), self.namespace));
                }
            }
        }
        Ok(())
    }

    async fn subject(&self, component: Component, account: &Account) -> anyhow::Result<Subject> {
        match account {
            Account::CurrentUser | Account::None => Ok(Subject::CurrentUser),
            Account::Named { namespace, name } => Ok(Subject::account(namespace, name)),
            Account::Leader => {
                let lease = self.leases.iter().find(|lease| lease.component == component).map(|lease| &lease.record);
                let pod = leader::pod(lease)
                    .context("the leader is unknown. Set --account to the service account of the controllers")?;
                let pods: Api<Pod> = Api::namespaced(self.control.clone(), self.namespace);
                let found = pods.get(pod).await.map_err(|error| {
                    let error = ApiError::of(&error);
                    anyhow!("failed to get the leader's pod {pod:?}: {error}. Set --account to its service account")
                })?;
                let name =
                    found.spec.and_then(|spec| spec.service_account_name).unwrap_or_else(|| "default".to_owned());
                Ok(Subject::account(self.namespace, &name))
            }
        }
    }

    /// Returns the client of the cluster in which a permission is needed, if the subject exists there.
    fn client(&self, scope: Scope, subject: &Subject) -> Option<&Client> {
        match (scope, &self.target) {
            (Scope::Machines, _) | (Scope::Target | Scope::TargetNamespace(_), TargetCluster::Same) => {
                Some(self.control)
            }
            (_, TargetCluster::Other(client)) if *subject == Subject::CurrentUser => Some(client),
            (_, TargetCluster::Other(_) | TargetCluster::None) => None,
        }
    }

    async fn is_allowed(
        &self,
        client: &Client,
        permission: &Permission,
        verb: &str,
        subject: &Subject,
    ) -> anyhow::Result<bool> {
        let namespace = match permission.scope {
            Scope::Machines => Some(self.namespace.to_owned()),
            Scope::TargetNamespace(namespace) => Some(namespace.to_owned()),
            Scope::Target => None,
        };
        let (resource, subresource) = match permission.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (permission.resource, None),
        };
        let attributes = ResourceAttributes {
            namespace,
            verb: Some(verb.to_owned()),
            group: Some(permission.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            name: Some(permission.name.to_owned()).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        let status = subject.review(client, attributes).await.map_err(|error| refused(&error))?;
        Ok(status.is_some_and(|status| status.allowed))
    }
}

fn refused(error: &Error) -> anyhow::Error {
    let error = ApiError::of(error);
    match error.class {
        ErrorClass::Forbidden => {
            anyhow!(
                "missing permission to create subjectaccessreviews.authorization.k8s.io: {error}. Request a role that allows it"
            )
        }
        _ => anyhow!("failed to review permissions: {error}"),
    }
}

/// The account that is reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Account { namespace: String, name: String },
    CurrentUser,
}

impl Subject {
    fn account(namespace: &str, name: &str) -> Self {
        Self::Account { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the name of the account in findings.
    fn object(&self) -> String {
        match self {
            Self::Account { namespace, name } => format!("serviceaccount/{namespace}/{name}"),
            Self::CurrentUser => "user of the kubeconfig".to_owned(),
        }
    }

    async fn review(
        &self,
        client: &Client,
        attributes: ResourceAttributes,
    ) -> Result<Option<SubjectAccessReviewStatus>, Error> {
        let params = PostParams::default();
        match self {
            Self::CurrentUser => {
                let spec = SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(attributes),
                    ..SelfSubjectAccessReviewSpec::default()
                };
                let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
                Ok(Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status)
            }
            Self::Account { namespace, name } => {
                // The groups of the token of a service account. Roles may be bound to these groups.
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

    /// Returns a client of an API server that allows everything except what `denied` lists as `verb resource`.
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
                let reviewed = format!("{} {}", text("verb"), text("resource"));
                let known =
                    review["spec"]["user"].as_str().is_none_or(|user| user == "system:serviceaccount:shoot:robot");
                review["status"] = json!({ "allowed": known && !denied.contains(&reviewed.as_str()) });
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
    async fn permissions_of_the_leaders_service_account_are_checked() {
        assert_eq!(checked(&[], &Account::Leader).await, Report::default());
        let unknown = Account::Named { namespace: "shoot".to_owned(), name: "unknown".to_owned() };
        let missing: usize = PERMISSIONS.iter().map(|permission| permission.verbs.len()).sum();
        assert_eq!(checked(&[], &unknown).await.findings.len(), missing);
    }

    /// Shows OPR-19.
    #[tokio::test]
    async fn missing_verbs_are_found_unless_another_verb_replaces_them() {
        let report = checked(&["watch pods"], &Account::Leader).await;
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.field.as_str()).collect();
        assert_eq!(found, ["watch pods"]);
        assert_eq!(report.findings[0].object, "serviceaccount/shoot/robot");
        assert_eq!(checked(&["patch machineclasses"], &Account::CurrentUser).await, Report::default());
        let report = checked(&["patch machineclasses", "update machineclasses"], &Account::CurrentUser).await;
        assert_eq!(report.findings.len(), 1, "{report:?}");
    }
}
