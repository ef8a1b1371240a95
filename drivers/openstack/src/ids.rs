//! Resolves names to ids.
//!
//! Classes name flavors, images, networks and security groups; requests need ids. Names rarely change, so ids are
//! cached instead of requested for every machine. If OpenStack rejects a create as invalid, the cached ids are dropped,
//! because a resource may have been replaced under the same name.

use std::collections::BTreeMap;
use std::time::Duration;

use driver::DriverError;
use driver_common::codes::During;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::answer::text;
use crate::codes::no_flavor;
use crate::request::{self, ApiRequest};
use crate::session::Session;
use crate::spec::Spec;

/// Lifetime of a cached id.
const TTL: Duration = Duration::from_mins(10);

/// Maximum number of cached ids.
const MAX_IDS: usize = 10_000;

/// Account, collection and name.
type Key = (String, &'static str, String);

/// Cached ids by name.
#[derive(Debug, Default)]
pub(crate) struct Ids(Mutex<BTreeMap<Key, (String, Instant)>>);

impl Ids {
    fn known(&self, key: &Key) -> Option<String> {
        let known = self.0.lock();
        known.get(key).filter(|(_, until)| Instant::now() < *until).map(|(id, _)| id.clone())
    }

    fn insert(&self, key: Key, id: &str) {
        let mut known = self.0.lock();
        if known.len() >= MAX_IDS {
            known.clear();
        }
        known.insert(key, (id.to_owned(), Instant::now() + TTL));
    }

    /// Drops the cached ids of this account.
    pub(crate) fn forget(&self, account: &str) {
        self.0.lock().retain(|(of, _, _), _| of != account);
    }
}

/// The ids of the resources of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) image: String,
    pub(crate) flavor: String,
    /// In the order of the class.
    pub(crate) networks: Vec<String>,
    /// Only for a port created by the driver: Nova accepts names.
    pub(crate) security_groups: Vec<String>,
}

/// Resolves all resources of a class.
pub(crate) async fn resolve(session: &Session<'_>, spec: &Spec) -> Result<Resolved, DriverError> {
    let image = if spec.image_id.is_empty() {
        let api_request = request::images_named(&spec.image_name);
        only(session, "images", &spec.image_name, api_request, &spec.field("imageName")).await?
    } else {
        spec.image_id.clone()
    };
    let flavor = flavor(session, &spec.flavor_name).await?;
    let networks = networks(session, spec).await?;
    let mut security_groups = Vec::new();
    if spec.has_own_port() {
        for (at, name) in spec.security_groups.iter().enumerate() {
            let path = format!("{}[{at}]", spec.field("securityGroups"));
            let api_request = request::security_groups_named(name);
            security_groups.push(only(session, "security_groups", name, api_request, &path).await?);
        }
    }
    Ok(Resolved { image, flavor, networks, security_groups })
}

/// Returns the ids of the networks of a class, in its order.
async fn networks(session: &Session<'_>, spec: &Spec) -> Result<Vec<String>, DriverError> {
    if !spec.network_id.is_empty() {
        return Ok(vec![spec.network_id.clone()]);
    }
    let mut ids = Vec::new();
    for (at, network) in spec.networks.iter().enumerate() {
        ids.push(network_id(session, spec, at, &network.id, &network.name).await?);
    }
    Ok(ids)
}

/// Returns the ids of the pod networks.
pub(crate) async fn pod_networks(session: &Session<'_>, spec: &Spec) -> Result<Vec<String>, DriverError> {
    if !spec.network_id.is_empty() {
        return Ok(vec![spec.network_id.clone()]);
    }
    let mut ids = Vec::new();
    for (at, network) in spec.networks.iter().enumerate().filter(|(_, network)| network.pods) {
        ids.push(network_id(session, spec, at, &network.id, &network.name).await?);
    }
    Ok(ids)
}

async fn network_id(
    session: &Session<'_>,
    spec: &Spec,
    at: usize,
    id: &str,
    name: &str,
) -> Result<String, DriverError> {
    if !id.is_empty() {
        return Ok(id.to_owned());
    }
    let path = format!("{}[{at}].name", spec.field("networks"));
    only(session, "networks", name, request::networks_named(name), &path).await
}

/// Nova cannot filter flavors by name, so all of them are listed.
async fn flavor(session: &Session<'_>, name: &str) -> Result<String, DriverError> {
    let key = (session.account.clone(), "flavors", name.to_owned());
    if let Some(known) = session.cloud.ids.known(&key) {
        return Ok(known);
    }
    let flavors = session.list(&request::flavors(), "flavors", During::Create).await?;
    let found = flavors.iter().find(|flavor| text(flavor, "name") == name).ok_or_else(|| no_flavor(name))?;
    session.cloud.ids.insert(key, text(found, "id"));
    Ok(text(found, "id").to_owned())
}

/// Returns the id of the only resource with this name. Several are an error.
async fn only(
    session: &Session<'_>,
    collection: &'static str,
    name: &str,
    api_request: ApiRequest,
    path: &str,
) -> Result<String, DriverError> {
    let key = (session.account.clone(), collection, name.to_owned());
    if let Some(known) = session.cloud.ids.known(&key) {
        return Ok(known);
    }
    let mut found = session.list(&api_request, collection, During::Create).await?;
    found.retain(|one: &Value| text(one, "name") == name);
    match found.as_slice() {
        [one] => {
            session.cloud.ids.insert(key, text(one, "id"));
            Ok(text(one, "id").to_owned())
        }
        [] => Err(DriverError::invalid(format!(
            "{path}: Invalid value: {name:?}: the project has no resource with this name"
        ))),
        several => {
            let count = several.len();
            let message = format!(
                "{path}: Invalid value: {name:?}: the project has {count} resources with this name; specify the id instead"
            );
            Err(DriverError::invalid(message))
        }
    }
}
