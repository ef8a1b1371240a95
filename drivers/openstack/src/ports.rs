//! Ports and volumes that are created before their server.
//!
//! They can outlive the server, and a process may end between creating them and creating the server. Their first
//! request therefore names the owner, they are found again by name, and a delete removes them with or without a server.
//!
//! The reference tags a port in a second request, and adopts an existing port of the machine's name without tagging it.
//! Such a port has no mark of a cluster. While it is bound, the name and the server identify it as the machine's port.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use backoff::Exponential;
use driver::{Code, DriverError};
use driver_common::codes::During;
use driver_common::owned::ClusterTags;
use driver_common::poll::{Poll, Waited};

use crate::answer::{Port, Volume};
use crate::bodies::{self, Owner};
use crate::catalogue::Service;
use crate::ids::Resolved;
use crate::request::{self, ApiRequest};
use crate::session::{Failed, Session};
use crate::spec::{CLUSTER_PATTERN, Spec};

/// Wait until Cinder has created a volume. The reference waits equally long.
const VOLUME: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(5)),
    timeout: Duration::from_mins(20),
};

/// Maximum duration for which Cinder may reject the deletion of a volume within one call. Nova detaches a volume before
/// its server is gone, so a longer rejection has another cause, such as dependent snapshots.
const DETACHED: Poll = Poll { timeout: Duration::from_mins(1), ..VOLUME };

/// Returns whether a port belongs to the cluster: by its tags, or by its description if it has none.
pub(crate) fn is_our_port(port: &Port, cluster_tags: &ClusterTags) -> bool {
    is_tagged(port, cluster_tags) || port.description == bodies::description(cluster_tags)
}

/// Returns whether a port has no mark of any cluster, so that it may be adopted.
fn is_unmarked(port: &Port) -> bool {
    let of_a_cluster = |tag: &String| tag.contains(CLUSTER_PATTERN);
    !port.tags.iter().any(of_a_cluster) && !bodies::is_description(&port.description)
}

/// Selects the port for a server among those of the machine's name: an unused one in the network of the class. A port
/// of this cluster is preferred to one without a mark of any cluster.
fn usable(ports: Vec<Port>, network: &str, cluster_tags: &ClusterTags) -> Option<Port> {
    let unused = ports.into_iter().filter(|port| port.network == network && port.device.is_empty());
    let (ours, others): (Vec<Port>, Vec<Port>) = unused.partition(|port| is_our_port(port, cluster_tags));
    ours.into_iter().chain(others.into_iter().filter(is_unmarked)).next()
}

/// Returns the port for a server: an existing one of an earlier attempt or of the reference, or a new one.
pub(crate) async fn port_for(
    session: &Session<'_>,
    spec: &Spec,
    owner: Owner<'_>,
    resolved: &Resolved,
) -> Result<String, Failed> {
    let there = ports_named(session, owner.machine, During::Create).await?;
    let port = if let Some(port) = usable(there, &spec.network_id, owner.cluster_tags) {
        port
    } else {
        let api_request = ApiRequest::post(Service::Neutron, "/ports", bodies::port(spec, owner, resolved));
        let answer = session.execute(&api_request, During::Create).await?;
        let port = answer.get("port").and_then(Port::read);
        port.ok_or_else(|| DriverError::new(Code::Unknown, "Neutron returned no port after creating one"))?
    };
    if !is_tagged(&port, owner.cluster_tags) {
        tag(session, &port, owner.cluster_tags, During::Create).await?;
    }
    Ok(port.id)
}

fn is_tagged(port: &Port, cluster_tags: &ClusterTags) -> bool {
    port.tags.contains(&cluster_tags.cluster) && port.tags.contains(&cluster_tags.role)
}

/// Adds the cluster tags to those of a port.
async fn tag(session: &Session<'_>, port: &Port, cluster_tags: &ClusterTags, during: During) -> Result<(), Failed> {
    let path = format!("/ports/{}/tags", port.id);
    session
        .execute(&ApiRequest::put(Service::Neutron, &path, bodies::port_tags(&port.tags, cluster_tags)), during)
        .await
        .map(drop)
}

/// Returns the ports with exactly this name, of any owner.
async fn ports_named(session: &Session<'_>, machine: &str, during: During) -> Result<Vec<Port>, DriverError> {
    let found = session.list(&request::ports_named(machine), "ports", during).await?;
    Ok(found.iter().filter_map(Port::read).filter(|port| port.name == machine).collect())
}

/// The ports of a machine that are deleted with its servers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PortsToDelete {
    /// Unused ports of this cluster.
    unused: Vec<Port>,
    /// Ports of a server that is deleted, with any tags.
    used: Vec<Port>,
}

