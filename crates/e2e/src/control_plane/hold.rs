//! The process that a control plane hangs from. It starts it, takes orders on a socket in its folder, and stops it when it is
//! told to or asked to end; if it is killed, the programs' guards see that it is gone and do the same.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use ::control_plane::plane::State;
use ::control_plane::{ControlPlane, Options};
use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::registry::{Name, Registry, SOCKET};

/// How long a caller may take to say its word; others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts a control plane, prints where its kubeconfig is, and holds it until it is to end.
pub(crate) async fn hold(registry: &Registry, name: &Name, options: Options) -> anyhow::Result<()> {
    let reservation = registry.reserve(name)?;
    let mut plane = ControlPlane::start(options).await?;
    let socket = plane.layout().home.join(SOCKET);
    let listener = UnixListener::bind(&socket).with_context(|| format!("failed to listen on {}", socket.display()))?;
    reservation.lead_to(&plane.layout().home)?;
    // Whoever started us reads this line. If nobody does any more, the error ends us, and the control plane with us.
    announce(&plane.kubeconfig_path()).context("failed to say that all is ready")?;

    let asker = until_told_to_stop(&listener, &mut plane).await?;
    plane.stop().await?;
    // Before the answer, so that whoever gets it can take the name again at once.
    reservation.release()?;
    if let Some(mut asker) = asker {
        asker.write_all(b"stopped\n").await.context("failed to tell that all is stopped")?;
    }
    Ok(())
}

fn announce(kubeconfig: &Path) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", kubeconfig.display())?;
    out.flush()
}

/// Answers questions until a signal or an order ends it; whoever gave the order is told when it is done.
async fn until_told_to_stop(listener: &UnixListener, plane: &mut ControlPlane) -> anyhow::Result<Option<UnixStream>> {
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
                let _ = stream.into_inner().write_all(describe(plane).as_bytes()).await;
            }
            _ => {}
        }
    }
}

fn describe(plane: &mut ControlPlane) -> String {
    let mut text = format!("{}\n", plane.kubeconfig_path().display());
    for (program, state) in plane.states() {
        let state = match state {
            State::Running => "runs".to_owned(),
            State::Ended => format!("has ended; see {}", plane.layout().log(program).display()),
        };
        let _ = writeln!(text, "{program} {state}"); // writing to a String cannot fail
    }
    text
}
