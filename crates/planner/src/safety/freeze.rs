//! Decides whether the observed state is reliable.
//!
//! A Machine is marked Failed because its Node has sent no heartbeat. But if the API server is unreachable, or returns
//! an empty cluster because of a wrong kubeconfig, all heartbeats are missing at the same time, and replacing the
//! Machines would rebuild a healthy cluster. Therefore the controller *freezes*: while the state is not reliable, no VM
//! is created and no Machine is marked Failed. Deletions that users requested continue.
//!
//! There are four causes of a freeze, each with its own end:
//!
//! | cause | begins | ends |
//! | --- | --- | --- |
//! | silence | an API server whose watch is interrupted has not responded for the freeze timeout | its watch is established |
//! | refusal | it responds, but has not returned Machines or Nodes for minutes | its watch is established |
//! | disappearance | too many Nodes were missing in one list | a quorum list, at least a freeze timeout later, was completed |
//! | clock skew | the clock of this process differs from an API server's by more than the limit | the difference is within the limit |
//!
//! A server that responds, with any response, is not silent: a single 403 or 429 starts no timer, and any response
//! stops a running one. The freeze is not stored as a switch: it is derived from the observed state at every check, so
//! it cannot get stuck.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::SafetyPolicy;

/// An API server on which Machines depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// The API server of the control cluster, with the Machines.
    Control,
    /// The API server of the target cluster, with the Nodes.
    Target,
}

/// The state of the connection to an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The watch is established.
    Watching,
    /// The watch is interrupted, and the server responds.
    Answering {
        /// Since when it is interrupted.
        broken_since: Timestamp,
        /// The error.
        why: String,
    },
    /// The watch is interrupted, and the server does not respond.
    Unreachable,
}

/// The input of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The connection to the control cluster.
    pub control: Connection,
    /// The connection to the target cluster; `Watching` if there is none.
    pub target: Connection,
    /// How far the clock of this process is ahead of an API server's; `None` if that is unknown.
    pub clock_skew: Option<SignedDuration>,
    /// When the last completed quorum list of Nodes was requested.
    pub recounted: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// The state between two checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    control: Silence,
    target: Silence,
    disappearance: Option<Disappearance>,
    /// A clock skew above the limit, noticed since the last check.
    clock_skew: Option<SignedDuration>,
    frozen: Option<Frozen>,
}

/// Since when a server does not respond.
type Silence = Option<Timestamp>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Disappearance {
    at: Timestamp,
    gone: usize,
    of: usize,
}

/// A freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The last time at which the state was reliable.
    pub disconnected_since: Timestamp,
    /// The cause.
    pub cause: Cause,
}

/// The cause of a freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A server does not respond.
    Silence(Server),
    /// A server responds, but does not return the required objects.
    Refusal {
        /// The server.
        server: Server,
        /// The error.
        why: String,
    },
    /// Too many Nodes were missing in one list.
    Disappearance {
        /// Number of missing Nodes.
        gone: usize,
        /// Number of Nodes before.
        of: usize,
    },
    /// The clock of this process differs from an API server's.
    ClockSkew {
        /// How far it is ahead.
        ahead: SignedDuration,
    },
}

impl Cause {
    /// Returns the value for metric labels.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Silence(_) => "silence",
            Self::Refusal { .. } => "refusal",
            Self::Disappearance { .. } => "disappearance",
            Self::ClockSkew { .. } => "clock_skew",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The new state.
    pub state: State,
    /// The change.
    pub transition: Transition,
    /// Whether Nodes must be listed again now.
    pub recount: Recount,
    /// Time until the next check at the latest.
    pub again: Duration,
}

/// A change between two checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// None.
    None,
    /// The controller is frozen from now on.
    Froze(Frozen),
    /// The freeze has ended.
    Unfroze(Frozen),
}

/// Whether Nodes must be listed with quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recount {
    /// Not now.
    NotDue,
    /// Now: the list ends the freeze.
    Due,
}

