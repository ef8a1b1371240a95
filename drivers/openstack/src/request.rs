//! Requests: which service, which path, which body.

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::catalogue::Service;

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A request to one service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ask {
    pub(crate) service: Service,
    pub(crate) method: Method,
    /// Below the service's address, with its query.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Ask {
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

    /// The same with parameters.
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

/// The servers of this name, and others: Nova takes the name for a pattern that may match anywhere, clouds that changed Nova search for
/// the letters. Anchors would find nothing there. Names are compared again.
pub(crate) fn servers_named(name: &str) -> Ask {
    Ask::get(Service::Nova, "/servers/detail").with(&[("name", name)])
}

/// All servers of the project: Nova lets nobody but administrators search their metadata.
pub(crate) fn servers() -> Ask {
    Ask::get(Service::Nova, "/servers/detail")
}

pub(crate) fn server(id: &str) -> Ask {
    Ask::get(Service::Nova, &format!("/servers/{id}"))
}

pub(crate) fn delete_server(id: &str) -> Ask {
    Ask::delete(Service::Nova, &format!("/servers/{id}"))
}

pub(crate) fn flavors() -> Ask {
    Ask::get(Service::Nova, "/flavors")
}

pub(crate) fn images_named(name: &str) -> Ask {
    Ask::get(Service::Glance, "/images").with(&[("name", name)])
}

pub(crate) fn networks_named(name: &str) -> Ask {
    Ask::get(Service::Neutron, "/networks").with(&[("name", name), ("fields", "id"), ("fields", "name")])
}

pub(crate) fn security_groups_named(name: &str) -> Ask {
    Ask::get(Service::Neutron, "/security-groups").with(&[("name", name), ("fields", "id"), ("fields", "name")])
}

pub(crate) fn ports_named(name: &str) -> Ask {
    Ask::get(Service::Neutron, "/ports").with(&[("name", name)])
}

pub(crate) fn ports_of(server: &str) -> Ask {
    Ask::get(Service::Neutron, "/ports").with(&[("device_id", server)])
}

/// The ports of a network that nobody uses. A Neutron that ignores empty values answers with all of them; they are looked at again.
pub(crate) fn ports_unused(network: &str) -> Ask {
    Ask::get(Service::Neutron, "/ports").with(&[("network_id", network), ("device_id", "")])
}

pub(crate) fn port(id: &str) -> Ask {
    Ask::get(Service::Neutron, &format!("/ports/{id}"))
}

pub(crate) fn delete_port(id: &str) -> Ask {
    Ask::delete(Service::Neutron, &format!("/ports/{id}"))
}

pub(crate) fn volumes_named(name: &str) -> Ask {
    Ask::get(Service::Cinder, "/volumes/detail").with(&[("name", name)])
}

/// The volumes with this metadata. Persistent volumes are in the same list, and there may be thousands of them.
pub(crate) fn volumes_with(key: &str, value: &str) -> Ask {
    let metadata = serde_json::json!({ key: value }).to_string();
    Ask::get(Service::Cinder, "/volumes/detail").with(&[("metadata", &metadata)])
}

pub(crate) fn volume(id: &str) -> Ask {
    Ask::get(Service::Cinder, &format!("/volumes/{id}"))
}

pub(crate) fn delete_volume(id: &str) -> Ask {
    Ask::delete(Service::Cinder, &format!("/volumes/{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows OST-16.
    #[test]
    fn parameters_are_escaped() {
        assert_eq!(servers_named("a.b").path, "/servers/detail?name=a.b");
        assert_eq!(ports_unused("n").path, "/ports?network_id=n&device_id=");
        assert_eq!(volumes_with("k", "1").path, "/volumes/detail?metadata=%7B%22k%22%3A%221%22%7D");
        assert_eq!(images_named("a b&c").path, "/images?name=a%20b%26c");
    }
}
