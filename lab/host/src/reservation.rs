//! Reservation of capacity and an address for a machine.

use std::collections::BTreeSet;

use driver::{Code, DriverError};
use lab_host_common::budget::{Resources, lack};

use crate::record::Record;
use crate::spec::Spec;

/// Returns the record of a new machine. `others` are all other machines of the state directory.
pub(crate) fn reserve(spec: &Spec, uid: &str, others: &[Record], host: Resources) -> Result<Record, DriverError> {
    if let Some(lack) = lack(spec.size, others.iter().map(|record| record.size), spec.budget.or(host)) {
        return Err(DriverError::new(Code::ResourceExhausted, lack.to_string()));
    }
    let taken: BTreeSet<_> = others.iter().map(|record| record.address).chain(spec.gateway).collect();
    let address = spec.addresses.first_free(&taken).ok_or_else(|| {
        let message = format!("all addresses of {} are in use", spec.addresses);
        DriverError::new(Code::ResourceExhausted, message)
    })?;
    Ok(Record {
        uid: uid.to_owned(),
        address,
        size: spec.size,
        root_image: spec.root_image.clone(),
        bridge: spec.bridge.clone(),
    })
}

/// Fails if the existing machine has other properties than requested.
pub(crate) fn same(machine: &str, record: &Record, spec: &Spec, uid: &str) -> Result<(), DriverError> {
    let differs = if !uid.is_empty() && !record.uid.is_empty() && uid != record.uid {
        Some("was created for another Machine with this name")
    } else if record.root_image != spec.root_image {
        Some("has another root image")
    } else if record.size != spec.size {
        Some("has another size")
    } else if record.bridge != spec.bridge {
        Some("is connected to another bridge")
    } else {
        None
    };
    differs.map_or(Ok(()), |how| {
        Err(DriverError::new(Code::AlreadyExists, format!("machine {machine:?} on this host {how}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use driver_common::fault::Faults;
    use rstest::rstest;
    use serde_json::json;

    const HOST: Resources = Resources { cpu_millis: 2000, memory: 4 << 30 };

    fn spec() -> Spec {
        let value = json!({
            "cluster": "c", "rootImage": "/r", "cpu": "1", "memory": "1Gi", "bridge": "br0",
            "addresses": "10.77.1.0/29", "gateway": "10.77.1.1",
        });
        spec::decode(&value, Faults::default()).unwrap().1
    }

    /// Shows HST-8.
    #[test]
    fn machines_get_consecutive_addresses_until_the_budget_is_used() {
        let first = reserve(&spec(), "u", &[], HOST).unwrap();
        assert_eq!(first.address.to_string(), "10.77.1.2", "the gateway address is not assigned");
        let second = reserve(&spec(), "v", std::slice::from_ref(&first), HOST).unwrap();
        assert_eq!(second.address.to_string(), "10.77.1.3");
        let error = reserve(&spec(), "w", &[first, second], HOST).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert!(error.message().contains("1000m of CPU, but only 0m"), "{error}");
    }

    /// Shows HST-8.
    #[test]
    fn a_pool_without_a_free_address_is_resource_exhausted() {
        let endless = Resources { cpu_millis: u64::MAX, memory: u64::MAX };
        let mut all = Vec::new();
        let error = loop {
            match reserve(&spec(), "u", &all, endless) {
                Ok(record) => all.push(record),
                Err(error) => break error,
            }
        };
        assert_eq!((all.len(), error.code()), (5, Code::ResourceExhausted));
        assert_eq!(error.message(), "all addresses of 10.77.1.0/29 are in use");
    }

    /// Shows HST-9.
    #[rstest]
    #[case::the_same("u", |_: &mut Record| (), None)]
    #[case::a_request_without_uid("", |_: &mut Record| (), None)]
    #[case::another_machine("v", |_: &mut Record| (), Some("another Machine"))]
    #[case::root("u", |record: &mut Record| record.root_image = "/s".into(), Some("root image"))]
    #[case::size("u", |record: &mut Record| record.size.memory = 1, Some("size"))]
    #[case::bridge("u", |record: &mut Record| record.bridge = "br1".into(), Some("bridge"))]
    fn a_machine_with_other_properties_already_exists(
        #[case] uid: &str,
        #[case] change: fn(&mut Record),
        #[case] told: Option<&str>,
    ) {
        let mut record = reserve(&spec(), "u", &[], HOST).unwrap();
        change(&mut record);
        match (same("m", &record, &spec(), uid), told) {
            (Ok(()), None) => {}
            (Err(error), Some(told)) => {
                assert_eq!(error.code(), Code::AlreadyExists);
                assert!(error.message().contains(told), "{error}");
            }
            (answer, told) => panic!("{answer:?} instead of {told:?}"),
        }
    }
}
