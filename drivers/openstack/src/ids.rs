//! From names to ids.
//!
//! Classes name flavors, images, networks and security groups; requests need ids. They seldom change, so each is asked for once in a while
//! and not for every machine. A create that OpenStack calls a bad request forgets them: one may have been replaced under its name.

use std::collections::BTreeMap;
use std::time::Duration;

use driver::DriverError;
use driver_common::codes::During;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::answer::text;
use crate::codes::no_flavor;
use crate::request::{self, Ask};
use crate::session::Session;
use crate::spec::Spec;

/// How long an id is believed.
const BELIEVED_FOR: Duration = Duration::from_mins(10);

/// More names than that in one process are none that anybody waits for.
const MOST: usize = 10_000;

/// Whose, of which kind, by which name.
type Key = (String, &'static str, String);

/// The ids that are at hand.
#[derive(Debug, Default)]
pub(crate) struct Ids(Mutex<BTreeMap<Key, (String, Instant)>>);

impl Ids {
    fn known(&self, key: &Key) -> Option<String> {
        let known = self.0.lock();
        known.get(key).filter(|(_, until)| Instant::now() < *until).map(|(id, _)| id.clone())
    }

    fn learn(&self, key: Key, id: &str) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (id.to_owned(), Instant::now() + BELIEVED_FOR));
    }

    /// Forgets what is known of this account.
    pub(crate) fn forget(&self, account: &str) {
        self.0.lock().retain(|(of, _, _), _| of != account);
    }
}

/// What a server is made of, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) image: String,
    pub(crate) flavor: String,
    /// In the order of the class.
    pub(crate) networks: Vec<String>,
    /// Only for a port of our own: Nova takes names.
    pub(crate) security_groups: Vec<String>,
}

/// Everything that a server of this class is made of.
pub(crate) async fn resolve(session: &Session<'_>, spec: &Spec) -> Result<Resolved, DriverError> {
    let image = if spec.image_id.is_empty() {
        let ask = request::images_named(&spec.image_name);
        only(session, "images", &spec.image_name, ask, &spec.field("imageName")).await?
    } else {
        spec.image_id.clone()
    };
    let flavor = flavor(session, &spec.flavor_name).await?;
    let networks = networks(session, spec).await?;
    let mut security_groups = Vec::new();
    if spec.has_own_port() {
        for (at, name) in spec.security_groups.iter().enumerate() {
            let path = format!("{}[{at}]", spec.field("securityGroups"));
            let ask = request::security_groups_named(name);
            security_groups.push(only(session, "security_groups", name, ask, &path).await?);
        }
    }
    Ok(Resolved { image, flavor, networks, security_groups })
}

/// The ids of the networks of a class, in its order.
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

/// The ids of the networks in which pods have addresses.
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

/// Nova cannot be asked for a flavor by its name, so all of them are listed.
async fn flavor(session: &Session<'_>, name: &str) -> Result<String, DriverError> {
    let key = (session.account.clone(), "flavors", name.to_owned());
    if let Some(known) = session.cloud.ids.known(&key) {
        return Ok(known);
    }
    let flavors = session.list(&request::flavors(), "flavors", During::Create).await?;
    let found = flavors.iter().find(|flavor| text(flavor, "name") == name).ok_or_else(|| no_flavor(name))?;
    session.cloud.ids.learn(key, text(found, "id"));
    Ok(text(found, "id").to_owned())
}

/// The only one of this name; several are not chosen from.
async fn only(
    session: &Session<'_>,
    collection: &'static str,
    name: &str,
    ask: Ask,
    path: &str,
) -> Result<String, DriverError> {
    let key = (session.account.clone(), collection, name.to_owned());
    if let Some(known) = session.cloud.ids.known(&key) {
        return Ok(known);
    }
    let mut found = session.list(&ask, collection, During::Create).await?;
    found.retain(|one: &Value| text(one, "name") == name);
    match found.as_slice() {
        [one] => {
            session.cloud.ids.learn(key, text(one, "id"));
            Ok(text(one, "id").to_owned())
        }
        [] => Err(DriverError::invalid(format!("{path}: Invalid value: {name:?}: the project has none of this name"))),
        several => {
            let count = several.len();
            let told =
                format!("{path}: Invalid value: {name:?}: the project has {count} of this name; name one by its id");
            Err(DriverError::invalid(told))
        }
    }
}
