//! Finds instances.

use std::collections::BTreeSet;

use driver::{Code, Created, DriverError, Found};
use driver_common::codes::During;
use driver_common::provider_spec::Scope;

use crate::answer::{self, Instance};
use crate::credentials::Session;
use crate::identity::provider_id;
use crate::launch::NAME_TAG;
use crate::query::{self, Query};

/// Returns the instances that are alive and carry both cluster tags, optionally only those of one machine. Names and
/// tags are checked again here, because the filter may be incomplete.
pub(crate) async fn by_tags(
    session: &Session<'_>,
    scope: &Scope,
    machine: Option<&str>,
    label: &'static str,
    during: During,
) -> Result<Vec<Instance>, DriverError> {
    let query = query::instances_by_tags(&scope.cluster_tags, machine);
    let mut found = pages(session, &query, label, during).await?;
    let mut seen = BTreeSet::new();
    found.retain(|instance| {
        let named = machine.is_none_or(|machine| instance.tags.get(NAME_TAG).is_some_and(|name| name == machine));
        named && instance.is_alive() && scope.cluster_tags.matches(&instance.tags) && seen.insert(instance.id.clone())
    });
    Ok(found)
}

/// Returns the instance with this id if it is alive. EC2 shows a terminated instance for up to an hour.
pub(crate) async fn by_id(
    session: &Session<'_>,
    id: &str,
    label: &'static str,
    during: During,
) -> Result<Option<Instance>, DriverError> {
    Ok(shown(session, id, label, during).await?.filter(Instance::is_alive))
}

/// Returns the instance with this id in any state, or `None` if EC2 does not show it. EC2 does not show a new instance
/// for a while.
pub(crate) async fn shown(
    session: &Session<'_>,
    id: &str,
    label: &'static str,
    during: During,
) -> Result<Option<Instance>, DriverError> {
    match session.send(label, &query::instances_by_id(id), during).await {
        Ok(answer) => Ok(answer::described(&answer).into_iter().find(|instance| instance.id == id)),
        Err(failed) if failed.is("InvalidInstanceID.NotFound") => Ok(None),
        Err(failed) => Err(failed.error),
    }
}

/// Reads all pages of a list. A repeated page token ends the loop.
async fn pages(
    session: &Session<'_>,
    query: &Query,
    label: &'static str,
    during: During,
) -> Result<Vec<Instance>, DriverError> {
    let (mut found, mut seen, mut token) = (Vec::new(), BTreeSet::new(), None::<String>);
    loop {
        let answer = session.send(label, &query.page(token.as_deref()), during).await?;
        found.extend(answer::described(&answer));
        match answer::next_page(&answer) {
            Some(next) if seen.insert(next.to_owned()) => token = Some(next.to_owned()),
            _ => return Ok(found),
        }
    }
}

/// Returns the only instance. Several are `OutOfRange`, which triggers the orphan VM check immediately.
pub(crate) fn only(mut found: Vec<Instance>, machine: &str) -> Result<Option<Instance>, DriverError> {
    if found.len() > 1 {
        let ids = found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("multiple VM instances found backing the machine {machine:?}: [{ids}]");
        return Err(DriverError::new(Code::OutOfRange, message));
    }
    Ok(found.pop())
}

pub(crate) fn found(region: &str, instance: &Instance) -> Found {
    Found {
        provider_id: provider_id(region, &instance.id),
        node_name: instance.private_dns.clone().into(),
        addresses: instance.addresses(),
    }
}

pub(crate) fn created(region: &str, instance: &Instance) -> Created {
    let Found { provider_id, node_name, addresses } = found(region, instance);
    Created { provider_id, node_name, last_known_state: None, addresses }
}
