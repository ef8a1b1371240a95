//! Parameters of driver calls.

use std::sync::Arc;

use api::view::SecretData;
use api::{Machine, MachineClass, Object, ProviderId};

use crate::DriverError;

/// Parameters of a call for one Machine. Cheap to clone.
///
/// To delete an orphan VM, the Machine is a stub with name, namespace and `spec.providerID` only. A driver must not depend on
/// labels, status or other fields, except `status.lastKnownState`, which is present if the Machine exists.
#[derive(Clone, Debug)]
pub struct MachineRequest {
    /// The Machine, or a stub.
    pub machine: Arc<Machine>,
    /// The MachineClass; the driver defines the content of `providerSpec`.
    pub class: Arc<MachineClass>,
    /// Credentials and user data, merged from the Secrets of the MachineClass.
    pub secret: Arc<SecretData>,
}

impl MachineRequest {
    /// Returns the name of the Machine; may be empty, which every driver rejects.
    pub fn machine_name(&self) -> &str {
        self.machine.name()
    }

    /// Returns the name of the Machine, or an error if it is empty.
    pub fn required_machine_name(&self) -> Result<&str, DriverError> {
        match self.machine_name() {
            "" => Err(DriverError::invalid("metadata.name: Required value: the Machine must have a name")),
            name => Ok(name),
        }
    }

    /// Returns the provider ID of the Machine, if any.
    pub fn provider_id(&self) -> Option<&ProviderId> {
        Some(&self.machine.spec.provider_id).filter(|id| !id.is_empty())
    }

    /// Returns the parameters for a call for the MachineClass.
    pub fn class_request(&self) -> ClassRequest {
        ClassRequest { class: self.class.clone(), secret: self.secret.clone() }
    }
}

/// Parameters of a call for all VMs of a MachineClass. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClassRequest {
    /// The MachineClass; its `providerSpec` selects the VMs.
    pub class: Arc<MachineClass>,
    /// Credentials, merged from the Secrets of the MachineClass.
    pub secret: Arc<SecretData>,
}

/// Rejects a MachineClass of another provider. Otherwise a `providerSpec` that can be decoded might create VMs in the wrong cloud.
pub fn check_provider(provider: &str, class: &MachineClass) -> Result<(), DriverError> {
    let found = &class.provider;
    if found == provider {
        return Ok(());
    }
    let message = format!(
        "provider: Unsupported value: {found:?}: this driver handles MachineClasses with provider {provider:?}"
    );
    Err(DriverError::invalid(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_of_another_provider_is_rejected() {
        let class = |provider: &str| MachineClass { provider: provider.into(), ..MachineClass::default() };
        assert!(check_provider("host", &class("host")).is_ok());
        let error = check_provider("host", &class("Host")).unwrap_err();
        let expected =
            "provider: Unsupported value: \"Host\": this driver handles MachineClasses with provider \"host\"";
        assert_eq!((error.code(), error.message()), (crate::Code::InvalidArgument, expected));
    }
}
