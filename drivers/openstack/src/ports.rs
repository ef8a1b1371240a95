//! Ports and volumes that are made for a server before it.
//!
//! OpenStack lets them outlive it, and a process may die between making them and making the server. So each says whose it is from the first
//! request on, is found again by name, and is removed by whoever removes the server, whether or not there ever was one.
//!
//! The reference tags a port in a second request, and uses a port of the machine's name that it finds without tagging it. Such a port has
//! no mark of any cluster. It is known as the machine's by its name and the server that it is bound to, as long as it is bound.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use backoff::Exponential;
use driver::{Code, DriverError};
use driver_common::codes::During;
use driver_common::owned::Marks;
use driver_common::poll::{Poll, Waited};

use crate::answer::{Port, Volume};
use crate::bodies::{self, Owner};
use crate::catalogue::Service;
use crate::ids::Resolved;
use crate::request::{self, Ask};
use crate::session::{Failed, Session};
use crate::spec::{OF_A_CLUSTER, Spec};

/// How long Cinder may take to make a volume, as long as the reference waits.
const VOLUME: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(5)),
    patience: Duration::from_mins(20),
};

/// How long Cinder may refuse to delete a volume within one call. Nova lets go of a volume before its server is gone, so that a volume
/// that is refused longer needs something else first, such as the deletion of its snapshots.
const RELEASED: Poll = Poll { patience: Duration::from_mins(1), ..VOLUME };

/// Whether a port is ours: by its tags, or by its description while it has none.
pub(crate) fn is_our_port(port: &Port, marks: &Marks) -> bool {
    is_tagged(port, marks) || port.description == bodies::description(marks)
}

/// Whether a port has no mark of any cluster, so that it may be adopted.
fn is_unmarked(port: &Port) -> bool {
    let of_a_cluster = |tag: &String| tag.contains(OF_A_CLUSTER);
    !port.tags.iter().any(of_a_cluster) && !bodies::is_description(&port.description)
}

/// Selects the port for a server among those of the machine's name: one that nothing uses, in the network of the class. One that is ours
/// is preferred to one that has no mark of any cluster.
fn usable(ports: Vec<Port>, network: &str, marks: &Marks) -> Option<Port> {
    let unused = ports.into_iter().filter(|port| port.network == network && port.device.is_empty());
    let (ours, others): (Vec<Port>, Vec<Port>) = unused.partition(|port| is_our_port(port, marks));
    ours.into_iter().chain(others.into_iter().filter(is_unmarked)).next()
}

/// The port for a server: the one that an earlier attempt made, ours or the reference's, or a new one.
pub(crate) async fn port_for(
    session: &Session<'_>,
    spec: &Spec,
    owner: Owner<'_>,
    resolved: &Resolved,
) -> Result<String, Failed> {
    let there = ports_named(session, owner.machine, During::Create).await?;
    let port = if let Some(port) = usable(there, &spec.network_id, owner.marks) {
        port
    } else {
        let ask = Ask::post(Service::Neutron, "/ports", bodies::port(spec, owner, resolved));
        let answer = session.ask(&ask, During::Create).await?;
        let port = answer.get("port").and_then(Port::read);
        port.ok_or_else(|| DriverError::new(Code::Unknown, "Neutron answered without the port that it made"))?
    };
    if !is_tagged(&port, owner.marks) {
        tag(session, &port, owner.marks, During::Create).await?;
    }
    Ok(port.id)
}

fn is_tagged(port: &Port, marks: &Marks) -> bool {
    port.tags.contains(&marks.cluster) && port.tags.contains(&marks.role)
}

/// Adds our tags to those of a port.
async fn tag(session: &Session<'_>, port: &Port, marks: &Marks, during: During) -> Result<(), Failed> {
    let path = format!("/ports/{}/tags", port.id);
    session.ask(&Ask::put(Service::Neutron, &path, bodies::port_tags(&port.tags, marks)), during).await.map(drop)
}

