//! Reservation of capacity, and comparison of an existing machine with a request.

use driver::{Code, DriverError};
use lab_host_common::budget::{Resources, lack};

use crate::record::Record;
use crate::spec::Spec;

/// Returns the record of a new machine. `others` are all other machines of the state directory.
pub(crate) fn reserve(spec: &Spec, uid: &str, others: &[Record], host: Resources) -> Result<Record, DriverError> {
    if let Some(lack) = lack(spec.size, others.iter().map(|record| record.size), spec.budget.or(host)) {
        return Err(DriverError::new(Code::ResourceExhausted, lack.to_string()));
    }
    Ok(Record { uid: uid.to_owned(), size: spec.size, image: spec.image.clone() })
}

/// Fails if the existing machine has other properties than requested.
pub(crate) fn same(machine: &str, record: &Record, spec: &Spec, uid: &str) -> Result<(), DriverError> {
    let differs = if !uid.is_empty() && !record.uid.is_empty() && uid != record.uid {
        Some("was created for another Machine with this name")
    } else if record.image != spec.image {
        Some("has another image")
    } else if record.size != spec.size {
        Some("has another size")
    } else {
        None
    };
    differs.map_or(Ok(()), |how| {
        Err(DriverError::new(Code::AlreadyExists, format!("virtual machine {machine:?} on this host {how}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver_common::fault::Faults;
    use rstest::rstest;
    use serde_json::json;

    const HOST: Resources = Resources { cpu_millis: 2000, memory: 4 << 30 };

    fn spec() -> Spec {
        let value = json!({ "cluster": "c", "image": "/i", "cpu": "1", "memory": "1Gi" });
        crate::spec::decode(&value, Faults::default()).unwrap().1
    }

    /// Shows HST-25.
    #[test]
    fn an_exceeded_budget_is_resource_exhausted() {
        let first = reserve(&spec(), "u", &[], HOST).unwrap();
        let others = [first.clone(), first];
        assert!(reserve(&spec(), "v", &others[..1], HOST).is_ok());
        assert_eq!(reserve(&spec(), "w", &others, HOST).unwrap_err().code(), Code::ResourceExhausted);
    }

    /// Shows HST-25.
    #[rstest]
    #[case::the_same("u", |_: &mut Record| (), None)]
    #[case::a_request_without_uid("", |_: &mut Record| (), None)]
    #[case::another_machine("v", |_: &mut Record| (), Some("another Machine"))]
    #[case::image("u", |record: &mut Record| record.image = "/j".into(), Some("image"))]
    #[case::size("u", |record: &mut Record| record.size.memory = 1, Some("size"))]
    fn a_virtual_machine_with_other_properties_already_exists(
        #[case] uid: &str,
        #[case] change: fn(&mut Record),
        #[case] told: Option<&str>,
    ) {
        let mut record = reserve(&spec(), "u", &[], HOST).unwrap();
        change(&mut record);
        let refused = same("m", &record, &spec(), uid).err();
        assert_eq!(refused.as_ref().map(DriverError::code), told.map(|_| Code::AlreadyExists));
        assert!(refused.is_none_or(|error| error.message().contains(told.unwrap())));
    }
}
