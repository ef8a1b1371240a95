//! Interpretation of requests, and the list call, which is the same in all drivers for machines on one host.

use api::MachineName;
use driver::{Call, ClassRequest, DriverError, MachineRequest, Owners, check_provider};

use crate::Scope;
use crate::fields;
use crate::identity::{machine_of, named, provider_id};

/// Requests of one provider.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Its name in MachineClasses and provider IDs.
    pub provider: &'static str,
    /// Its default state directory.
    pub state: &'static str,
}

impl Requests {
    /// Returns the scope and the name of the machine: by provider ID if the Machine has one, otherwise by name.
    pub fn looking(&self, request: &MachineRequest) -> Result<(Scope, String), DriverError> {
        check_provider(self.provider, &request.class)?;
        let scope = fields::scope_of(&request.class.provider_spec, self.state)?;
        let name = match request.provider_id() {
            Some(id) => machine_of(self.provider, id.as_str(), &scope.cluster)?,
            None => named(request)?,
        };
        Ok((scope, name))
    }

    /// Returns all machines of the cluster, including incomplete ones.
    pub async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        check_provider(self.provider, &request.class)?;
        let scope = &fields::scope_of(&request.class.provider_spec, self.state)?;
        let work = async {
            let _lock = scope.reading().await?;
            let machines = scope.machines()?.into_iter();
            Ok(machines
                .map(|name| (provider_id(self.provider, &scope.cluster, &name), MachineName::from(name)))
                .collect())
        };
        call.measure("machine_list", call.bound(work)).await
    }
}
