//! The process that something hangs from: a control plane, an OpenStack. It takes orders on a socket in its folder, and stops it when it is
//! told to or asked to end; if it is killed, the programs' guards see that it is gone and do the same.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::registry::{NameReservation, SOCKET};

/// How long a caller may take to say its word; others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that runs and has a folder.
pub(crate) trait Held {
    /// Its folder.
    fn home(&self) -> &Path;

    /// One line for whoever had it started: where it is found.
    fn announcement(&self) -> String;

    /// Its parts and how they are, for whoever asks.
    fn describe(&mut self) -> String;

    /// Ends it and removes what it wrote.
    async fn stop(self) -> anyhow::Result<()>;
}

/// Prints where something that was started is found, and holds it until it is to end.
pub(crate) async fn hold(reservation: NameReservation, mut held: impl Held) -> anyhow::Result<()> {
    let socket = held.home().join(SOCKET);
    let listener = UnixListener::bind(&socket).with_context(|| format!("failed to listen on {}", socket.display()))?;
    reservation.lead_to(held.home())?;
    // Whoever started us reads this line. If nobody does any more, the error ends us, and what we hold with us.
    announce(&held.announcement()).context("failed to say that all is ready")?;

    let asker = until_told_to_stop(&listener, &mut held).await?;
    held.stop().await?;
    // Before the answer, so that whoever gets it can take the name again at once.
    reservation.release()?;
    if let Some(mut asker) = asker {
        asker.write_all(b"stopped\n").await.context("failed to tell that all is stopped")?;
    }
    Ok(())
}

fn announce(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Answers questions until a signal or an order ends it; whoever gave the order is told when it is done.
async fn until_told_to_stop(listener: &UnixListener, held: &mut impl Held) -> anyhow::Result<Option<UnixStream>> {
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
        // A caller that says nothing, or hangs up, is its own problem.
        let heard = tokio::time::timeout(PATIENCE, stream.read_line(&mut word)).await;
        match (heard, word.trim()) {
            (Ok(Ok(_)), "stop") => return Ok(Some(stream.into_inner())),
            (Ok(Ok(_)), "status") => {
                let _ = stream.into_inner().write_all(held.describe().as_bytes()).await;
            }
            _ => {}
        }
    }
}