impl PortsToDelete {
    /// Selects them among the ports of the machine's name. A port of another server is in neither list.
    fn among(ports: Vec<Port>, cluster_tags: &ClusterTags, servers: &BTreeSet<String>) -> Self {
        let (used, others): (Vec<Port>, Vec<Port>) = ports.into_iter().partition(|port| servers.contains(&port.device));
        let unused =
            others.into_iter().filter(|port| port.device.is_empty() && is_our_port(port, cluster_tags)).collect();
        Self { unused, used }
    }

    /// Finds the ports before the servers are deleted: Neutron clears the server of a port as soon as Nova detaches it.
    /// A port without the cluster tags gets them, so that the next attempt finds it if this one is interrupted.
    pub(crate) async fn find(
        session: &Session<'_>,
        machine: &str,
        cluster_tags: &ClusterTags,
        servers: &BTreeSet<String>,
    ) -> Result<Self, DriverError> {
        let to_delete = Self::among(ports_named(session, machine, During::Elsewhere).await?, cluster_tags, servers);
        for port in to_delete.used.iter().filter(|port| !is_our_port(port, cluster_tags)) {
            if let Err(failed) = tag(session, port, cluster_tags, During::Elsewhere).await {
                tracing::warn!(port = port.id, machine, error = %failed.error, "failed to tag a port before its deletion");
            }
        }
        Ok(to_delete)
    }

    /// Deletes the unused ports.
    pub(crate) async fn delete_unused(&self, session: &Session<'_>) -> Result<(), DriverError> {
        delete_all(session, &self.unused).await
    }

    /// Deletes the ports of the servers, after the servers are gone.
    pub(crate) async fn delete_used(&self, session: &Session<'_>) -> Result<(), DriverError> {
        delete_all(session, &self.used).await
    }
}

async fn delete_all(session: &Session<'_>, ports: &[Port]) -> Result<(), DriverError> {
    for port in ports {
        delete_if_present(session, &request::delete_port(&port.id)).await?;
    }
    Ok(())
}

/// Deletes a resource that may already be gone.
pub(crate) async fn delete_if_present(session: &Session<'_>, api_request: &ApiRequest) -> Result<(), DriverError> {
    match session.execute(api_request, During::Elsewhere).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.is_absent() => Ok(()),
        Err(failed) => Err(failed.error),
    }
}

/// Returns a bootable volume for a server: one of an earlier attempt or a new one.
pub(crate) async fn volume_for(
    session: &Session<'_>,
    spec: &Spec,
    owner: Owner<'_>,
    resolved: &Resolved,
) -> Result<String, Failed> {
    let made = our_volumes(session, owner.machine, owner.cluster_tags, During::Create).await?;
    let usable = |volume: &Volume| {
        volume.servers.is_empty() && !volume.status.starts_with("error") && volume.status != "deleting"
    };
    let id = match made.into_iter().find(usable) {
        Some(volume) if volume.status == "available" => return Ok(volume.id),
        Some(volume) => volume.id,
        None => {
            let api_request = ApiRequest::post(Service::Cinder, "/volumes", bodies::volume(spec, owner, resolved));
            let answer = session.execute(&api_request, During::Create).await?;
            let volume = answer.get("volume").and_then(Volume::read);
            volume.ok_or_else(|| DriverError::new(Code::Unknown, "Cinder returned no volume after creating one"))?.id
        }
    };
    available(session, &id).await?;
    Ok(id)
}

async fn available(session: &Session<'_>, id: &str) -> Result<(), DriverError> {
    let api_request = request::volume(id);
    let waited = VOLUME
        .until(
            session.call,
            || (session.cloud.chance)(),
            || async {
                let Some(volume) = session.one(&api_request, "volume", Volume::read, During::Create).await? else {
                    return Err(DriverError::new(
                        Code::Aborted,
                        format!("volume {id} disappeared during its creation"),
                    ));
                };
                match volume.status.as_str() {
                    "available" => Ok(Some(())),
                    "creating" | "downloading" | "reserved" | "detaching" | "" => Ok(None),
                    other => {
                        let message = format!(
                            "volume {id} is in status {other:?} instead of available; contact the operator of the cloud"
                        );
                        Err(DriverError::new(Code::Internal, message))
                    }
                }
            },
        )
        .await?;
    match waited {
        Waited::Done(()) => Ok(()),
        Waited::TimedOut => {
            Err(DriverError::new(Code::DeadlineExceeded, format!("volume {id} was not created in time")))
        }
    }
}

