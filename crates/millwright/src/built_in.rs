//! The drivers that a program brings along.
//!
//! A driver written in Rust needs no process of its own: [`run`](fn@crate::run) and [`run_with`](crate::run_with) make a program of it that has
//! all commands and flags of ours and makes machines in its cloud, as a provider's binary does with MCM. Our own program brings along those that cargo
//! features choose: AWS (`aws`), OpenStack (`openstack`), the virtual cloud, the host it runs on and virtual machines of that host (`dev`). Each of them has to be asked for and serves the classes that name it.

use std::sync::Arc;

use driver::Driver;
use runtime::{Clock, Random, Tasks};

use crate::OtherClusters;
use crate::cli;

/// What a driver in this process may use of it.
#[non_exhaustive]
pub struct Host {
    /// The time.
    pub clock: Clock,
    /// Randomness that nobody shares.
    pub random: Random,
    /// For work that goes on beside the calls. It ends with the controllers; nothing is left running when the process has ended.
    pub tasks: Tasks,
    /// A client for the cluster that nodes join, if there is one. Most drivers need none.
    pub target: Option<kube::Client>,
    /// A client for the cluster that Machines are in, if the driver is in a process of the controllers.
    pub control: Option<kube::Client>,
    /// Clients for clusters that Secrets describe.
    pub others: OtherClusters,
}

/// Makes the driver when everything it may use is there.
type Make = Box<dyn FnOnce(Host) -> Arc<dyn Driver> + Send>;

/// A driver that is compiled in.
pub(crate) struct BuiltIn {
    name: String,
    choice: cli::Choice,
    /// The suffix of its client's user agent.
    pub(crate) agent: &'static str,
    pub(crate) make: Make,
}

/// Which classes the drivers of a process serve.
pub(crate) enum Chosen {
    /// All of them: the driver is what the program is for.
    EveryClass(BuiltIn),
    /// Those that name one of these as their provider.
    ByProvider(Vec<BuiltIn>),
}

/// The drivers that `--provider` asks for. Names that are not built in were refused with the flags.
pub(crate) fn chosen(built_in: Vec<BuiltIn>, providers: &[&str]) -> Chosen {
    let (mut whole, named): (Vec<_>, Vec<_>) =
        built_in.into_iter().partition(|driver| driver.choice == cli::Choice::ByDefault);
    match whole.pop() {
        Some(driver) => Chosen::EveryClass(driver),
        None => {
            Chosen::ByProvider(named.into_iter().filter(|driver| providers.contains(&driver.name.as_str())).collect())
        }
    }
}

/// Those of our own program.
pub(crate) fn ours() -> Vec<BuiltIn> {
    vec![
        #[cfg(feature = "aws")]
        aws(),
        #[cfg(feature = "openstack")]
        openstack(),
        #[cfg(feature = "dev")]
        virtual_cloud(),
        #[cfg(feature = "dev")]
        host(),
        #[cfg(feature = "dev")]
        qemu(),
    ]
}

impl BuiltIn {
    /// The driver that the whole program is for.
    pub(crate) fn own(name: String, make: impl FnOnce(Host) -> Arc<dyn Driver> + Send + 'static) -> Self {
        Self { name, choice: cli::Choice::ByDefault, agent: "driver", make: Box::new(make) }
    }

    /// What the flags have to know of it.
    pub(crate) fn named(&self) -> cli::BuiltIn<'_> {
        cli::BuiltIn { name: &self.name, choice: self.choice }
    }

    /// The provider whose classes it serves.
    pub(crate) fn provider(&self) -> &str {
        &self.name
    }
}

#[cfg(feature = "aws")]
fn aws() -> BuiltIn {
    BuiltIn {
        name: driver_aws::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "aws-driver",
        make: Box::new(crate::aws::driver),
    }
}

#[cfg(feature = "openstack")]
fn openstack() -> BuiltIn {
    BuiltIn {
        name: driver_openstack::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "openstack-driver",
        make: Box::new(crate::openstack::driver),
    }
}

/// The cloud of our own program: virtual, with its kubelets if there is a cluster to join.
#[cfg(feature = "dev")]
fn virtual_cloud() -> BuiltIn {
    use driver_virtual::{Config, PROVIDER, VirtualCloud};

    let make = |host: Host| {
        let Host { clock, random, tasks, target, .. } = host;
        let cloud = VirtualCloud::new(Config::default(), Arc::new(move || clock.now()), random.number());
        if let Some(client) = target {
            let (cloud, stopping) = (cloud.clone(), tasks.stopping());
            tasks.spawn("kubelets", async move { cloud.run_nodes(client, stopping).await });
        }
        Arc::new(cloud) as Arc<dyn Driver>
    };
    BuiltIn {
        name: PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "virtual-kubelets",
        make: Box::new(make),
    }
}

/// Machines as namespaces of the host that this process runs on.
#[cfg(feature = "dev")]
fn host() -> BuiltIn {
    BuiltIn {
        name: lab_host::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "host-driver",
        make: Box::new(|_| Arc::new(host_driver())),
    }
}

/// The driver of this host, with the programs that this process would find.
#[cfg(feature = "dev")]
pub(crate) fn host_driver() -> lab_host::HostDriver {
    lab_host::HostDriver::new(lab_host::Settings { path: path() })
}

/// Virtual machines of the host that this process runs on.
#[cfg(feature = "dev")]
fn qemu() -> BuiltIn {
    BuiltIn {
        name: lab_qemu::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "qemu-driver",
        make: Box::new(|_| Arc::new(qemu_driver())),
    }
}

/// The driver of virtual machines of this host, with the programs that this process would find.
#[cfg(feature = "dev")]
pub(crate) fn qemu_driver() -> lab_qemu::QemuDriver {
    use lab_qemu::{Boot, QemuDriver, Settings};

    QemuDriver::new(Settings { path: path(), boot: Boot::AtOnce })
}

/// Where drivers in this process look for programs: where the process does.
#[cfg(feature = "dev")]
#[allow(clippy::disallowed_methods, reason = "the environment is the operator's, and read once")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
