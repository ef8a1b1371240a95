//! Converts results and failures between the protocol and the driver types.

use api::{MachineName, NodeAddress};
use driver::{Code, Created, Deleted, DriverError, Found, Owners};

use super::{Address, Failure, Owner, Vm};

/// Returns the error for an incomplete response. The effect in the cloud is unknown.
pub(crate) fn protocol_violation(what: &str) -> DriverError {
    DriverError::new(Code::Internal, format!("the driver violated the protocol: {what}"))
}

impl From<Found> for Vm {
    fn from(found: Found) -> Self {
        let address = |NodeAddress { kind, address, .. }| Address { r#type: kind, address };
        Self {
            provider_id: found.provider_id.into(),
            node_name: found.node_name.into(),
            addresses: found.addresses.into_iter().map(address).collect(),
        }
    }
}

/// Decodes a VM. Invalid names in it are checked by the caller, because the VM exists and incurs cost.
pub(crate) fn found(vm: Option<Vm>) -> Result<Found, DriverError> {
    let vm = vm.ok_or_else(|| protocol_violation("the response contains no VM"))?;
    let address = |Address { r#type, address }| NodeAddress { kind: r#type, address };
    Ok(Found {
        provider_id: vm.provider_id.into(),
        node_name: vm.node_name.into(),
        addresses: vm.addresses.into_iter().map(address).collect(),
    })
}

impl From<Created> for super::Created {
    fn from(created: Created) -> Self {
        let last_known_state = created.last_known_state.clone();
        Self { vm: Some(Found::from(created).into()), last_known_state }
    }
}

/// Decodes a created VM.
pub(crate) fn created(created: super::Created) -> Result<Created, DriverError> {
    let Found { provider_id, node_name, addresses } = found(created.vm)?;
    Ok(Created { provider_id, node_name, last_known_state: created.last_known_state, addresses })
}

impl From<Deleted> for super::Deleted {
    fn from(deleted: Deleted) -> Self {
        Self { last_known_state: deleted.last_known_state }
    }
}

impl From<super::Deleted> for Deleted {
    fn from(deleted: super::Deleted) -> Self {
        Self { last_known_state: deleted.last_known_state }
    }
}

impl From<Owners> for super::Owners {
    fn from(owners: Owners) -> Self {
        let owner =
            |(id, name): (api::ProviderId, MachineName)| Owner { provider_id: id.into(), machine_name: name.into() };
        Self { owners: owners.into_iter().map(owner).collect() }
    }
}

/// Decodes a list. A VM without a machine name would be deleted as orphan, so the whole list is rejected.
pub(crate) fn owners(owners: super::Owners) -> Result<Owners, DriverError> {
    let owner = |Owner { provider_id, machine_name }: Owner| match (provider_id.as_str(), machine_name.as_str()) {
        ("", _) => Err(protocol_violation("the list contains a VM without a provider id")),
        (_, "") => Err(protocol_violation("the list contains a VM without a machine name")),
        _ => Ok((provider_id.into(), machine_name.into())),
    };
    owners.owners.into_iter().map(owner).collect()
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self {
            code: i32::try_from(error.code().number()).unwrap_or(super::Code::Unknown as i32),
            message: error.message().to_owned(),
            last_known_state: error.last_known_state().map(str::to_owned),
            found: error.found().cloned().map(Into::into),
        }
    }
}

impl From<Failure> for DriverError {
    fn from(failure: Failure) -> Self {
        let code = match u32::try_from(failure.code).map(Code::from_number) {
            Ok(Code::Ok) | Err(_) => Code::Internal,
            Ok(code) => code,
        };
        let mut error = Self::new(code, failure.message);
        if let Some(state) = failure.last_known_state {
            error = error.with_last_known_state(state);
        }
        match found(failure.found) {
            Ok(found) => error.with_found(found),
            Err(_) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn vm() -> Found {
        let address = NodeAddress { kind: "InternalIP".into(), address: "10.0.0.1".into() };
        Found { provider_id: "virtual:///vm-1".into(), node_name: "n".into(), addresses: vec![address] }
    }

    /// Shows REM-7.
    #[test]
    fn every_code_keeps_its_number_and_name() {
        for code in Code::ALL.into_iter().filter(|code| *code != Code::Ok) {
            let failure = Failure::from(DriverError::new(code, "so it is"));
            let named = super::super::Code::try_from(failure.code).unwrap().as_str_name().replace("CODE_", "");
            assert_eq!(named.replace('_', ""), code.to_string().to_uppercase());
            let read = DriverError::from(failure);
            assert_eq!((read.code(), read.message()), (code, "so it is"));
        }
        let newer = DriverError::from(Failure { code: 42, ..Failure::default() });
        assert_eq!(newer.code(), Code::Other(42));
    }

    #[test]
    fn vm_of_a_failed_call_is_transferred() {
        let error = DriverError::new(Code::Uninitialized, "").with_found(vm()).with_last_known_state("half");
        let read = DriverError::from(Failure::from(error));
        assert_eq!((read.found(), read.last_known_state()), (Some(&vm()), Some("half")));
    }

    #[rstest]
    #[case(0)]
    #[case(-1)]
    fn failure_with_code_ok_is_not_a_success(#[case] code: i32) {
        assert_eq!(DriverError::from(Failure { code, ..Failure::default() }).code(), Code::Internal);
    }

    #[test]
    fn results_round_trip() {
        assert_eq!(found(Some(vm().into())).unwrap(), vm());
        let Found { provider_id, node_name, addresses } = vm();
        let made = Created { provider_id, node_name, addresses, last_known_state: Some(String::new()) };
        assert_eq!(created(made.clone().into()).unwrap(), made);
        let listed = Owners::from([("id-1".into(), "m-1".into()), ("id-2".into(), "m-2".into())]);
        assert_eq!(owners(listed.clone().into()).unwrap(), listed);
    }

    /// Shows REM-7.
    #[test]
    fn missing_vm_is_an_error_and_invalid_names_are_passed_on() {
        assert_eq!(found(None).unwrap_err().code(), Code::Internal);
        for bad in [Vm { provider_id: String::new(), ..vm().into() }, Vm { node_name: String::new(), ..vm().into() }] {
            assert!(found(Some(bad)).is_ok(), "it exists, so it must be known");
        }
    }

    #[test]
    fn any_bytes_are_a_result_or_a_protocol_violation() {
        use prost::Message;
        let found: super::super::Vm = vm().into();
        let made = super::super::Created { vm: Some(found.clone()), last_known_state: Some("half".into()) };
        let owner = Owner { provider_id: "id-1".into(), machine_name: "m-1".into() };
        let listed = super::super::Owners { owners: vec![owner.clone(), owner] };
        let failure = Failure::from(DriverError::new(Code::Uninitialized, "so it is").with_found(vm()));
        let corpus = [found.encode_to_vec(), made.encode_to_vec(), listed.encode_to_vec(), failure.encode_to_vec()];
        let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
        fuzz::fuzz(&corpus, |input| {
            if let Ok(answer) = super::super::Created::decode(input) {
                drop(created(answer));
            }
            if let Ok(answer) = super::super::Owners::decode(input)
                && let Ok(owners) = owners(answer)
            {
                assert!(owners.iter().all(|(id, machine)| !id.is_empty() && !machine.as_str().is_empty()));
            }
            if let Ok(answer) = Failure::decode(input) {
                assert_ne!(DriverError::from(answer).code(), Code::Ok, "a failure is never taken for a success");
            }
        });
    }

    /// Shows REM-7.
    #[test]
    fn list_with_a_nameless_vm_is_rejected() {
        let good = Owner { provider_id: "id-1".into(), machine_name: "m-1".into() };
        let nameless = Owner { provider_id: "id-2".into(), machine_name: String::new() };
        let listed = owners(super::super::Owners { owners: vec![good, nameless] });
        assert_eq!(listed.unwrap_err().code(), Code::Internal);
    }
}
