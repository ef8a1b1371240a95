//! Builds requests: service, path and body.

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::catalogue::Service;

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A request to one service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiRequest {
    pub(crate) service: Service,
    pub(crate) method: Method,
    /// Path below the endpoint of the service, with its query.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl ApiRequest {
    fn new(service: Service, method: Method, path: &str, body: Option<Value>) -> Self {
        Self { service, method, path: path.to_owned(), body }
    }

    pub(crate) fn get(service: Service, path: &str) -> Self {
        Self::new(service, Method::GET, path, None)
    }

    pub(crate) fn post(service: Service, path: &str, body: Value) -> Self {
        Self::new(service, Method::POST, path, Some(body))
    }

    pub(crate) fn put(service: Service, path: &str, body: Value) -> Self {
        Self::new(service, Method::PUT, path, Some(body))
    }

    pub(crate) fn delete(service: Service, path: &str) -> Self {
        Self::new(service, Method::DELETE, path, None)
    }

    /// Returns the request with these query parameters.
    pub(crate) fn with(mut self, parameters: &[(&str, &str)]) -> Self {
        for (key, value) in parameters {
            self.path.push(if self.path.contains('?') { '&' } else { '?' });
            self.path.push_str(key);
            self.path.push('=');
            self.path.extend(utf8_percent_encode(value, KEPT));
        }
        self
    }
}

/// Lists the servers of this name and others: Nova matches the name as an unanchored pattern, and modified Novas search
/// for the literal text, where anchors would match nothing. Callers compare the names again.
pub(crate) fn servers_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Nova, "/servers/detail").with(&[("name", name)])
}

/// Lists all servers of the project: only administrators can search by metadata.
pub(crate) fn servers() -> ApiRequest {
    ApiRequest::get(Service::Nova, "/servers/detail")
}

pub(crate) fn server(id: &str) -> ApiRequest {
    ApiRequest::get(Service::Nova, &format!("/servers/{id}"))
}

pub(crate) fn delete_server(id: &str) -> ApiRequest {
    ApiRequest::delete(Service::Nova, &format!("/servers/{id}"))
}

pub(crate) fn flavors() -> ApiRequest {
    ApiRequest::get(Service::Nova, "/flavors")
}

pub(crate) fn images_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Glance, "/images").with(&[("name", name)])
}

pub(crate) fn networks_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, "/networks").with(&[("name", name), ("fields", "id"), ("fields", "name")])
}

pub(crate) fn security_groups_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, "/security-groups").with(&[("name", name), ("fields", "id"), ("fields", "name")])
}

pub(crate) fn ports_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, "/ports").with(&[("name", name)])
}

pub(crate) fn ports_of(server: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, "/ports").with(&[("device_id", server)])
}

/// Lists the unused ports of a network. A Neutron that ignores empty values returns all ports; callers check again.
pub(crate) fn ports_unused(network: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, "/ports").with(&[("network_id", network), ("device_id", "")])
}

pub(crate) fn port(id: &str) -> ApiRequest {
    ApiRequest::get(Service::Neutron, &format!("/ports/{id}"))
}

pub(crate) fn delete_port(id: &str) -> ApiRequest {
    ApiRequest::delete(Service::Neutron, &format!("/ports/{id}"))
}

pub(crate) fn volumes_named(name: &str) -> ApiRequest {
    ApiRequest::get(Service::Cinder, "/volumes/detail").with(&[("name", name)])
}

/// Lists the volumes with this metadata. Without it, thousands of persistent volumes may be in the list.
pub(crate) fn volumes_with(key: &str, value: &str) -> ApiRequest {
    let metadata = serde_json::json!({ key: value }).to_string();
    ApiRequest::get(Service::Cinder, "/volumes/detail").with(&[("metadata", &metadata)])
}

pub(crate) fn volume(id: &str) -> ApiRequest {
    ApiRequest::get(Service::Cinder, &format!("/volumes/{id}"))
}

pub(crate) fn delete_volume(id: &str) -> ApiRequest {
    ApiRequest::delete(Service::Cinder, &format!("/volumes/{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows OST-16.
    #[test]
    fn query_parameters_are_escaped() {
        assert_eq!(servers_named("a.b").path, "/servers/detail?name=a.b");
        assert_eq!(ports_unused("n").path, "/ports?network_id=n&device_id=");
        assert_eq!(volumes_with("k", "1").path, "/volumes/detail?metadata=%7B%22k%22%3A%221%22%7D");
        assert_eq!(images_named("a b&c").path, "/images?name=a%20b%26c");
    }
}
