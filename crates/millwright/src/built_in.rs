//! The drivers that are built into a program.
//!
//! A driver written in Rust needs no process of its own. [`run`](fn@crate::run) and [`run_with`](crate::run_with) turn
//! it into a program that has all commands and flags of `millwright` and creates VMs in its cloud, as the binary of an
//! MCM provider does. The `millwright` program itself contains the drivers that cargo features select: AWS (`aws`),
//! OpenStack (`openstack`), the virtual cloud, the host and qemu virtual machines (`dev`). Each of these must be
//! enabled with `--provider` and handles the MachineClasses with that provider.

use std::sync::Arc;

use driver::Driver;
use runtime::{Clock, Random, Tasks};

use crate::OtherClusters;
use crate::cli;

/// Resources of the process that a built-in driver may use.
#[non_exhaustive]
pub struct Host {
    /// Clock.
    pub clock: Clock,
    /// Source of randomness for this driver only.
    pub random: Random,
    /// Background tasks of the driver. They end with the controllers.
    pub tasks: Tasks,
    /// Client for the target cluster, if there is one. Most drivers need none.
    pub target: Option<kube::Client>,
    /// Client for the control cluster, if the driver runs in a process of the controllers.
    pub control: Option<kube::Client>,
    /// Clients for clusters whose kubeconfig is in a Secret.
    pub others: OtherClusters,
}

/// Creates the driver after the resources that it may use are available.
type Make = Box<dyn FnOnce(Host) -> Arc<dyn Driver> + Send>;

/// A built-in driver.
pub(crate) struct BuiltIn {
    name: String,
    choice: cli::Choice,
    /// Suffix of the user agent of its clients.
    pub(crate) agent: &'static str,
    pub(crate) make: Make,
}

/// The enabled drivers, and the MachineClasses that they handle.
pub(crate) enum Selection {
    /// One driver for all MachineClasses, in a program that is built for it.
    EveryClass(BuiltIn),
    /// Drivers that each handle the MachineClasses of their provider.
    ByProvider(Vec<BuiltIn>),
}

/// Returns the drivers that `--provider` enables. Unknown names were rejected with the flags.
pub(crate) fn select(built_in: Vec<BuiltIn>, providers: &[&str]) -> Selection {
    let (mut whole, named): (Vec<_>, Vec<_>) =
        built_in.into_iter().partition(|driver| driver.choice == cli::Choice::ByDefault);
    match whole.pop() {
        Some(driver) => Selection::EveryClass(driver),
        None => Selection::ByProvider(
            named.into_iter().filter(|driver| providers.contains(&driver.name.as_str())).collect(),
        ),
    }
}

/// Returns the drivers of the `millwright` program.
pub(crate) fn millwright_drivers() -> Vec<BuiltIn> {
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
    /// Returns the only driver of a program that is built for it.
    pub(crate) fn for_program(name: String, make: impl FnOnce(Host) -> Arc<dyn Driver> + Send + 'static) -> Self {
        Self { name, choice: cli::Choice::ByDefault, agent: "driver", make: Box::new(make) }
    }

    /// Returns what the validation of the flags needs.
    pub(crate) fn for_flags(&self) -> cli::BuiltIn<'_> {
        cli::BuiltIn { name: &self.name, choice: self.choice }
    }

    /// Returns the provider whose MachineClasses the driver handles.
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

/// Returns the virtual cloud. Its kubelets run if there is a target cluster.
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

/// Returns the driver that creates Machines as namespaces of this host.
#[cfg(feature = "dev")]
fn host() -> BuiltIn {
    BuiltIn {
        name: lab_host::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "host-driver",
        make: Box::new(|_| Arc::new(host_driver())),
    }
}

/// Creates the driver of this host. It finds programs in the PATH of the process.
#[cfg(feature = "dev")]
pub(crate) fn host_driver() -> lab_host::HostDriver {
    lab_host::HostDriver::new(lab_host::Settings { path: path() })
}

/// Returns the driver that creates qemu virtual machines on this host.
#[cfg(feature = "dev")]
fn qemu() -> BuiltIn {
    BuiltIn {
        name: lab_qemu::PROVIDER.to_owned(),
        choice: cli::Choice::OnRequest,
        agent: "qemu-driver",
        make: Box::new(|_| Arc::new(qemu_driver())),
    }
}

/// Creates the driver of virtual machines on this host. It finds programs in the PATH of the process.
#[cfg(feature = "dev")]
pub(crate) fn qemu_driver() -> lab_qemu::QemuDriver {
    use lab_qemu::{Boot, QemuDriver, Settings};

    QemuDriver::new(Settings { path: path(), boot: Boot::Running })
}

/// Returns the PATH of the process, in which built-in drivers find programs.
#[cfg(feature = "dev")]
#[allow(clippy::disallowed_methods, reason = "the environment is read only once, here")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
