//! Connections, as they come, until the process stops.

use std::time::Duration;

use runtime::Tasks;
use tokio::net::{TcpListener, TcpStream};

use super::connection_limit::ConnectionLimit;

/// How long to wait when the system cannot accept connections, for example because too many files are open.
const BREATHER: Duration = Duration::from_millis(50);

/// Attends to each connection in a task of this name until `tasks` is asked to stop. Whoever is slow is dropped when others come.
pub(crate) async fn accept<Attending>(
    listener: TcpListener,
    tasks: Tasks,
    name: &'static str,
    attend: impl Fn(TcpStream) -> Attending,
) where
    Attending: Future<Output = ()> + Send + 'static,
{
    let (stopping, connection_limit) = (tasks.stopping(), ConnectionLimit::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        let (connection, attending, stopping) = (connection_limit.arrive(), attend(socket), stopping.clone());
        tasks.spawn(name, async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = connection.asked_to_leave() => {}
                () = attending => {}
            }
        });
    }
}