async fn our_volumes(
    session: &Session<'_>,
    machine: &str,
    cluster_tags: &ClusterTags,
    during: During,
) -> Result<Vec<Volume>, DriverError> {
    let found = session.list(&request::volumes_named(machine), "volumes", during).await?;
    let volumes = found.iter().filter_map(Volume::read);
    Ok(volumes.filter(|volume| volume.name == machine && cluster_tags.matches(&volume.metadata)).collect())
}

/// Deletes the volumes of a machine, except those of a server that still exists. Cinder rejects the deletion of a
/// volume until Nova has detached it, so the deletion is retried for a while. The last error of Cinder is reported.
pub(crate) async fn delete_volumes(
    session: &Session<'_>,
    machine: &str,
    cluster_tags: &ClusterTags,
    gone: &BTreeSet<String>,
) -> Result<(), DriverError> {
    let refused = Mutex::new(None);
    let waited = DETACHED
        .until(
            session.call,
            || (session.cloud.chance)(),
            || async {
                let mut left = our_volumes(session, machine, cluster_tags, During::Elsewhere).await?;
                left.retain(|volume| volume.servers.is_subset(gone));
                for volume in left.iter().filter(|volume| volume.status != "deleting") {
                    match session.execute(&request::delete_volume(&volume.id), During::Elsewhere).await {
                        Err(failed) if failed.is_absent() => {}
                        Err(failed) if failed.is(400) || failed.is(409) => {
                            *refused.lock() = Some((volume.id.clone(), failed.error));
                        }
                        answer => drop(answer?),
                    }
                }
                // Cinder finishes deleting a volume by itself.
                let settled = left.iter().all(|volume| volume.status == "deleting");
                Ok(settled.then_some(()))
            },
        )
        .await?;
    match (waited, refused.into_inner()) {
        (Waited::Done(()), _) => Ok(()),
        (Waited::TimedOut, Some((id, error))) => {
            let cause = error.message();
            let message = format!("failed to delete volume {id} of machine {machine:?} within a minute: {cause}");
            Err(DriverError::new(error.code(), message))
        }
        (Waited::TimedOut, None) => {
            let message = format!("failed to delete the volumes of machine {machine:?} within a minute");
            Err(DriverError::new(Code::DeadlineExceeded, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const OURS: [&str; 2] = ["kubernetes.io-cluster-c", "kubernetes.io-role-node"];
    const THEIRS: [&str; 2] = ["kubernetes.io-cluster-d", "kubernetes.io-role-node"];

    fn cluster_tags() -> ClusterTags {
        ClusterTags { cluster: OURS[0].into(), role: OURS[1].into() }
    }

    fn port(id: &str, device: &str, tags: &[&str]) -> Port {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Port { id: id.into(), device: device.into(), network: "net".into(), tags, ..Port::default() }
    }

    fn described(port: Port, cluster: &str) -> Port {
        let cluster_tags = ClusterTags { cluster: cluster.into(), ..cluster_tags() };
        Port { description: bodies::description(&cluster_tags), ..port }
    }

    /// Shows OST-18.
    #[rstest]
    #[case::ours(vec![port("a", "", &OURS)], Some("a"))]
    #[case::ours_by_description(vec![described(port("a", "", &[]), OURS[0])], Some("a"))]
    #[case::ours_first(vec![port("a", "", &[]), port("b", "", &OURS)], Some("b"))]
    #[case::unmarked(vec![port("a", "", &["a tag of a user"])], Some("a"))]
    #[case::in_use(vec![port("a", "s", &OURS), port("b", "s", &[])], None)]
    #[case::of_another_cluster(vec![port("a", "", &THEIRS)], None)]
    #[case::described_by_another_cluster(vec![described(port("a", "", &[]), THEIRS[0])], None)]
    #[case::in_another_network(vec![Port { network: "other".into(), ..port("a", "", &OURS) }], None)]
    fn port_is_adopted_unless_another_cluster_or_server_has_it(#[case] ports: Vec<Port>, #[case] id: Option<&str>) {
        assert_eq!(usable(ports, "net", &cluster_tags()).map(|port| port.id).as_deref(), id);
    }

    /// Shows OST-17.
    #[test]
    fn ports_of_deleted_servers_are_deleted_whatever_their_tags() {
        let ports = vec![
            port("unused", "", &OURS),
            port("used", "gone", &OURS),
            port("untagged", "gone", &[]),
            port("odd", "gone", &THEIRS),
            port("unproven", "", &[]),
            port("theirs", "", &THEIRS),
            port("in use", "another", &OURS),
        ];
        let to_delete = PortsToDelete::among(ports, &cluster_tags(), &["gone".to_owned()].into());
        let ids = |ports: &[Port]| ports.iter().map(|port| port.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&to_delete.unused), ["unused"]);
        assert_eq!(ids(&to_delete.used), ["used", "untagged", "odd"]);
    }
}
