//! Service endpoints of a region from the Keystone catalog.

use driver::{Code, DriverError};
use serde_json::Value;

use crate::answer::{items, text};
use crate::codes;

/// An OpenStack service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Nova,
    Neutron,
    Glance,
    Cinder,
}

impl Service {
    /// Types in the catalog; the first one that exists is used.
    fn types(self) -> &'static [&'static str] {
        match self {
            Self::Nova => &["compute"],
            Self::Neutron => &["network"],
            Self::Glance => &["image"],
            Self::Cinder => &["volumev3", "block-storage", "block-store"],
        }
    }

    /// Version in the URL, which some catalogs omit.
    fn version(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nova => Some(("/v2", "/v2.1")),
            Self::Neutron => Some(("/v2.0", "/v2.0")),
            Self::Glance => Some(("/v2", "/v2")),
            Self::Cinder => None,
        }
    }

    /// The name of the JSON object in which the service reports that a resource does not exist. Glance has none.
    pub(crate) fn absence(self) -> Option<&'static str> {
        match self {
            Self::Nova | Self::Cinder => Some(codes::ITEM_NOT_FOUND),
            Self::Neutron => Some(codes::NEUTRON_ERROR),
            Self::Glance => None,
        }
    }

    /// Value of the metric label `service`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nova => "nova",
            Self::Neutron => "neutron",
            Self::Glance => "glance",
            Self::Cinder => "cinder",
        }
    }
}

/// One endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    kind: String,
    interface: String,
    region: String,
    url: String,
}

/// The endpoints of all services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue(Vec<Endpoint>);

impl Catalogue {
    pub(crate) fn read(catalog: &Value) -> Self {
        let mut all = Vec::new();
        for service in catalog.as_array().into_iter().flatten() {
            for endpoint in items(service, "endpoints") {
                let region = [text(endpoint, "region_id"), text(endpoint, "region")];
                all.push(Endpoint {
                    kind: text(service, "type").to_owned(),
                    interface: text(endpoint, "interface").to_owned(),
                    region: region.into_iter().find(|region| !region.is_empty()).unwrap_or_default().to_owned(),
                    url: text(endpoint, "url").trim_end_matches('/').to_owned(),
                });
            }
        }
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the URL of a service with its version and without a trailing slash.
    pub(crate) fn url(&self, service: Service, region: &str, interface: &str) -> Result<String, DriverError> {
        let here = |kind: &str| {
            self.0.iter().find(|one| one.kind == kind && one.region == region && one.interface == interface)
        };
        let Some(found) = service.types().iter().find_map(|kind| here(kind)) else {
            let message = format!(
                "the Keystone catalog has no {interface} endpoint for {} in region {region:?}; it has the regions [{}]",
                service.types().join(" or "),
                self.regions().join(", ")
            );
            return Err(DriverError::new(Code::FailedPrecondition, message));
        };
        Ok(match service.version() {
            Some((mark, version)) if !found.url.contains(mark) => format!("{}{version}", found.url),
            _ => found.url.clone(),
        })
    }

    fn regions(&self) -> Vec<&str> {
        let mut regions: Vec<_> = self.0.iter().map(|one| one.region.as_str()).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn catalogue() -> Catalogue {
        let at = |interface: &str, region: &str, url: &str| json!({ "interface": interface, "region": region, "region_id": region, "url": url });
        Catalogue::read(&json!([
            { "type": "compute", "endpoints": [at("internal", "one", "http://in/v2.1"), at("public", "one", "http://n/v2.1/"), at("public", "two", "http://n2")] },
            { "type": "network", "endpoints": [at("public", "one", "http://q")] },
            { "type": "image", "endpoints": [at("public", "one", "http://g/image/v2")] },
            { "type": "block-storage", "endpoints": [at("public", "one", "http://b/v3")] },
            { "type": "volumev3", "endpoints": [at("public", "one", "http://c/v3/p-1")] },
        ]))
    }

    /// Shows OST-4.
    #[rstest]
    #[case(Service::Nova, "one", "public", "http://n/v2.1")]
    #[case(Service::Nova, "one", "internal", "http://in/v2.1")]
    #[case(Service::Nova, "two", "public", "http://n2/v2.1")]
    #[case(Service::Neutron, "one", "public", "http://q/v2.0")]
    #[case(Service::Glance, "one", "public", "http://g/image/v2")]
    #[case(Service::Cinder, "one", "public", "http://c/v3/p-1")]
    fn endpoint_is_found_by_region_and_interface(
        #[case] service: Service,
        #[case] region: &str,
        #[case] interface: &str,
        #[case] url: &str,
    ) {
        assert_eq!(catalogue().url(service, region, interface).unwrap(), url);
    }

    /// Shows OST-4.
    #[test]
    fn unknown_region_is_reported_with_the_known_ones() {
        let error = catalogue().url(Service::Nova, "three", "public").unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.message().contains("[one, two]"), "{error}");
    }
}
