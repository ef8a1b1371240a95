//! Readiness of a process, and details about it.
//!
//! A process is ready when all caches are synced, so that it can act as leader. A standby replica is ready, a frozen
//! leader is ready, and so is a process whose API server is unreachable: removing them from service would not help.

use std::fmt::Write;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use runtime::cache::{State, Status, Trust};
use runtime::lease::{ElectionState, Leadership};

use super::Served;
use super::controller_state::View;
use super::pages::Detail;

/// Returns whether the process is ready, with the requested details.
pub(super) fn readiness(served: &Served, detail: Detail) -> (StatusCode, String) {
    let view = served.controller_state.view();
    let obstacles = view.map_or_else(|| vec![NOT_STARTED.to_owned()], unready);
    let status = if obstacles.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut text = String::new();
    if detail == Detail::Verbose
        && let Some(view) = view
    {
        let _ = describe(&mut text, view, served.clock.now());
    }
    for obstacle in &obstacles {
        let _ = writeln!(text, "not ready: {obstacle}");
    }
    if obstacles.is_empty() {
        let _ = writeln!(text, "ok");
    }
    (status, text)
}

const NOT_STARTED: &str = "the controllers are not started; the log contains the reason";

/// Returns the reasons why the process is not ready.
fn unready(view: &View) -> Vec<String> {
    let cluster = &view.cluster;
    if cluster.tasks().stopping().is_cancelled() {
        return vec!["the process is shutting down".to_owned()];
    }
    let unread = |status: &Status| (!status.synced).then(|| status.waiting_for()).flatten();
    cluster.caches().statuses().iter().filter_map(unread).collect()
}

fn describe(text: &mut String, view: &View, now: Timestamp) -> std::fmt::Result {
    writeln!(text, "leader: {}", leader(&view.leadership))?;
    match view.cluster.connectivity().frozen() {
        None => writeln!(text, "frozen: no")?,
        Some(frozen) => writeln!(text, "frozen: yes, since {:.0}: {}", frozen.disconnected_since, frozen.cause)?,
    }
    for status in view.cluster.caches().statuses() {
        writeln!(text, "{}", lag(&status, now))?;
    }
    Ok(())
}

/// Describes whether the process leads.
pub(super) fn leader(leadership: &Leadership) -> String {
    match leadership.state() {
        None => "yes, without an election".to_owned(),
        Some(ElectionState::Leading { .. }) => match leadership.check() {
            Ok(()) => "yes".to_owned(),
            Err(why) => format!("no, {why}"),
        },
        Some(ElectionState::Candidate { holder: Some(holder) }) => format!("no, the leader is {holder}"),
        Some(ElectionState::Candidate { holder: None }) => "no, the leader is unknown".to_owned(),
        Some(ElectionState::Over(_)) => "no, leadership has ended".to_owned(),
    }
}

/// Describes the age of the cached objects of a kind.
fn lag(status: &Status, now: Timestamp) -> String {
    let update = match status.last_heard {
        None => "no update yet".to_owned(),
        Some(then) => {
            let ago = Duration::try_from(now.duration_since(then)).unwrap_or_default();
            format!("last update {} s ago", ago.as_secs())
        }
    };
    let activity = match &status.state {
        State::Idle => "not started".to_owned(),
        State::Listing => "listing".to_owned(),
        State::Watching => "watching".to_owned(),
        State::WaitingToRetry { why, until } => format!("retrying at {until:.0}: {why}"),
        State::Stopped => "stopped".to_owned(),
    };
    let doubt = if status.trust == Trust::Doubtful { ", possibly stale" } else { "" };
    format!("{}: {} objects, {update}, {activity}{doubt}", status.kind, status.objects)
}
