//! Accepts connections until the process stops.

use std::time::Duration;

use runtime::Tasks;
use tokio::net::{TcpListener, TcpStream};

use super::connection_limit::ConnectionLimit;

/// Delay after an error of accept, for example because too many files are open.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Serves each connection in a task of this name until `tasks` stops. If there are too many connections, the oldest are
/// closed.
pub(crate) async fn accept<Serving>(
    listener: TcpListener,
    tasks: Tasks,
    name: &'static str,
    serve: impl Fn(TcpStream) -> Serving,
) where
    Serving: Future<Output = ()> + Send + 'static,
{
    let (stopping, connection_limit) = (tasks.stopping(), ConnectionLimit::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        let (connection, serving, stopping) = (connection_limit.add(), serve(socket), stopping.clone());
        tasks.spawn(name, async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = connection.closed() => {}
                () = serving => {}
            }
        });
    }
}