/// The ports of exactly this name, whoever they belong to.
async fn ports_named(session: &Session<'_>, machine: &str, during: During) -> Result<Vec<Port>, DriverError> {
    let found = session.list(&request::ports_named(machine), "ports", during).await?;
    Ok(found.iter().filter_map(Port::read).filter(|port| port.name == machine).collect())
}

/// The ports of a machine that go with its servers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Ours, and used by nothing.
    unused: Vec<Port>,
    /// Used by a server that is to be deleted, whatever their tags are.
    used: Vec<Port>,
}

impl Doomed {
    /// Selects them among the ports of the machine's name. A port that another server uses is in neither list.
    fn among(ports: Vec<Port>, marks: &Marks, servers: &BTreeSet<String>) -> Self {
        let (used, others): (Vec<Port>, Vec<Port>) = ports.into_iter().partition(|port| servers.contains(&port.device));
        let unused = others.into_iter().filter(|port| port.device.is_empty() && is_our_port(port, marks)).collect();
        Self { unused, used }
    }

    /// Finds the ports before the servers are deleted: Neutron forgets which server a port was bound to as soon as Nova lets go of it. A
    /// port without our tags is given them, so that the next attempt knows it if this one ends early.
    pub(crate) async fn find(
        session: &Session<'_>,
        machine: &str,
        marks: &Marks,
        servers: &BTreeSet<String>,
    ) -> Result<Self, DriverError> {
        let doomed = Self::among(ports_named(session, machine, During::Elsewhere).await?, marks, servers);
        for port in doomed.used.iter().filter(|port| !is_our_port(port, marks)) {
            if let Err(failed) = tag(session, port, marks, During::Elsewhere).await {
                tracing::warn!(port = port.id, machine, error = %failed.error, "failed to tag a port before its deletion");
            }
        }
        Ok(doomed)
    }

    /// Deletes those that nothing uses.
    pub(crate) async fn delete_unused(&self, session: &Session<'_>) -> Result<(), DriverError> {
        delete_all(session, &self.unused).await
    }

    /// Deletes those that were used, once their servers are gone.
    pub(crate) async fn delete_used(&self, session: &Session<'_>) -> Result<(), DriverError> {
        delete_all(session, &self.used).await
    }
}

async fn delete_all(session: &Session<'_>, ports: &[Port]) -> Result<(), DriverError> {
    for port in ports {
        removed(session, &request::delete_port(&port.id)).await?;
    }
    Ok(())
}

/// Deletes something that may be gone already.
pub(crate) async fn removed(session: &Session<'_>, ask: &Ask) -> Result<(), DriverError> {
    match session.ask(ask, During::Elsewhere).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.is_absent() => Ok(()),
        Err(failed) => Err(failed.error),
    }
}

/// The volume for a server, ready to boot from: the one that an earlier attempt made, or a new one.
pub(crate) async fn volume_for(
    session: &Session<'_>,
    spec: &Spec,
    owner: Owner<'_>,
    resolved: &Resolved,
) -> Result<String, Failed> {
    let made = our_volumes(session, owner.machine, owner.marks, During::Create).await?;
    let usable = |volume: &Volume| {
        volume.servers.is_empty() && !volume.status.starts_with("error") && volume.status != "deleting"
    };
    let id = match made.into_iter().find(usable) {
        Some(volume) if volume.status == "available" => return Ok(volume.id),
        Some(volume) => volume.id,
        None => {
            let ask = Ask::post(Service::Cinder, "/volumes", bodies::volume(spec, owner, resolved));
            let answer = session.ask(&ask, During::Create).await?;
            let volume = answer.get("volume").and_then(Volume::read);
            volume.ok_or_else(|| DriverError::new(Code::Unknown, "Cinder answered without the volume that it made"))?.id
        }
    };
    available(session, &id).await?;
    Ok(id)
}