impl State {
    /// Returns the freeze, if there is one.
    #[must_use]
    pub fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_ref()
    }

    /// Returns whether the observed state is reliable. It is not from the moment of a disappearance, even before the
    /// next check.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.frozen.is_none() && self.disappearance.is_none()
    }

    /// Records that a list of Nodes lacked some of the previous ones. The next check, which must follow immediately,
    /// decides about a freeze.
    pub fn nodes_disappeared(&mut self, gone: usize, of: usize, policy: &SafetyPolicy, now: Timestamp) {
        if policy.vanished_nodes.is_exceeded(gone, of) {
            self.disappearance = Some(Disappearance { at: now, gone, of });
        }
    }

    /// Moves all times that a backward step of the clock left in the future to now. Otherwise the freeze would last
    /// until they are past.
    pub fn clock_stepped_back(&mut self, now: Timestamp) {
        for silence in [&mut self.control, &mut self.target] {
            *silence = silence.map(|since| since.min(now));
        }
        if let Some(disappearance) = &mut self.disappearance {
            disappearance.at = disappearance.at.min(now);
        }
        if let Some(frozen) = &mut self.frozen {
            frozen.disconnected_since = frozen.disconnected_since.min(now);
        }
    }

    /// Records a clock skew above the limit. Returns whether a check must follow, which starts a freeze and, after
    /// another check, ends it.
    pub fn clock_skewed(&mut self, skew: SignedDuration) -> bool {
        let is_known = matches!(&self.frozen, Some(Frozen { cause: Cause::ClockSkew { .. }, .. }));
        let is_new = !is_known && self.clock_skew.is_none();
        if is_new {
            self.clock_skew = Some(skew);
        }
        is_new
    }

    /// Derives from the observed state whether it is reliable.
    #[must_use]
    pub fn evaluate(&self, probe: &Probe, policy: &SafetyPolicy) -> Evaluation {
        let mut state = self.clone();
        let now = probe.now;
        let settled = |d: &Disappearance| {
            probe.recounted.is_some_and(|asked| asked >= d.at && elapsed(d.at, asked) >= policy.freeze_after)
        };
        state.disappearance = state.disappearance.filter(|d| !settled(d));
        let recount = match state.disappearance {
            Some(d) if elapsed(d.at, now) >= policy.freeze_after => Recount::Due,
            Some(_) | None => Recount::NotDue,
        };

        let was_disconnected = self.frozen.as_ref();
        let control = follow(Server::Control, &mut state.control, &probe.control, was_disconnected, policy, now);
        let target = follow(Server::Target, &mut state.target, &probe.target, was_disconnected, policy, now);
        let disappearance = state.disappearance.map(|Disappearance { at, gone, of }| Frozen {
            disconnected_since: at,
            cause: Cause::Disappearance { gone, of },
        });
        let skew = probe.clock_skew.filter(|skew| skew.unsigned_abs() > policy.clock_skew).or(self.clock_skew);
        state.clock_skew = None;
        let skewed = skew.map(|ahead| Frozen { disconnected_since: now, cause: Cause::ClockSkew { ahead } });
        let frozen = control.or(target).or(disappearance).or(skewed);

        let transition = match (&self.frozen, &frozen) {
            (None, Some(started)) => Transition::Froze(started.clone()),
            (Some(ended), None) => Transition::Unfroze(ended.clone()),
            (None, None) | (Some(_), Some(_)) => Transition::None,
        };
        // A freeze may change its cause (a server returns with an empty cluster). It lasts since the first one began.
        state.frozen = match (&self.frozen, frozen) {
            (Some(before), Some(now)) => Some(Frozen { disconnected_since: before.disconnected_since, ..now }),
            (_, frozen) => frozen,
        };
        let again = state.next_check(probe, policy);
        Evaluation { state, transition, recount, again }
    }

    /// An interrupted watch triggers a check, so nothing is probed while all watches are established.
    fn next_check(&self, probe: &Probe, policy: &SafetyPolicy) -> Duration {
        let broken = probe.control != Connection::Watching || probe.target != Connection::Watching;
        let counting = self.disappearance.map(|d| policy.freeze_after.saturating_sub(elapsed(d.at, probe.now)));
        let skewed = matches!(&self.frozen, Some(Frozen { cause: Cause::ClockSkew { .. }, .. }));
        let asking =
            if skewed || (broken && self.frozen.is_none()) { policy.freeze_after / 5 } else { policy.probe_interval };
        counting.filter(|left| !left.is_zero()).map_or(asking, |left| left.min(asking))
    }
}

/// Follows one server, and returns a freeze if it causes one.
fn follow(
    server: Server,
    silence: &mut Silence,
    connection: &Connection,
    was_disconnected: Option<&Frozen>,
    policy: &SafetyPolicy,
    now: Timestamp,
) -> Option<Frozen> {
    match connection {
        Connection::Watching => {
            *silence = None;
            None
        }
        Connection::Answering { broken_since, why } => {
            *silence = None;
            let refusal = Cause::Refusal { server, why: why.clone() };
            // A server that returns responds before its watch is established, and until then nothing new is known.
            let still_disconnected = was_disconnected.is_some_and(|frozen| match &frozen.cause {
                Cause::Silence(which) | Cause::Refusal { server: which, .. } => *which == server,
                Cause::Disappearance { .. } | Cause::ClockSkew { .. } => false,
            });
            let long_enough = elapsed(*broken_since, now) >= policy.refused_after;
            (still_disconnected || long_enough).then_some(Frozen { disconnected_since: *broken_since, cause: refusal })
        }
        Connection::Unreachable => {
            let since = *silence.get_or_insert(now);
            let long_enough = elapsed(since, now) >= policy.freeze_after;
            long_enough.then_some(Frozen { disconnected_since: since, cause: Cause::Silence(server) })
        }
    }
}

/// Zero if the clock was set back: then it only takes longer.
fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "the API server of the control cluster",
            Self::Target => "the API server of the target cluster",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(server) => write!(f, "{server} does not respond"),
            Self::Refusal { server: server @ Server::Control, why } => {
                write!(f, "{server} does not return Machines: {why}")
            }
            Self::Refusal { server: server @ Server::Target, why } => {
                write!(f, "{server} does not return Nodes: {why}")
            }
            Self::Disappearance { gone, of } => write!(f, "{gone} of {of} Nodes disappeared at the same time"),
            Self::ClockSkew { ahead } => {
                let by = api::GoDuration::from(SignedDuration::from_secs(ahead.abs().as_secs()));
                let way = if ahead.is_negative() { "behind" } else { "ahead of" };
                write!(f, "the clock of this process is {by} {way} the API server's; correct the clock")
            }
        }
    }
}

#[cfg(test)]
mod tests;
