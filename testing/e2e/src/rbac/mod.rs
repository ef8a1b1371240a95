//! `cargo xtask rbac`: are the roles that we ship enough, and no more than enough?
//!
//! A role that is too narrow shows on a bad day, one that is too wide on a worse one, and neither by reading it. So the real
//! programs live a full life on the real control plane under exactly the shipped roles, and the API server's audit log tells what
//! was denied (nothing may be) and which rules were used (all must be). The same life is then lived under the roles that users of
//! the reference have granted already; there, what is missing may be denied, once, and nothing may fail.

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

/// Which roles to try.
#[derive(Args)]
pub struct ChoreArgs {
    /// Only these; all if not said.
    #[arg(value_enum)]
    trials: Vec<Which>,
}

/// Roles that can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Ours, with an identity for each component.
    Shipped,
    /// Ours, with one identity for both.
    OneProcess,
    /// The reference's own, bound to one identity.
    Reference,
    /// What Gardener grants.
    Gardener,
    /// Cut to what the reference really uses.
    Cut,
}

/// Tries. An error says that some role is too narrow, too wide, or that a life failed under it.
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    // The cut_proxy has to flow while this thread waits for kubectl.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start tokio")?;
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let tally = runtime.block_on(async {
        let folder = tempfile::tempdir().context("failed to make a folder for the audit log")?;
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
                .case("the checker notices a rule that is missing and one that is too much", async {
                    notices(&stand, &trial, &role_report)
                })
                .await;
        }
    }
    report.conclude()
}

impl Which {
    fn trial(self) -> Trial {
        match self {
            Self::Shipped => Trial::shipped("two-processes", "our roles are enough and no more than enough"),
            Self::OneProcess => Trial::shipped("one-process", "our roles are enough for one identity, too").if_enough(),
            Self::Reference => Trial::of_reference(
                "reference-shipped",
                "nothing fails under the roles that come with the reference",
                &[("default", "default")],
                &[],
            ),
            Self::Gardener => Trial::of_reference(
                "gardener",
                "nothing fails under the roles that Gardener grants",
                &[("gardener", "machine-controller-manager")],
                &["create events"],
            ),
            Self::Cut => Trial::of_reference(
                "cut",
                "nothing fails under roles that grant update where we would patch",
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

/// The same log, held against roles with one rule more, and after one request more that no role grants.
fn notices(stand: &Stand<'_>, trial: &Trial, role_report: &RoleReport) -> anyhow::Result<()> {
    let whom = trial.identities.first().context("nobody was tried")?;
    let mark = stand.audit.mark()?;
    let kubeconfig = stand.plane.layout().kubeconfig("curious");
    std::fs::write(&kubeconfig, stand.plane.kubeconfig_for(&User::named(whom))?.text())?;
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let asked = stand.plane.kubectl().args([flag.as_str(), "get", "configmaps"]).output()?;
    ensure!(!asked.status.success(), "{whom} may list ConfigMaps");
    let grants = role_report.grants();
    let denied = RoleReport::of(grants.clone(), &requests::read(&stand.audit.text_since(mark)?));
    let complaint = denied.complaint().unwrap_or_default();
    ensure!(complaint.contains("missing: ") && complaint.contains("list configmaps"), "it said: {complaint}");
    let wide = Grant { verb: "list".to_owned(), resource: "configmaps".to_owned(), ..some(&grants)? };
    let unused = RoleReport::of(grants.into_iter().chain([wide]).collect(), role_report.requests());
    let complaint = unused.complaint().unwrap_or_default();
    ensure!(complaint.starts_with("never used: ") && complaint.contains("configmaps"), "it said: {complaint}");
    Ok(())
}

fn some(grants: &[Grant]) -> anyhow::Result<Grant> {
    grants.first().cloned().context("nothing is granted")
}