async fn available(session: &Session<'_>, id: &str) -> Result<(), DriverError> {
    let ask = request::volume(id);
    let waited = VOLUME
        .until(
            session.call,
            || (session.cloud.chance)(),
            || async {
                let Some(volume) = session.one(&ask, "volume", Volume::read, During::Create).await? else {
                    return Err(DriverError::new(Code::Aborted, format!("volume {id} vanished while it was made")));
                };
                match volume.status.as_str() {
                    "available" => Ok(Some(())),
                    "creating" | "downloading" | "reserved" | "detaching" | "" => Ok(None),
                    other => {
                        let message = format!(
                            "volume {id} is in status {other:?} instead of available; ask the operator of the cloud why"
                        );
                        Err(DriverError::new(Code::Internal, message))
                    }
                }
            },
        )
        .await?;
    match waited {
        Waited::Done(()) => Ok(()),
        Waited::InVain => Err(DriverError::new(Code::DeadlineExceeded, format!("volume {id} was not made in time"))),
    }
}

async fn our_volumes(
    session: &Session<'_>,
    machine: &str,
    marks: &Marks,
    during: During,
) -> Result<Vec<Volume>, DriverError> {
    let found = session.list(&request::volumes_named(machine), "volumes", during).await?;
    let volumes = found.iter().filter_map(Volume::read);
    Ok(volumes.filter(|volume| volume.name == machine && marks.on(&volume.metadata)).collect())
}

/// Removes the volumes of a machine, but none that a server uses which is not among those that are gone. Cinder refuses to delete a volume
/// until Nova has let go of it, so it is asked for a while until none is left. What Cinder says to the last request is reported.
pub(crate) async fn delete_volumes(
    session: &Session<'_>,
    machine: &str,
    marks: &Marks,
    gone: &BTreeSet<String>,
) -> Result<(), DriverError> {
    let refused = Mutex::new(None);
    let waited = RELEASED
        .until(
            session.call,
            || (session.cloud.chance)(),
            || async {
                let mut left = our_volumes(session, machine, marks, During::Elsewhere).await?;
                left.retain(|volume| volume.servers.is_subset(gone));
                for volume in left.iter().filter(|volume| volume.status != "deleting") {
                    match session.ask(&request::delete_volume(&volume.id), During::Elsewhere).await {
                        Err(failed) if failed.is_absent() => {}
                        Err(failed) if failed.is(400) || failed.is(409) => {
                            *refused.lock() = Some((volume.id.clone(), failed.error));
                        }
                        answer => drop(answer?),
                    }
                }
                // A volume that is being deleted is Cinder's to finish.
                let settled = left.iter().all(|volume| volume.status == "deleting");
                Ok(settled.then_some(()))
            },
        )
        .await?;
    match (waited, refused.into_inner()) {
        (Waited::Done(()), _) => Ok(()),
        (Waited::InVain, Some((id, error))) => {
            let said = error.message();
            let message = format!("failed to delete volume {id} of machine {machine:?} within a minute: {said}");
            Err(DriverError::new(error.code(), message))
        }
        (Waited::InVain, None) => {
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

    fn marks() -> Marks {
        Marks { cluster: OURS[0].into(), role: OURS[1].into() }
    }

    fn port(id: &str, device: &str, tags: &[&str]) -> Port {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Port { id: id.into(), device: device.into(), network: "net".into(), tags, ..Port::default() }
    }

    fn described(port: Port, cluster: &str) -> Port {
        let marks = Marks { cluster: cluster.into(), ..marks() };
        Port { description: bodies::description(&marks), ..port }
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
        assert_eq!(usable(ports, "net", &marks()).map(|port| port.id).as_deref(), id);
    }

    /// Shows OST-17.
    #[test]
    fn ports_of_deleted_servers_go_whatever_their_tags_are() {
        let ports = vec![
            port("unused", "", &OURS),
            port("used", "gone", &OURS),
            port("untagged", "gone", &[]),
            port("odd", "gone", &THEIRS),
            port("unproven", "", &[]),
            port("theirs", "", &THEIRS),
            port("in use", "another", &OURS),
        ];
        let doomed = Doomed::among(ports, &marks(), &["gone".to_owned()].into());
        let ids = |ports: &[Port]| ports.iter().map(|port| port.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&doomed.unused), ["unused"]);
        assert_eq!(ids(&doomed.used), ["used", "untagged", "odd"]);
    }
}
