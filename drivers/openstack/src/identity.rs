//! Conversion between OpenStack resources and provider ids.
//!
//! A server, its port and its root disk have the machine's name. A port or a volume without a server is listed for
//! orphan deletion under its own id, which has one part more than the id of a server.

use api::ProviderId;
use driver::DriverError;

/// Metadata key with the uid of the Machine for which a server was created.
pub(crate) const UID: &str = "millwright-machine-uid";

/// The resource that a provider id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Server(&'a str),
    /// A port without its server.
    Port(&'a str),
    /// A volume without its server.
    Volume(&'a str),
}

/// Returns the provider id of a resource in a region.
pub(crate) fn provider_id(region: &str, resource: Resource<'_>) -> ProviderId {
    ProviderId::from(match resource {
        Resource::Server(id) => format!("openstack:///{region}/{id}"),
        Resource::Port(id) => format!("openstack:///{region}/port/{id}"),
        Resource::Volume(id) => format!("openstack:///{region}/volume/{id}"),
    })
}

/// Returns the resource of a provider id: its last part. The region in it is ignored; the class defines the region.
pub(crate) fn resource(provider_id: &str) -> Result<Resource<'_>, DriverError> {
    let mut parts = provider_id.rsplit('/');
    let id = parts.next().unwrap_or_default();
    let is_id = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    match (is_id, parts.next(), parts.next()) {
        (true, Some("port"), Some(region)) if !region.is_empty() => Ok(Resource::Port(id)),
        (true, Some("volume"), Some(region)) if !region.is_empty() => Ok(Resource::Volume(id)),
        (true, _, _) => Ok(Resource::Server(id)),
        (false, _, _) => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: must have the form openstack:///<region>/<server id>"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows OST-8.
    #[rstest]
    #[case("openstack:///RegionOne/s-1", Some(Resource::Server("s-1")))]
    #[case("openstack:///port/s-1", Some(Resource::Server("s-1")))]
    #[case("openstack:///s-1", Some(Resource::Server("s-1")))]
    #[case("s-1", Some(Resource::Server("s-1")))]
    #[case("openstack:///RegionOne/port/p-1", Some(Resource::Port("p-1")))]
    #[case("openstack:///volume/volume/v-1", Some(Resource::Volume("v-1")))]
    #[case("openstack:///RegionOne/", None)]
    #[case("openstack:///RegionOne/s 1?x", None)]
    #[case("", None)]
    fn last_part_of_a_provider_id_is_the_resource_id(#[case] id: &str, #[case] named: Option<Resource<'_>>) {
        assert_eq!(resource(id).ok(), named);
    }

    /// Shows OST-8.
    #[test]
    fn provider_id_round_trips() {
        for named in [Resource::Server("a"), Resource::Port("b"), Resource::Volume("c")] {
            assert_eq!(resource(provider_id("port", named).as_str()).unwrap(), named);
        }
    }
}
