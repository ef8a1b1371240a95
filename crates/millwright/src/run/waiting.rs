//! Waiting for the API servers, out loud.

use api::view::NodeView;
use api::{Machine, MachineClass, MachineDeployment, MachineSet};
use runtime::Random;
use runtime::client::{Obstacle, Place, RequiredKind, Waited, wait_until_ready};
use tokio_util::sync::CancellationToken;

use super::Connections;

/// Waits until both API servers answer and serve what we need, saying what is in the way.
pub(super) async fn until_served(
    connections: &Connections,
    control: &kube::Client,
    target: Option<&kube::Client>,
    random: &Random,
    stop: &CancellationToken,
) -> Waited {
    let report = |obstacle: &Obstacle| tracing::warn!("{obstacle}");
    let kinds = [
        RequiredKind::of::<Machine>(),
        RequiredKind::of::<MachineClass>(),
        RequiredKind::of::<MachineSet>(),
        RequiredKind::of::<MachineDeployment>(),
    ];
    let place = Place::from(&connections.control);
    if wait_until_ready(control, &place, &kinds, random, stop, report).await == Waited::Stopped {
        return Waited::Stopped;
    }
    match (target, &connections.target) {
        (Some(client), Some(connection)) => {
            let kinds = [RequiredKind::of::<NodeView>()];
            wait_until_ready(client, &connection.into(), &kinds, random, stop, report).await
        }
        _ => Waited::Ready,
    }
}
