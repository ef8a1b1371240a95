//! What a driver is asked about.

use std::sync::Arc;

use api::view::SecretData;
use api::{Machine, MachineClass, Object, ProviderId};

use crate::DriverError;

/// A question about one machine. Cheap to clone.
///
/// The machine may be a stub with no more than name, namespace and `spec.providerID`: that is how a VM without a Machine is
/// deleted. A driver must not rely on its labels, status or other fields, except that `status.lastKnownState` is there when
/// the machine is.
#[derive(Clone, Debug)]
pub struct MachineRequest {
    /// The machine, or a stub of it.
    pub machine: Arc<Machine>,
    /// How its VM is to be made; `providerSpec` belongs to the driver.
    pub class: Arc<MachineClass>,
    /// Credentials and user data, merged from the Secrets the class names.
    pub secret: Arc<SecretData>,
}

impl MachineRequest {
    /// The machine's name; empty when the object has none, which every driver refuses.
    pub fn machine_name(&self) -> &str {
        self.machine.name()
    }

    /// The machine's name; an error when the object has none.
    pub fn required_machine_name(&self) -> Result<&str, DriverError> {
        match self.machine_name() {
            "" => Err(DriverError::invalid("metadata.name: Required value: a VM is made for a machine with a name")),
            name => Ok(name),
        }
    }

    /// The provider id the machine carries, if any.
    pub fn provider_id(&self) -> Option<&ProviderId> {
        Some(&self.machine.spec.provider_id).filter(|id| !id.is_empty())
    }

    /// The same question about the class alone.
    pub fn class_request(&self) -> ClassRequest {
        ClassRequest { class: self.class.clone(), secret: self.secret.clone() }
    }
}

/// A question about all VMs of a class. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClassRequest {
    /// The class whose `providerSpec` says where to look.
    pub class: Arc<MachineClass>,
    /// Credentials, merged from the Secrets the class names.
    pub secret: Arc<SecretData>,
}

/// Refuses a class that is for another driver: a `providerSpec` that happens to decode would make machines in the wrong place.
pub fn served_by(provider: &str, class: &MachineClass) -> Result<(), DriverError> {
    let asked = &class.provider;
    if asked == provider {
        return Ok(());
    }
    let message =
        format!("provider: Unsupported value: {asked:?}: this driver serves classes of provider {provider:?}");
    Err(DriverError::invalid(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_another_provider_is_refused_by_the_letter() {
        let class = |provider: &str| MachineClass { provider: provider.into(), ..MachineClass::default() };
        assert!(served_by("host", &class("host")).is_ok());
        let error = served_by("host", &class("Host")).unwrap_err();
        let told = "provider: Unsupported value: \"Host\": this driver serves classes of provider \"host\"";
        assert_eq!((error.code(), error.message()), (crate::Code::InvalidArgument, told));
    }
}
