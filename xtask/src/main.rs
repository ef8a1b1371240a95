//! Chores of the repository: `cargo xtask <chore>`. Each one is a file here or a suite of `testing/e2e`; none of them is needed to build or run Millwright.

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
mod purity;
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
    /// Check that decisions stay pure: nothing under `plan` may pull in tokio, hyper or a Kubernetes client.
    Purity,
    /// Check that docs/behaviours accounts for every rule, and that every test it names runs.
    Behaviours,
    /// Check that each alert of deploy/alerts fires when it must and is silent when it must be.
    Alerts,
    /// Write the CustomResourceDefinitions to deploy/crds.
    Crds {
        /// Only compare; fail when a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Write the dashboards to deploy/dashboards, and let promtool read their queries.
    Dashboards {
        /// Only compare; fail when a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Ask the real API server for the types of the built-in kinds and write them down for the one in memory.
    Types,
    /// Measure, in release mode, and compare with the budgets.
    #[command(subcommand)]
    Bench(bench::Subject),
    /// A real Kubernetes control plane on this machine: etcd, API server, controllers, scheduler and kubectl.
    #[command(subcommand)]
    ControlPlane(control_plane::Chore),
    /// moto on this machine: an EC2 and STS that we did not write, for the tests of drivers.
    #[command(subcommand)]
    Moto(moto::Chore),
    /// A real OpenStack on this machine, from Debian's packages, for the tests of its driver.
    #[command(subcommand)]
    Openstack(openstack::Chore),
    /// What machines of provider `host` boot from: the root image, and the kubelet of the control plane's release.
    #[command(subcommand)]
    NodeImage(node_image::Chore),
    /// Copy what the Helm chart shares with deploy/, and compare what both make of the same wishes.
    Chart {
        /// Write nothing; fail if a copy is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Hold API servers to what Kubernetes API servers do: the real one, which the cases come from, and ours.
    Conformance(conformance::ChoreArgs),
    /// Run end-to-end suites.
    E2e(suites::ChoreArgs),
    /// Kill the controller at every moment of every effect in a machine's life, on the real control plane.
    CrashTable(crash_table::ChoreArgs),
    /// Count what the API server was asked, and compare it with the budgets.
    Counts(counts::ChoreArgs),
    /// Build the container image without a daemon, and run it in an empty, read-only root by what deploy/ says.
    Image(image::ChoreArgs),
    /// Change the decisions in one place after the other, and see whether a test fails each time.
    Mutants(mutants::ChoreArgs),
    /// Make mistakes in a copy of the sources, and see whether the simulation finds each.
    SimMutations(sim_mutations::ChoreArgs),
    /// Live under the shipped roles on the real control plane: nothing may be denied, and every rule must be used.
    Rbac(rbac::ChoreArgs),
}

/// A sentence for the person who called, whatever RUST_BACKTRACE says: a chore that fails has a reason, not a crash.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
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
        Chore::Behaviours => behaviours::check(),
        Chore::Alerts => alerts::check(),
        Chore::Crds { check } => crds::write(crds::Mode::of(check)),
        Chore::Chart { check } => chart::write(crds::Mode::of(check)),
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
