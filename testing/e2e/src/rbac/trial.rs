//! One set of roles, and a scenario under it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::ControlPlane;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::grants::{self, Grant};
use super::programs::{Programs, Said};
use super::requests::{self, Request};
use super::role_report::RoleReport;
use super::scenario::Scenario;
use super::trial_cluster::TrialCluster;
use super::{lacks, required_steps};
use crate::counts::Audit;
use crate::test_bed::TestBed;
use crate::web::Proxy;
use crate::workspace::root;

/// Duration of the outage: longer than the backoff of a cache, shorter than a lease.
const OUTAGE: Duration = Duration::from_secs(8);

/// Timeout for the last lines of the audit log.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(15);

/// The environment of trials.
pub(super) struct Stand<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) test_bed: &'a TestBed<'a>,
    pub(super) audit: &'a Audit,
    pub(super) proxy: &'a Proxy,
}

/// One set of roles.
pub(super) struct Trial {
    /// The name of the case.
    pub(super) sentence: &'static str,
    /// The names of the subjects: one for both components, or the manager and the machine controller.
    pub(super) identities: Vec<String>,
    name: &'static str,
    namespace: &'static str,
    roles: PathBuf,
    /// The label of its roles and bindings.
    label: String,
    expected: Expected,
}

/// Which requests may be denied.
#[derive(PartialEq, Eq)]
enum Expected {
    /// None, and every rule must be used.
    JustEnough,
    /// These; other rules may be unused.
    Lacking(&'static [&'static str]),
}

impl Trial {
    /// The roles in `deploy/rbac` for this form.
    pub(super) fn shipped(form: &'static str, sentence: &'static str) -> Self {
        let account = |name: &str| format!("system:serviceaccount:millwright-system:{name}");
        let identities = match form {
            "one-process" => vec![account("millwright")],
            _ => vec![account("machine-controller-manager"), account("machine-controller")],
        };
        Self {
            sentence,
            identities,
            name: form,
            namespace: "millwright-system",
            roles: root().join("deploy/rbac").join(form),
            label: "app.kubernetes.io/part-of=millwright".to_owned(),
            expected: Expected::JustEnough,
        }
    }

    /// Allows unused rules: one identity has the roles of both components, which overlap.
    pub(super) fn if_enough(self) -> Self {
        Self { expected: Expected::Lacking(&[]), ..self }
    }

    /// Roles that users of MCM have granted, bound to these service accounts. `lacking` names the missing permissions
    /// as `verb resource`.
    pub(super) fn of_reference(
        name: &'static str,
        sentence: &'static str,
        accounts: &[(&str, &str)],
        lacking: &'static [&'static str],
    ) -> Self {
        let user = |(namespace, name): &(&str, &str)| format!("system:serviceaccount:{namespace}:{name}");
        Self {
            sentence,
            identities: accounts.iter().map(user).collect(),
            name,
            namespace: name,
            roles: root().join(format!("testing/e2e/src/rbac/reference/{name}.yaml")),
            label: format!("trial={name}"),
            expected: Expected::Lacking(lacking),
        }
    }
}

