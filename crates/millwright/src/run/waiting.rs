//! Waits for the API servers and logs the obstacles.

use api::view::NodeView;
use api::{Machine, MachineClass, MachineDeployment, MachineSet};
use controllers::wiring::Clients;
use runtime::Random;
use runtime::client::{Obstacle, Place, RequiredKind, Waited, wait_until_ready};
use tokio_util::sync::CancellationToken;

use super::Connections;
use crate::cli::Servers;

/// Waits until both API servers respond and serve the kinds that the components of this process need. Logs every
/// obstacle.
pub(super) async fn until_served(
    options: &Servers,
    connections: &Connections,
    clients: &Clients,
    random: &Random,
    stop: &CancellationToken,
) -> Waited {
    let report = |obstacle: &Obstacle| tracing::warn!("{obstacle}");
    let mut kinds = vec![RequiredKind::of::<Machine>()];
    if options.machine.is_some() {
        kinds.push(RequiredKind::of::<MachineClass>());
    }
    if options.manager.is_some() {
        kinds.extend([RequiredKind::of::<MachineSet>(), RequiredKind::of::<MachineDeployment>()]);
    }
    let place = Place::from(&connections.control);
    if wait_until_ready(&clients.control, &place, &kinds, random, stop, report).await == Waited::Stopped {
        return Waited::Stopped;
    }
    match (&clients.target, &connections.target) {
        (Some(client), Some(connection)) => {
            let kinds = [RequiredKind::of::<NodeView>()];
            wait_until_ready(client, &connection.into(), &kinds, random, stop, report).await
        }
        _ => Waited::Ready,
    }
}
