//! The process that holds a control plane or an OpenStack. It accepts commands on a socket in its folder, and stops the
//! instance on request or after SIGTERM. If the holder is killed, the guards of the programs stop them.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::registry::{NameReservation, SOCKET};

/// Timeout for reading a command; other callers wait meanwhile.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An instance that runs and has a folder.
pub(crate) trait Held {
    /// Returns its folder.
    fn home(&self) -> &Path;

    /// Returns the line that the starting command prints: where the instance is found.
    fn announcement(&self) -> String;

    /// Returns its parts and their state.
    fn describe(&mut self) -> String;

    /// Stops it and removes its files.
    async fn stop(self) -> anyhow::Result<()>;
}

/// Prints where the instance is found, and holds it until it is stopped.
pub(crate) async fn hold(reservation: NameReservation, mut held: impl Held) -> anyhow::Result<()> {
    let socket = held.home().join(SOCKET);
    let listener = UnixListener::bind(&socket).with_context(|| format!("failed to listen on {}", socket.display()))?;
    reservation.lead_to(held.home())?;
    // The process that started this one reads this line. If it no longer exists, the error ends this process and the
    // instance.
    announce(&held.announcement()).context("failed to announce that the instance is ready")?;

    let load = serve_until_stopped(&listener, &mut held).await?;
    held.stop().await?;
    // Before the response, so that the caller can use the name again immediately.
    reservation.release()?;
    if let Some(mut load) = load {
        load.write_all(b"stopped\n").await.context("failed to send the response")?;
    }
    Ok(())
}

fn announce(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Answers commands until a signal or the command "stop" arrives. Returns the stream of the caller that waits for the
/// end.
async fn serve_until_stopped(listener: &UnixListener, held: &mut impl Held) -> anyhow::Result<Option<UnixStream>> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    loop {
        let stream = tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(None),
            _ = interrupt.recv() => return Ok(None),
            accepted = listener.accept() => accepted.context("failed to accept a caller")?.0,
        };
        let mut stream = BufReader::new(stream);
        let mut word = String::new();
        // Callers that send nothing or disconnect are ignored.
        let heard = tokio::time::timeout(TIMEOUT, stream.read_line(&mut word)).await;
        match (heard, word.trim()) {
            (Ok(Ok(_)), "stop") => return Ok(Some(stream.into_inner())),
            (Ok(Ok(_)), "status") => {
                let _ = stream.into_inner().write_all(held.describe().as_bytes()).await;
            }
            _ => {}
        }
    }
}
