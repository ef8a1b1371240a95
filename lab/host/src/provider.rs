//! The driver calls.

use api::NodeAddress;
use api::names::secrets::USER_DATA;
use api::view::{PersistentVolumeSpec, SecretData};
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners, Support,
    check_provider,
};
use driver_common::fault::Faults;
use lab_host_common::Scope;
use lab_host_common::identity::{named, provider_id};
use lab_host_common::state::{Access, lock, remove_cluster};
use lab_host_common::tools::Settings;

use crate::machine::{Machine, Wanted, was_made};
use crate::record::Record;
use crate::spec::{self, PROVIDER, REQUESTS};
use crate::state::Files;
use crate::tools;
use crate::volumes;

/// The driver for machines on this host.
pub struct HostDriver {
    settings: Settings,
}

impl HostDriver {
    /// Creates a driver for the host of this process.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    fn check(&self) -> Result<(), DriverError> {
        tools::check(&self.settings)
    }
}

#[async_trait]
impl Driver for HostDriver {
    fn capabilities(&self) -> Capabilities {
        // A running machine needs no initialization.
        Capabilities { initialize: Support::NotOffered, ..Capabilities::ALL }
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
            let machine = Machine::new(&scope, name, lock(&scope.state, Access::Change).await?)?;
            let record = machine.create(&Wanted { spec: &spec, uid, user_data }).await?;
            let Found { provider_id, node_name, addresses } = found(&scope, name, &record);
            Ok(Created { provider_id, node_name, last_known_state: None, addresses })
        };
        call.measure("machine_create", call.bound(work)).await
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let (scope, name) = &REQUESTS.looking(request)?;
        let work = async {
            // If no machine was ever created on this host, its requirements are not checked.
            if !scope.state.exists() {
                return Ok(Deleted::default());
            }
            let lock = lock(&scope.state, Access::Change).await?;
            let home = Files::of(scope, name).home;
            if !home.exists() {
                remove_cluster(&home);
                return Ok(Deleted::default());
            }
            self.check()?;
            Machine::new(scope, name, lock)?.delete().await?;
            Ok(Deleted::default())
        };
        call.measure("machine_delete", call.bound(work)).await
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (scope, name) = &REQUESTS.looking(request)?;
        let work = async {
            let _lock = scope.reading().await?;
            let files = Files::of(scope, name);
            // An incomplete machine is not found, so that it is created again, but it is listed. A machine that has
            // exited still exists, like a VM that is powered off.
            let record = if was_made(&files) { files.read_record()? } else { None };
            let record =
                record.ok_or_else(|| DriverError::not_found(format!("machine {name:?} does not exist on the host")))?;
            Ok(found(scope, name, &record))
        };
        call.measure("machine_get", call.bound(work)).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        REQUESTS.list(call, request).await
    }

    async fn volume_ids(&self, _call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        Ok(volumes::ids(volumes))
    }
}

fn found(scope: &Scope, name: &str, record: &Record) -> Found {
    let address = |kind: &str, address: String| NodeAddress { kind: kind.into(), address };
    Found {
        provider_id: provider_id(PROVIDER, &scope.cluster, name),
        node_name: name.to_owned().into(),
        addresses: vec![address("InternalIP", record.address.to_string()), address("Hostname", name.to_owned())],
    }
}

/// Returns the user data. It must be a program, because a machine can interpret nothing else.
fn user_data<'a>(secret: &'a SecretData, faults: &mut Faults) -> &'a [u8] {
    match secret.get(USER_DATA).filter(|data| !data.is_empty()) {
        None => faults.required("secretRef.userData", "the program that a machine runs first"),
        Some(data) if !data.starts_with(b"#!") => {
            faults.forbidden("secretRef.userData", "must begin with #! and an interpreter of the root image");
        }
        Some(data) => return data,
    }
    &[]
}
