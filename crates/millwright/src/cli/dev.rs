//! What can be said to the commands of the feature `dev`: those that need no cluster, and the parts they are made of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use driver_remote::Endpoint;
use lab_node::network::Network;

use super::{Log, Output, ServerTls, endpoint, values};
use crate::dev::Failing;

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Show a machine's life, from its creation to its deletion, on an embedded API server and an embedded cloud.
    Demo(Demo),
    /// Keep a whole cluster in memory running, with virtual machines, for kubectl: nothing to install, nothing left behind.
    Dev(Dev),
    /// Start a real control plane and machines with real kubelets on this Linux host, as root, and leave them running for kubectl.
    Up(Up),
    /// Take away all that `up` started and made.
    Down(Down),
    /// Serve the embedded API server on loopback, for kubectl and for `millwright run`.
    ApiServer(ApiServer),
    /// Live through many bad days of a whole cluster in memory, each from a seed, and check at every event what must hold.
    Sim(Sim),
    /// Run the virtual cloud and its kubelets as a process of their own, for `millwright run --driver-endpoint`.
    VirtualCloud(VirtualCloud),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Print line by line on a terminal too, as into a pipe, instead of a live view.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Also log to stderr, which prints line by line: 4 tells why, 6 every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// How many seeds of each profile.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) seeds: u64,
    /// What kind of days: the name of a profile, or `all`.
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub(crate) profile: String,
    /// The first seed; any by default.
    #[arg(long, value_name = "SEED")]
    pub(crate) first_seed: Option<u64>,
    /// Only this seed.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed"])]
    pub(crate) seed: Option<u64>,
    /// How many seeds run side by side; as many as there are processors by default.
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Show all that becomes of machines, sets, deployments, nodes and VMs.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Show every request as well.
    #[arg(long, requires = "seed", requires = "trace")]
    pub(crate) requests: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write the kubeconfig, which is removed at the end; in a new directory by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How many machines the pool has at first.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) machines: u32,
    /// How long a VM takes to boot; its node joins half a second later.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::duration)]
    pub(crate) boot_time: std::time::Duration,
    /// How many VMs the cloud has room for; any number by default.
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<u32>,
    /// Let creates of VMs fail with a code of drivers: the next three with `Unavailable=3`, each fifth or so with `Unavailable=20%`. Can be said several times;
    /// of those that apply the first counts.
    #[arg(long, value_name = "CODE=N|CODE=P%")]
    pub(crate) fail: Vec<Failing>,
    /// Keep objects and VMs in this folder, and begin with what an earlier run left there; then --machines and --boot-time have no effect. It holds Secrets.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port of the web view on 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) ui_port: u16,
    /// Also log to stderr: 4 tells why, 6 every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    /// How many machines the pool has.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) machines: u32,
    /// What machines are: namespaces of this host, or virtual machines of qemu, which have a kernel of their own and take longer.
    #[arg(long, value_enum, default_value_t = UpProvider::Host)]
    pub(crate) provider: UpProvider,
    /// What runs the instructions of virtual machines. `auto` takes KVM where the kernel offers it; say `tcg` where it is offered and does not work.
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    pub(crate) accelerator: Accelerator,
    /// The name of the pool, which the names of machines begin with.
    #[arg(long, value_name = "NAME", default_value = "laptop")]
    pub(crate) pool: String,
    /// Where everything is kept. It must be new, or left by another `up`, and goes with `down`.
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub(crate) directory: PathBuf,
    /// The first two numbers of the machines' addresses; those of pods begin with the numbers after them.
    #[arg(long, value_name = "A.B", default_value = "10.78")]
    pub(crate) network: Network,
    /// A directory of image archives (`docker save`, ending in .tar) that every machine imports when it boots. Machines have no way to a registry. Not for
    /// virtual machines.
    #[arg(long, value_name = "DIR")]
    pub(crate) images: Option<PathBuf>,
    /// This is the inner half, in namespaces of its own.
    #[arg(long, hide = true)]
    pub(crate) in_namespaces: bool,
}

/// What the machines of `up` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UpProvider {
    /// Namespaces.
    Host,
    /// Virtual machines.
    Qemu,
}

impl UpProvider {
    /// As a class says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => lab_host::PROVIDER,
            Self::Qemu => lab_qemu::PROVIDER,
        }
    }
}

/// What runs the instructions of a virtual machine, as a class says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// Whatever there is.
    Auto,
    /// The processor.
    Kvm,
    /// qemu.
    Tcg,
}

impl Accelerator {
    /// As a class says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Where `up` keeps everything if nobody says otherwise.
const DIRECTORY: &str = "/var/lib/millwright/up";

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The directory of the `up` to take away.
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub(crate) directory: PathBuf,
}

impl Up {
    /// The flag of the inner half.
    pub(crate) const IN_NAMESPACES: &'static str = "--in-namespaces";

    /// The directory, as the inner half is told of it.
    pub(crate) fn directory_argument(directory: &Path) -> OsString {
        let mut argument = OsString::from("--directory=");
        argument.push(directory);
        argument
    }

    /// What the inner half is told: the same, and that it is the inner half.
    pub(crate) fn inner_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["up".into(), Self::IN_NAMESPACES.into()];
        arguments.push(Self::directory_argument(&self.directory));
        arguments.push(format!("--machines={}", self.machines).into());
        arguments.push(format!("--provider={}", self.provider.name()).into());
        arguments.push(format!("--accelerator={}", self.accelerator.name()).into());
        arguments.push(format!("--pool={}", self.pool).into());
        arguments.push(format!("--network={}", self.network).into());
        if let Some(images) = &self.images {
            arguments.extend(["--images".into(), images.clone().into_os_string()]);
        }
        arguments
    }

    /// What nobody said anything about.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            machines: 2,
            provider: UpProvider::Host,
            accelerator: Accelerator::Auto,
            pool: "laptop".to_owned(),
            directory: DIRECTORY.into(),
            network: "10.78".parse().unwrap(),
            images: None,
            in_namespaces: false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ApiServer {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write a kubeconfig for it.
    #[arg(long, value_name = "FILE", default_value = "millwright.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VirtualCloud {
    /// Where to listen for controllers: `unix:PATH`, open to the same user only, or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) listen: Endpoint,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    /// Kubeconfig of the cluster that nodes join; empty for the pod's own, `none` for VMs that never join.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) kubeconfig: String,
    /// After how long a silent node is `Unknown`; 0s leaves that to a kube-controller-manager.
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: std::time::Duration,
    /// Make a second VM for whoever creates twice, as some clouds do, so that a doubled create shows.
    #[arg(long)]
    pub(crate) allow_doubles: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: DevCommand,
    }

    #[test]
    fn what_the_inner_half_is_told_is_what_we_were_told() {
        let told = Up {
            machines: 3,
            provider: UpProvider::Qemu,
            accelerator: Accelerator::Tcg,
            pool: "p".to_owned(),
            directory: "/a b".into(),
            network: "10.20".parse().unwrap(),
            images: Some("/i".into()),
            in_namespaces: false,
        };
        let arguments = std::iter::once(OsString::from("millwright")).chain(told.inner_arguments());
        let Ok(Line { command: DevCommand::Up(heard) }) = Line::try_parse_from(arguments) else { panic!("not an up") };
        assert!(heard.in_namespaces);
        assert_eq!(format!("{:?}", Up { in_namespaces: false, ..heard }), format!("{told:?}"));
    }
}
