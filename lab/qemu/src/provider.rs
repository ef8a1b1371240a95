//! The driver calls.

use std::ffi::OsString;

use api::NodeAddress;
use api::names::secrets::USER_DATA;
use api::view::SecretData;
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners, Support,
    check_provider,
};
use driver_common::fault::Faults;
use lab_host_common::Scope;
use lab_host_common::identity::{named, provider_id};
use lab_host_common::state::{Access, lock};
use lab_host_common::tools::{self, Needed};

use crate::spec::{self, PROVIDER, REQUESTS};
use crate::vm::{QEMU, QEMU_IMG, Vm, Wanted};

/// Programs and their Debian packages.
const NEEDED: [Needed; 2] = [(QEMU, "qemu-system-x86"), (QEMU_IMG, "qemu-utils")];

/// Settings of the process for all MachineClasses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Search path of programs: the value of `PATH`.
    pub path: OsString,
    /// How machines start.
    pub boot: Boot,
}

/// How machines start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// It boots.
    Running,
    /// It stays paused until qemu receives `cont`, for tests of the driver.
    Paused,
}

/// The driver for virtual machines on this host.
pub struct QemuDriver {
    settings: Settings,
}

impl QemuDriver {
    /// Creates a driver for the host of this process.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Checks the requirements of the host.
    pub fn check(&self) -> Result<(), DriverError> {
        let programs = tools::Settings { path: self.settings.path.clone() };
        tools::check(None, &NEEDED, |program| programs.has(program))
    }
}

#[async_trait]
impl Driver for QemuDriver {
    fn capabilities(&self) -> Capabilities {
        // A running machine needs no initialization and has no attached volumes.
        Capabilities { initialize: Support::NotOffered, volume_ids: Support::NotOffered, ..Capabilities::ALL }
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        check_provider(PROVIDER, &request.class)?;
        let mut faults = Faults::default();
        let user_data = user_data(&request.secret, &mut faults);
        let (scope, spec) = spec::decode(&request.class.provider_spec, faults)?;
        let name = &named(request)?;
        self.check()?;
        let uid = request.machine.metadata.uid.as_str();
        let work = async {
            let lock = lock(&scope.state, Access::Change).await?;
            let wanted = Wanted { spec: &spec, uid, user_data, boot: self.settings.boot };
            Vm::new(&scope, name).create(&wanted, &lock).await?;
            let Found { provider_id, node_name, addresses } = found(&scope, name);
            Ok(Created { provider_id, node_name, last_known_state: None, addresses })
        };
        call.measure("machine_create", call.bound(work)).await
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let (scope, name) = &REQUESTS.looking(request)?;
        let timeout = spec::power_off_timeout(&request.class.provider_spec);
        let work = async {
            // If no machine was ever created on this host, its requirements are not checked.
            if scope.state.exists() {
                let vm = Vm::new(scope, name);
                vm.power_off(timeout).await;
                vm.delete(&lock(&scope.state, Access::Change).await?).await?;
            }
            Ok(Deleted::default())
        };
        call.measure("machine_delete", call.bound(work)).await
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (scope, name) = &REQUESTS.looking(request)?;
        let work = async {
            let _lock = scope.reading().await?;
            if !Vm::new(scope, name).was_made() {
                return Err(DriverError::not_found(format!("virtual machine {name:?} does not exist on the host")));
            }
            Ok(found(scope, name))
        };
        call.measure("machine_get", call.bound(work)).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        REQUESTS.list(call, request).await
    }
}

/// The address of the machine is not reachable from outside, because qemu translates it.
fn found(scope: &Scope, name: &str) -> Found {
    Found {
        provider_id: provider_id(PROVIDER, &scope.cluster, name),
        node_name: name.to_owned().into(),
        addresses: vec![NodeAddress { kind: "Hostname".into(), address: name.to_owned() }],
    }
}

/// Returns the user data of the first boot.
fn user_data<'a>(secret: &'a SecretData, faults: &mut Faults) -> &'a [u8] {
    let data = secret.get(USER_DATA).filter(|data| !data.is_empty());
    if data.is_none() {
        faults.required("secretRef.userData", "the user data for the first boot");
    }
    data.unwrap_or_default()
}
