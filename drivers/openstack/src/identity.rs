//! How servers and machines name each other.
//!
//! A server, its port and its root disk have the machine's name. A port or a volume whose server never came is listed for the collection of
//! orphans under an id of its own, which has one part more than that of a server.

use api::ProviderId;
use driver::DriverError;

/// The key of the metadata that holds the uid of the Machine a server was made for.
pub(crate) const UID: &str = "millwright-machine-uid";

/// What a provider id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing<'a> {
    Server(&'a str),
    /// Made for a server that is not there.
    Port(&'a str),
    /// Made for a server that is not there.
    Volume(&'a str),
}

/// The provider id of something in a region.
pub(crate) fn provider_id(region: &str, thing: Thing<'_>) -> ProviderId {
    ProviderId::from(match thing {
        Thing::Server(id) => format!("openstack:///{region}/{id}"),
        Thing::Port(id) => format!("openstack:///{region}/port/{id}"),
        Thing::Volume(id) => format!("openstack:///{region}/volume/{id}"),
    })
}

/// What a provider id names: its last part. The region in it is not looked at; the class says where to look.
pub(crate) fn thing(provider_id: &str) -> Result<Thing<'_>, DriverError> {
    let mut parts = provider_id.rsplit('/');
    let id = parts.next().unwrap_or_default();
    let is_id = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    match (is_id, parts.next(), parts.next()) {
        (true, Some("port"), Some(region)) if !region.is_empty() => Ok(Thing::Port(id)),
        (true, Some("volume"), Some(region)) if !region.is_empty() => Ok(Thing::Volume(id)),
        (true, _, _) => Ok(Thing::Server(id)),
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
    #[case("openstack:///RegionOne/s-1", Some(Thing::Server("s-1")))]
    #[case("openstack:///port/s-1", Some(Thing::Server("s-1")))]
    #[case("openstack:///s-1", Some(Thing::Server("s-1")))]
    #[case("s-1", Some(Thing::Server("s-1")))]
    #[case("openstack:///RegionOne/port/p-1", Some(Thing::Port("p-1")))]
    #[case("openstack:///volume/volume/v-1", Some(Thing::Volume("v-1")))]
    #[case("openstack:///RegionOne/", None)]
    #[case("openstack:///RegionOne/s 1?x", None)]
    #[case("", None)]
    fn the_last_part_of_a_provider_id_is_the_server(#[case] id: &str, #[case] named: Option<Thing<'_>>) {
        assert_eq!(thing(id).ok(), named);
    }

    /// Shows OST-8.
    #[test]
    fn a_provider_id_reads_back_as_what_it_names() {
        for named in [Thing::Server("a"), Thing::Port("b"), Thing::Volume("c")] {
            assert_eq!(thing(provider_id("port", named).as_str()).unwrap(), named);
        }
    }
}
