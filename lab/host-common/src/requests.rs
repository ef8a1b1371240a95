//! What a request is about, and the one call that every driver of machines on one host answers alike.

use api::MachineName;
use driver::{Call, ClassRequest, DriverError, MachineRequest, Owners, check_provider};

use crate::Scope;
use crate::fields;
use crate::identity::{machine_of, named, provider_id};

/// Requests to one provider.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Its name, as classes and provider ids have it.
    pub provider: &'static str,
    /// Its state directory, for classes that do not say.
    pub state: &'static str,
}

impl Requests {
    /// Where to look, and for whom: by provider id where the machine knows it, else by name.
    pub fn looking(&self, request: &MachineRequest) -> Result<(Scope, String), DriverError> {
        check_provider(self.provider, &request.class)?;
        let scope = fields::scope_of(&request.class.provider_spec, self.state)?;
        let name = match request.provider_id() {
            Some(id) => machine_of(self.provider, id.as_str(), &scope.cluster)?,
            None => named(request)?,
        };
        Ok((scope, name))
    }

    /// All machines of the cluster, those that were begun and never made in full among them.
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
