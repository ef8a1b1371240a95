//! Ports and volumes that are made for a server before it.
//!
//! OpenStack lets them outlive it, and a process may die between making them and making the server. So each says whose it is from the first
//! request on, is found again by name, and is removed by whoever removes the server, whether or not there ever was one.

use std::collections::BTreeSet;
use std::time::Duration;

use backoff::Exponential;
use cloud::codes::During;
use cloud::owned::Marks;
use cloud::poll::{Poll, Waited};
use driver::{Code, DriverError};

use crate::answer::{Port, Volume};
use crate::bodies::{self, Owner};
use crate::catalogue::Service;
use crate::ids::Resolved;
use crate::request::{self, Ask};
use crate::session::{Failed, Session};
use crate::spec::Spec;

/// How long Cinder may take to make a volume or to let go of one, as long as the reference waits.
const VOLUME: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(5)),
    patience: Duration::from_mins(20),
};

/// Whether a port is ours: by its tags, or by its description while it has none.
pub(crate) fn is_our_port(port: &Port, marks: &Marks) -> bool {
    let tagged = port.tags.contains(&marks.cluster) && port.tags.contains(&marks.role);
    tagged || port.description == bodies::description(marks)
}

/// The port for a server: the one that an earlier attempt made, or a new one.
pub(crate) async fn port_for(
    session: &Session<'_>,
    spec: &Spec,
    owner: Owner<'_>,
    resolved: &Resolved,
) -> Result<String, Failed> {
    let made = our_ports(session, owner.machine, owner.marks, During::Create).await?;
    let usable = made.into_iter().find(|port| port.network == spec.network_id && port.device.is_empty());
    let port = if let Some(port) = usable {
        port
    } else {
        let ask = Ask::post(Service::Neutron, "/ports", bodies::port(spec, owner, resolved));
        let answer = session.ask(&ask, During::Create).await?;
        let port = answer.get("port").and_then(Port::read);
        port.ok_or_else(|| DriverError::new(Code::Unknown, "Neutron answered without the port that it made"))?
    };
    if !(port.tags.contains(&owner.marks.cluster) && port.tags.contains(&owner.marks.role)) {
        let path = format!("/ports/{}/tags", port.id);
        session.ask(&Ask::put(Service::Neutron, &path, bodies::port_tags(owner.marks)), During::Create).await?;
    }
    Ok(port.id)
}

async fn our_ports(
    session: &Session<'_>,
    machine: &str,
    marks: &Marks,
    during: During,
) -> Result<Vec<Port>, DriverError> {
    let found = session.list(&request::ports_named(machine), "ports", during).await?;
    let ports = found.iter().filter_map(Port::read);
    Ok(ports.filter(|port| port.name == machine && is_our_port(port, marks)).collect())
}

/// Removes the ports of a machine, but none that a server uses which is not among those that are gone.
pub(crate) async fn delete_ports(
    session: &Session<'_>,
    machine: &str,
    marks: &Marks,
    gone: &BTreeSet<String>,
) -> Result<(), DriverError> {
    for port in our_ports(session, machine, marks, During::Elsewhere).await? {
        if port.device.is_empty() || gone.contains(&port.device) {
            removed(session, &request::delete_port(&port.id)).await?;
        }
    }
    Ok(())
}

/// Deletes something that may be gone already.
pub(crate) async fn removed(session: &Session<'_>, ask: &Ask) -> Result<(), DriverError> {
    match session.ask(ask, During::Elsewhere).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.is(404) => Ok(()),
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
                let answer = match session.ask(&ask, During::Create).await {
                    Err(failed) if failed.is(404) => {
                        return Err(DriverError::new(Code::Aborted, format!("volume {id} vanished while it was made")));
                    }
                    answer => answer?,
                };
                match answer.get("volume").and_then(Volume::read).map(|volume| volume.status).as_deref() {
                    Some("available") => Ok(Some(())),
                    Some("creating" | "downloading" | "reserved" | "detaching") | None => Ok(None),
                    Some(other) => {
                        let message = format!(
                            "volume {id} is in status {other:?} instead of available; ask the operator of the cloud why"
                        );
                        Err(DriverError::new(Code::Internal, message))
                    }
                }
            },
        )
        .await?;
    ended(&waited, || format!("volume {id} was not made in time"))
}

fn ended(waited: &Waited<()>, otherwise: impl FnOnce() -> String) -> Result<(), DriverError> {
    match waited {
        Waited::Done(()) => Ok(()),
        Waited::InVain => Err(DriverError::new(Code::DeadlineExceeded, otherwise())),
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
/// until Nova has let go of it, so it is asked until none is left.
pub(crate) async fn delete_volumes(
    session: &Session<'_>,
    machine: &str,
    marks: &Marks,
    gone: &BTreeSet<String>,
) -> Result<(), DriverError> {
    let waited = VOLUME
        .until(
            session.call,
            || (session.cloud.chance)(),
            || async {
                let mut left = our_volumes(session, machine, marks, During::Elsewhere).await?;
                left.retain(|volume| volume.servers.is_subset(gone));
                for volume in left.iter().filter(|volume| volume.status != "deleting") {
                    match session.ask(&request::delete_volume(&volume.id), During::Elsewhere).await {
                        Err(failed) if failed.is(404) || failed.is(400) || failed.is(409) => {}
                        answer => drop(answer?),
                    }
                }
                // A volume that is being deleted is Cinder's to finish.
                let settled = left.iter().all(|volume| volume.status == "deleting");
                Ok(settled.then_some(()))
            },
        )
        .await?;
    ended(&waited, || format!("the volumes of machine {machine:?} were not deleted in time"))
}
