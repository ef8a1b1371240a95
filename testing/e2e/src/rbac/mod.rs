//! `cargo xtask rbac`: checks that the shipped roles grant all permissions that are needed, and no others.
//!
//! The programs run through a scenario on kube-apiserver under exactly the shipped roles. The audit log of the API
//! server shows which requests were denied (none may be) and which rules were used (all must be). Then the scenario
//! runs under the roles that users of MCM have granted already: missing permissions may be denied a limited number of
//! times, and nothing may fail.

mod cut_proxy;
mod grants;
mod lacks;
mod objects;
mod programs;
mod requests;
mod required_steps;
mod role_report;
mod scenario;
mod trial;
mod trial_cluster;

use std::path::Path;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use control_plane::{ControlPlane, Options, Program, User};

use crate::control_plane::{Build, compiled};
use crate::counts::Audit;
use crate::suites::{Report, Tally, install_definitions};
use crate::test_bed::TestBed;
use crate::web::Proxy;
use crate::workspace::cargo;
use grants::Grant;
use role_report::RoleReport;
use trial::{Stand, Trial};

/// Options of the command.
#[derive(Args)]
pub struct ChoreArgs {
    /// Roles to check; the default is all.
    #[arg(value_enum)]
    trials: Vec<Which>,
}

/// Roles to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The shipped roles, with one identity per component.
    Shipped,
    /// The shipped roles, with one identity for both components.
    OneProcess,
    /// MCM's own roles, bound to one identity.
    Reference,
    /// The roles that Gardener grants.
    Gardener,
    /// The roles of MCM, reduced to the permissions that MCM uses.
    Cut,
}

/// Checks the roles. Fails if a role is too narrow or too wide, or if a scenario failed.
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    // The CutProxy must forward while this thread waits for kubectl.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start tokio")?;
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let tally = runtime.block_on(async {
        let folder = tempfile::tempdir().context("failed to create a folder for the audit log")?;
        let (audit, flags) = Audit::begin(folder.path())?;
        let binaries = compiled(&Build::by_default()).await?;
        let options = flags
            .iter()
            .fold(Options::new(binaries.clone()), |options, flag| options.with_argument(Program::ApiServer, flag));
        let plane = ControlPlane::start(options).await?;
        let outcome = try_all(&plane, &binaries.path(Program::Kubectl), &audit, args).await;
        plane.stop().await?;
        outcome
    })?;
    ensure!(tally.failed == 0, "{} of the trials failed", tally.failed);
    Ok(())
}

async fn try_all(plane: &ControlPlane, kubectl: &Path, audit: &Audit, args: &ChoreArgs) -> anyhow::Result<Tally> {
    install_definitions(plane).await?;
    let test_bed = TestBed::new(plane)?;
    let proxy = Proxy::start(plane, kubectl).await?;
    let stand = Stand { plane, test_bed: &test_bed, audit, proxy: &proxy };
    let mut report = Report::of("rbac");
    let is_wanted = |which: Which| args.trials.is_empty() || args.trials.contains(&which);
    for which in Which::value_variants().iter().copied().filter(|which| is_wanted(*which)) {
        let trial = which.trial();
        let role_report = report.case(trial.sentence, stand.judge(&trial)).await;
        if let (Which::Shipped, Some(role_report)) = (which, role_report) {
            report
                .case("the check detects a missing and an unused rule", async { notices(&stand, &trial, &role_report) })
                .await;
        }
    }
    report.conclude()
}

impl Which {
    fn trial(self) -> Trial {
        match self {
            Self::Shipped => Trial::shipped("two-processes", "the shipped roles are exactly sufficient"),
            Self::OneProcess => {
                Trial::shipped("one-process", "the shipped roles are sufficient for one identity").if_enough()
            }
            Self::Reference => Trial::of_reference(
                "reference-shipped",
                "the roles of MCM are sufficient",
                &[("default", "default")],
                &[],
            ),
            Self::Gardener => Trial::of_reference(
                "gardener",
                "the roles of Gardener are sufficient",
                &[("gardener", "machine-controller-manager")],
                &["create events"],
            ),
            Self::Cut => Trial::of_reference(
                "cut",
                "roles with update instead of patch are sufficient",
                &[("cut", "machine-controller-manager"), ("cut", "machine-controller")],
                &[
                    "create events",
                    "patch machineclasses",
                    "patch machinedeployments",
                    "patch machinedeployments/status",
                    "patch machines",
                    "patch machines/status",
                    "patch machinesets/status",
                    "patch nodes",
                    "patch nodes/status",
                    "patch secrets",
                ],
            ),
        }
    }
}

/// Checks the same log with one additional rule, and after one request that no role allows.
fn notices(stand: &Stand<'_>, trial: &Trial, role_report: &RoleReport) -> anyhow::Result<()> {
    let user = trial.identities.first().context("the trial has no identity")?;
    let mark = stand.audit.mark()?;
    let kubeconfig = stand.plane.layout().kubeconfig("curious");
    std::fs::write(&kubeconfig, stand.plane.kubeconfig_for(&User::named(user))?.text())?;
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let asked = stand.plane.kubectl().args([flag.as_str(), "get", "configmaps"]).output()?;
    ensure!(!asked.status.success(), "{user} may list ConfigMaps");
    let grants = role_report.grants();
    let denied = RoleReport::of(grants.clone(), &requests::read(&stand.audit.text_since(mark)?));
    let complaint = denied.complaint().unwrap_or_default();
    ensure!(complaint.contains("missing: ") && complaint.contains("list configmaps"), "the report is: {complaint}");
    let wide = Grant { verb: "list".to_owned(), resource: "configmaps".to_owned(), ..some(&grants)? };
    let unused = RoleReport::of(grants.into_iter().chain([wide]).collect(), role_report.requests());
    let complaint = unused.complaint().unwrap_or_default();
    ensure!(complaint.starts_with("never used: ") && complaint.contains("configmaps"), "the report is: {complaint}");
    Ok(())
}

fn some(grants: &[Grant]) -> anyhow::Result<Grant> {
    grants.first().cloned().context("nothing is granted")
}
