//! Chores of the repository: `cargo xtask CHORE`. Each chore is a module of this crate or a suite of `testing/e2e`. No chore is needed to
//! build or run Millwright.

mod alerts;
mod behaviours;
mod bench;
mod chart;
mod conformance;
mod crds;
mod dashboards;
mod image;
mod moto;
mod mutants;
mod node_image;
#[cfg(test)]
mod pages;
mod prose;
mod purity;
mod reference;
mod sim_mutations;
mod types;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use e2e::{control_plane, counts, crash_table, openstack, rbac, suites};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Millwright repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the dependencies: planners link no tokio, hyper or client, and the product links no test rig.
    Purity,
    /// Check the text: no idioms in pages, messages and help, and no more than before in comments.
    Prose(prose::ChoreArgs),
    /// Check that a test or an ADR shows each rule of the behaviours pages.
    Behaviours,
    /// Check with promtool that each alert of deploy/alerts fires when it must and stays silent otherwise.
    Alerts,
    /// Write the CustomResourceDefinitions to deploy/crds.
    Crds {
        /// Compare only; fail if a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/reference from the CRDs and the constants of the Machine API.
    Reference {
        /// Compare only; fail if a page is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Write the dashboards to deploy/dashboards and check their queries with promtool.
    Dashboards {
        /// Compare only; fail if a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Read the types of the built-in kinds from the real API server and write them for the in-memory API server.
    Types,
    /// Measure in release mode and compare with the budgets.
    #[command(subcommand)]
    Bench(bench::Subject),
    /// Build, start or stop a real Kubernetes control plane on this machine: etcd, API server, controllers, scheduler and kubectl.
    #[command(subcommand)]
    ControlPlane(control_plane::Chore),
    /// Install or start moto, a mock of EC2 and STS, for the tests of the AWS driver.
    #[command(subcommand)]
    Moto(moto::Chore),
    /// Install, start or stop a real OpenStack on this machine, from Debian's packages, for the tests of its driver.
    #[command(subcommand)]
    Openstack(openstack::Chore),
    /// Build the root image and the kubelet for machines of the provider `host`.
    #[command(subcommand)]
    NodeImage(node_image::Chore),
    /// Render the Helm chart and the manifests of deploy/ from the same values and compare the results.
    Chart,
    /// Run the conformance cases against the real API server and the in-memory one.
    Conformance(conformance::ChoreArgs),
    /// Run end-to-end suites.
    E2e(suites::ChoreArgs),
    /// Kill the controller before and after every effect in the life of a Machine, on the real control plane.
    CrashTable(crash_table::ChoreArgs),
    /// Count the requests to the API server and compare them with the budgets.
    Counts(counts::ChoreArgs),
    /// Build the container image without a daemon and run it in an empty, read-only root with the manifests of deploy/.
    Image(image::ChoreArgs),
    /// Mutate the planners one place at a time and report the mutations that no test detects.
    Mutants(mutants::ChoreArgs),
    /// Mutate a copy of the sources and report the mutations that the simulation does not detect.
    SimMutations(sim_mutations::ChoreArgs),
    /// Run with the shipped roles on the real control plane: no request is denied, and every rule is used.
    Rbac(rbac::ChoreArgs),
}

/// Prints an error on one line, without a backtrace.
#[allow(clippy::print_stderr, reason = "the report is the output of the chore")]
fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Purity => purity::check(),
        Chore::Prose(args) => prose::check(&args),
        Chore::Behaviours => behaviours::check(),
        Chore::Alerts => alerts::check(),
        Chore::Crds { check } => crds::write(crds::Mode::of(check)),
        Chore::Chart => chart::check(),
        Chore::Reference { check } => reference::write(crds::Mode::of(check)),
        Chore::Dashboards { check } => dashboards::write(crds::Mode::of(check)),
        Chore::Types => types::write(),
        Chore::Bench(subject) => bench::run(&subject),
        Chore::ControlPlane(chore) => control_plane::run(chore),
        Chore::Moto(chore) => moto::run(&chore),
        Chore::Openstack(chore) => openstack::run(&chore),
        Chore::NodeImage(chore) => node_image::run(&chore),
        Chore::Conformance(args) => conformance::run(&args),
        Chore::E2e(args) => suites::run(&args),
        Chore::CrashTable(args) => crash_table::run(&args),
        Chore::Counts(args) => counts::run(&args),
        Chore::Image(args) => image::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
        Chore::SimMutations(args) => sim_mutations::run(&args),
        Chore::Rbac(args) => rbac::run(&args),
    }
}