impl Stand<'_> {
    /// Runs the scenario and checks the result.
    pub(super) async fn judge(&self, trial: &Trial) -> anyhow::Result<RoleReport> {
        self.install(trial)?;
        let mark = self.audit.mark()?;
        let cloud = self.test_bed.start_cloud(&format!("cloud-{}", trial.name))?;
        let mut programs = Programs::of(self, trial.name, trial.namespace, &trial.identities).await?;
        let lived = Box::pin(self.live(trial, &mut programs, mark)).await;
        programs.stop()?;
        cloud.terminate()?;
        lived?;
        let role_report = self.role_report(trial, mark).await?;
        self.remove(trial)?;
        trial.check(&role_report, &programs.said()?)?;
        Ok(role_report)
    }

    async fn live(&self, trial: &Trial, programs: &mut Programs, mark: u64) -> anyhow::Result<()> {
        let cluster = TrialCluster { proxy: self.proxy, namespace: trial.namespace, trial: trial.name };
        let scenario = Scenario { cluster };
        programs.start(self)?;
        scenario.create_pools().await?;
        programs.stop()?;
        scenario.change_without_controllers().await?;
        programs.start(self)?;
        scenario.run_all(programs).await?;
        if let Expected::JustEnough = trial.expected {
            self.cut_off(trial, programs, mark).await?;
        }
        scenario.go().await
    }

    /// Compares permissions and requests. A watch is logged when it ends, shortly after its program.
    async fn role_report(&self, trial: &Trial, mark: u64) -> anyhow::Result<RoleReport> {
        let (grants, begin) = (self.grants(trial)?, Instant::now());
        loop {
            let role_report = RoleReport::of(grants.clone(), &self.asked_since(mark)?);
            let has_missed_some = role_report.unused().iter().any(|grant| grant.verb == "watch");
            if begin.elapsed() > AUDIT_TIMEOUT || !(has_missed_some && trial.expected == Expected::JustEnough) {
                return Ok(role_report);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Simulates an outage. Afterwards the controller must query the API servers before the watches are established
    /// again.
    async fn cut_off(&self, trial: &Trial, programs: &Programs, mark: u64) -> anyhow::Result<()> {
        let who = trial.identities.last().context("the trial has no identity")?;
        let looked = |requests: &[Request], kind: &str| {
            requests.iter().any(|r| r.who == *who && r.verb == "get" && r.resource == kind && r.name == "dummy_name")
        };
        for _ in 0..3 {
            programs.cut_proxy().shut();
            sleep(OUTAGE).await;
            programs.cut_proxy().open();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(30) {
                let asked = self.asked_since(mark)?;
                if looked(&asked, "machines") && looked(&asked, "nodes") {
                    return Ok(());
                }
                sleep(Duration::from_millis(500)).await;
            }
        }
        bail!("after the outage, the API server was not queried")
    }

    /// Returns the permissions of these roles, as stored in the API server.
    fn grants(&self, trial: &Trial) -> anyhow::Result<Vec<Grant>> {
        let kinds = "roles,clusterroles,rolebindings,clusterrolebindings";
        let selector = format!("--selector={}", trial.label);
        let list = self.test_bed.kubectl(&["get", kinds, "--all-namespaces", &selector, "--output=json"])?;
        let mut grants = grants::of(&serde_json::from_str(&list)?);
        ensure!(!grants.is_empty(), "{} grants nothing", trial.roles.display());
        grants.sort_by(|a, b| a.to.cmp(&b.to));
        Ok(grants)
    }

    fn asked_since(&self, mark: u64) -> anyhow::Result<Vec<Request>> {
        Ok(requests::read(&self.audit.text_since(mark)?))
    }

    fn install(&self, trial: &Trial) -> anyhow::Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": trial.namespace } });
        self.test_bed.apply(&format!("namespace-{}", trial.name), &namespace)?;
        self.with_roles(trial, &["apply", "--server-side"])
    }

    fn remove(&self, trial: &Trial) -> anyhow::Result<()> {
        self.with_roles(trial, &["delete", "--wait=true"])
    }

    fn with_roles(&self, trial: &Trial, verb: &[&str]) -> anyhow::Result<()> {
        let flag = if trial.roles.is_dir() { "--kustomize" } else { "--filename" };
        self.test_bed.kubectl(&[verb, &[flag, &trial.roles.to_string_lossy()]].concat()).map(drop)
    }
}

impl Trial {
    #[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
    fn check(&self, role_report: &RoleReport, said: &[Said]) -> anyhow::Result<()> {
        let complaint = match self.expected {
            Expected::JustEnough => {
                println!("{role_report}");
                role_report.complaint()
            }
            Expected::Lacking(lacking) => {
                for (denial, times) in role_report.denied() {
                    println!("  denied {denial} ({times} times)");
                }
                lacks::complaint(role_report.denied(), lacking, &self.identities, said)
            }
        };
        if let Some(complaint) = complaint.or_else(|| required_steps::missing(said)) {
            bail!("{complaint}");
        }
        Ok(())
    }
}
