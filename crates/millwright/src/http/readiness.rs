//! Whether a process could take over, and what it knows of itself.
//!
//! Ready means: all caches have been read, so whoever leads can decide. A standby is ready, a frozen leader is ready, and so is one
//! whose API server has gone away: none of them gets better by being taken out of service.

use std::fmt::Write;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use runtime::cache::{State, Status, Trust};
use runtime::lease::{Leadership, Standing};

use super::Served;
use super::controller_state::View;
use super::pages::Detail;

/// Whether it is ready, in as many words as were asked for.
pub(super) fn told(served: &Served, detail: Detail) -> (StatusCode, String) {
    let view = served.controller_state.view();
    let obstacles = view.map_or_else(|| vec![NOT_STARTED.to_owned()], unready);
    let status = if obstacles.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut said = String::new();
    if detail == Detail::Verbose
        && let Some(view) = view
    {
        let _ = describe(&mut said, view, served.clock.now());
    }
    for obstacle in &obstacles {
        let _ = writeln!(said, "not ready: {obstacle}");
    }
    if obstacles.is_empty() {
        let _ = writeln!(said, "ok");
    }
    (status, said)
}

const NOT_STARTED: &str = "the controllers have not been started; the log says what is waited for";

/// What is still to be done before it is ready, a sentence each.
fn unready(view: &View) -> Vec<String> {
    let cluster = &view.cluster;
    if cluster.tasks().stopping().is_cancelled() {
        return vec!["it was asked to stop".to_owned()];
    }
    let unread = |status: &Status| (!status.synced).then(|| status.waiting_for()).flatten();
    cluster.caches().statuses().iter().filter_map(unread).collect()
}

fn describe(said: &mut String, view: &View, now: Timestamp) -> std::fmt::Result {
    writeln!(said, "leader: {}", leader(&view.leadership))?;
    match view.cluster.connectivity().frozen() {
        None => writeln!(said, "frozen: no")?,
        Some(frozen) => writeln!(said, "frozen: yes, since {:.0}: {}", frozen.disconnected_since, frozen.cause)?,
    }
    for status in view.cluster.caches().statuses() {
        writeln!(said, "{}", lag(&status, now))?;
    }
    Ok(())
}

/// Who leads, in words.
pub(super) fn leader(leadership: &Leadership) -> String {
    match leadership.standing() {
        None => "yes, without an election".to_owned(),
        Some(Standing::Leading { .. }) => match leadership.check() {
            Ok(()) => "yes".to_owned(),
            Err(why) => format!("no, {why}"),
        },
        Some(Standing::Candidate { holder: Some(holder) }) => format!("no, it is {holder}"),
        Some(Standing::Candidate { holder: None }) => "no, and nobody we know of".to_owned(),
        Some(Standing::Over(_)) => "no, not any more".to_owned(),
    }
}

/// How old our knowledge of a kind may be, in words.
fn lag(status: &Status, now: Timestamp) -> String {
    let heard = match status.last_heard {
        None => "never heard".to_owned(),
        Some(then) => {
            let ago = Duration::try_from(now.duration_since(then)).unwrap_or_default();
            format!("last heard {} s ago", ago.as_secs())
        }
    };
    let doing = match &status.state {
        State::Idle => "not started".to_owned(),
        State::Listing => "reading all".to_owned(),
        State::Watching => "watching".to_owned(),
        State::WaitingToRetry { why, until } => format!("trying again at {until:.0}, because {why}"),
        State::Stopped => "stopped".to_owned(),
    };
    let doubt = if status.trust == Trust::Doubtful { ", in doubt" } else { "" };
    format!("{}: {} known, {heard}, {doing}{doubt}", status.kind, status.objects)
}
