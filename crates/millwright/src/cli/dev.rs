//! Arguments of the commands of the feature `dev`: those that need no cluster, and their components.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use driver_remote::Endpoint;
use lab_node::network::Network;

use super::{Log, Output, ServerTls, endpoint, values};
use crate::dev::Failing;

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Run a scripted pool lifecycle on an embedded API server and an embedded cloud, from creation to deletion
    Demo(Demo),
    /// Run a cluster in memory with virtual machines, for kubectl and a browser. Needs no installation and leaves
    /// nothing behind
    Dev(Dev),
    /// Start a real control plane and Machines with real kubelets on this Linux host (requires root), and keep them
    /// running for kubectl
    Up(Up),
    /// Stop and remove everything that `up` created
    Down(Down),
    /// Serve the embedded API server on loopback, for kubectl and for `millwright run`
    ApiServer(ApiServer),
    /// Run randomized, seeded fault simulations of a whole cluster in memory and check invariants at every event
    Sim(Sim),
    /// Run the virtual cloud and its kubelets as a separate process, for `millwright run --driver-endpoint`
    VirtualCloud(VirtualCloud),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Print line by line on a terminal too, instead of a live view.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Verbosity of an additional log on stderr, which implies line-by-line output. 4 adds reasons, 6 adds every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// Number of seeds for each profile.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) seeds: u64,
    /// Name of the simulation profile, or `all`.
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub(crate) profile: String,
    /// First seed. Random by default.
    #[arg(long, value_name = "SEED")]
    pub(crate) first_seed: Option<u64>,
    /// Single seed to run.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed"])]
    pub(crate) seed: Option<u64>,
    /// Number of seeds that run in parallel. Number of processors by default.
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Print every change of Machines, MachineSets, MachineDeployments, Nodes and VMs.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Print every request too.
    #[arg(long, requires = "seed", requires = "trace")]
    pub(crate) requests: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Port on 127.0.0.1. 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// File to write the kubeconfig to. It is removed at exit. A new temporary directory by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Initial number of Machines in the pool.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) machines: u32,
    /// Boot time of a VM. Its Node joins half a second later.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::duration)]
    pub(crate) boot_time: std::time::Duration,
    /// Maximum number of VMs in the cloud. Unlimited by default.
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<u32>,
    /// Driver error to inject into VM creation: `Unavailable=3` fails the next three calls, `Unavailable=20%` fails
    /// about one call in five. May be given several times; the first one that applies is used.
    #[arg(long, value_name = "CODE=N|CODE=P%")]
    pub(crate) fail: Vec<Failing>,
    /// Directory for objects and VMs. State of an earlier run is restored from it; --machines and --boot-time then
    /// have no effect. The directory contains Secrets.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Port of the web view on 127.0.0.1. 0 selects a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) ui_port: u16,
    /// Verbosity of an additional log on stderr. 4 adds reasons, 6 adds every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    /// Number of Machines in the pool.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) machines: u32,
    /// Type of Machines: namespaces of this host, or qemu virtual machines, which have their own kernel and take
    /// longer to start.
    #[arg(long, value_enum, default_value_t = UpProvider::Host)]
    pub(crate) provider: UpProvider,
    /// Accelerator of the virtual machines. `auto` selects KVM if the kernel offers it; use `tcg` if KVM is offered
    /// but does not work.
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    pub(crate) accelerator: Accelerator,
    /// Name of the pool, and prefix of its Machine names.
    #[arg(long, value_name = "NAME", default_value = "laptop")]
    pub(crate) pool: String,
    /// Directory for all state. It must be new or come from an earlier `up`, and is removed by `down`.
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub(crate) directory: PathBuf,
    /// First two octets of the Machine addresses. The pod addresses begin with the octets that follow.
    #[arg(long, value_name = "A.B", default_value = "10.78")]
    pub(crate) network: Network,
    /// Directory of image archives (`docker save`, with the extension .tar) that every Machine imports at boot.
    /// Machines cannot reach a registry. Not supported for virtual machines.
    #[arg(long, value_name = "DIR")]
    pub(crate) images: Option<PathBuf>,
    /// Run the inner process, in its own namespaces.
    #[arg(long, hide = true)]
    pub(crate) in_namespaces: bool,
}

/// Type of the Machines of `up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UpProvider {
    /// Namespaces.
    Host,
    /// Virtual machines.
    Qemu,
}

impl UpProvider {
    /// Returns the name that a MachineClass uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => lab_host::PROVIDER,
            Self::Qemu => lab_qemu::PROVIDER,
        }
    }
}

/// Accelerator of virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// KVM if available, else TCG.
    Auto,
    /// Hardware virtualization with KVM.
    Kvm,
    /// Emulation by qemu.
    Tcg,
}

impl Accelerator {
    /// Returns the name that a MachineClass uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Default directory of `up`.
const DIRECTORY: &str = "/var/lib/millwright/up";

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Directory of the `up` to remove.
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub(crate) directory: PathBuf,
}

impl Up {
    /// The hidden flag of the inner process.
    pub(crate) const IN_NAMESPACES: &'static str = "--in-namespaces";

    /// Returns the directory as an argument for the inner process.
    pub(crate) fn directory_argument(directory: &Path) -> OsString {
        let mut argument = OsString::from("--directory=");
        argument.push(directory);
        argument
    }

    /// Returns the arguments of the inner process: the same arguments and the hidden flag.
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

    /// Returns the defaults.
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
    /// Port on 127.0.0.1. 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// File to write the kubeconfig to.
    #[arg(long, value_name = "FILE", default_value = "millwright.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VirtualCloud {
    /// Endpoint to listen on for controllers: `unix:PATH`, accessible to the same user only, or
    /// `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) listen: Endpoint,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    /// Kubeconfig of the cluster that the Nodes join. Empty selects the service account of the pod, `none` creates VMs
    /// that never join.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) kubeconfig: String,
    /// Duration without a heartbeat after which the Ready condition of a Node becomes `Unknown`. 0s leaves that to a
    /// kube-controller-manager.
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: std::time::Duration,
    /// Create a second VM for a repeated create call, as some clouds do, to make duplicate creates visible.
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
    fn inner_process_gets_the_arguments_of_up() {
        let given = Up {
            machines: 3,
            provider: UpProvider::Qemu,
            accelerator: Accelerator::Tcg,
            pool: "p".to_owned(),
            directory: "/a b".into(),
            network: "10.20".parse().unwrap(),
            images: Some("/i".into()),
            in_namespaces: false,
        };
        let arguments = std::iter::once(OsString::from("millwright")).chain(given.inner_arguments());
        let Ok(Line { command: DevCommand::Up(parsed) }) = Line::try_parse_from(arguments) else { panic!("not an up") };
        assert!(parsed.in_namespaces);
        assert_eq!(format!("{:?}", Up { in_namespaces: false, ..parsed }), format!("{given:?}"));
    }
}
