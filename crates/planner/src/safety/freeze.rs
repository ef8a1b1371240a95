//! Whether we see well enough to decide that somebody is dead.
//!
//! A machine is marked Failed because its node has been silent. But silence has two ends: when the API server is away, or shows us an
//! empty cluster because somebody mixed up two kubeconfigs, all nodes fall silent at once, and whoever believes it rebuilds a
//! cluster that was well. So we *freeze*: while we do not see, nothing new is made and no machine is marked Failed. What somebody asked to
//! delete goes on.
//!
//! Four things freeze us, each with an end of its own:
//!
//! | cause | begins | ends |
//! | --- | --- | --- |
//! | silence | an API server whose watch broke has not answered for the freeze timeout | its watch is heard again |
//! | refusal | it answers, but for minutes does not show us Machines or Nodes | its watch is heard again |
//! | disappearance | too many Nodes were gone from one list | a list with quorum, a freeze timeout later, has been read |
//! | clock skew | the clock of this process differs from an API server's by more than the limit | it no longer does |
//!
//! A server that answers, whatever it answers, is not silent: one 403 or 429 starts no timer, and any answer stops a running one.
//! Being frozen is not something that is switched on and off: it is concluded afresh at every look from what is known, so there is
//! no switch that could be stuck.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::SafetyPolicy;

/// An API server that machines depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// Where Machines live.
    Control,
    /// Where their Nodes live.
    Target,
}

/// What one look at the line to an API server showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Its watch is heard.
    Watching,
    /// Its watch is broken, but the server answers.
    Answering {
        /// Since when it is broken.
        broken_since: Timestamp,
        /// Why, as a sentence.
        why: String,
    },
    /// Its watch is broken, and the server does not answer.
    Unreachable,
}

/// What may be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The line to the server of Machines.
    pub control: Connection,
    /// The line to the server of Nodes; `Watching` without one, because nothing is missed there.
    pub target: Connection,
    /// How far the clock of this process is ahead of an API server's; `None` if that is unknown.
    pub clock_skew: Option<SignedDuration>,
    /// When the last list of Nodes that was read with quorum was asked for.
    pub recounted: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// What is remembered between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    control: Silence,
    target: Silence,
    disappearance: Option<Disappearance>,
    /// A skew above the limit that was noticed since the last look.
    clock_skew: Option<SignedDuration>,
    frozen: Option<Frozen>,
}

/// Since when a server has been silent.
type Silence = Option<Timestamp>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Disappearance {
    at: Timestamp,
    gone: usize,
    of: usize,
}

/// A freeze that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The last time at which we certainly saw.
    pub disconnected_since: Timestamp,
    /// Why.
    pub cause: Cause,
}

/// Why we are frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A server does not answer.
    Silence(Server),
    /// A server answers, but does not show us what we need to see.
    Refusal {
        /// Which one.
        server: Server,
        /// What it says.
        why: String,
    },
    /// Too many Nodes were gone at once.
    Disappearance {
        /// How many.
        gone: usize,
        /// Of how many.
        of: usize,
    },
    /// The clock of this process differs from an API server's.
    ClockSkew {
        /// How far it is ahead.
        ahead: SignedDuration,
    },
}

impl Cause {
    /// A word for metric labels.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Silence(_) => "silence",
            Self::Refusal { .. } => "refusal",
            Self::Disappearance { .. } => "disappearance",
            Self::ClockSkew { .. } => "clock_skew",
        }
    }
}

/// What a look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// To be remembered.
    pub state: State,
    /// What is new.
    pub news: News,
    /// Whether Nodes must now be counted again.
    pub recount: Recount,
    /// When to look again at the latest.
    pub again: Duration,
}

/// What a look changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// From now on we are frozen.
    Froze(Frozen),
    /// We see again.
    Thawed(Frozen),
}

/// Whether Nodes must be read again with quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recount {
    /// No.
    NotDue,
    /// Now: it is what ends the freeze.
    Due,
}

impl State {
    /// Why we are frozen, if we are.
    #[must_use]
    pub fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_ref()
    }

    /// Whether decisions may rest on what is seen. Doubt begins with the note of a disappearance, before anyone has judged it.
    #[must_use]
    pub fn sees(&self) -> bool {
        self.frozen.is_none() && self.disappearance.is_none()
    }

    /// Notes that a list of Nodes lacked some that had been there. Whether that freezes us is seen at the next look, which must
    /// follow at once.
    pub fn nodes_disappeared(&mut self, gone: usize, of: usize, policy: &SafetyPolicy, now: Timestamp) {
        if policy.vanished_nodes.is_exceeded(gone, of) {
            self.disappearance = Some(Disappearance { at: now, gone, of });
        }
    }

    /// Moves all times that a backward step of the clock left in the future to now. Otherwise the freeze would last until they are past.
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

    /// Notes a clock skew above the limit. Returns whether a look must follow, which freezes us and, after another look, ends that.
    pub fn clock_skewed(&mut self, skew: SignedDuration) -> bool {
        let is_known = matches!(&self.frozen, Some(Frozen { cause: Cause::ClockSkew { .. }, .. }));
        let is_news = !is_known && self.clock_skew.is_none();
        if is_news {
            self.clock_skew = Some(skew);
        }
        is_news
    }

    /// Concludes from what is known whether we see.
    #[must_use]
    pub fn judge(&self, probe: &Probe, policy: &SafetyPolicy) -> Judgement {
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

        let news = match (&self.frozen, &frozen) {
            (None, Some(begun)) => News::Froze(begun.clone()),
            (Some(ended), None) => News::Thawed(ended.clone()),
            (None, None) | (Some(_), Some(_)) => News::None,
        };
        // One freeze may pass into another (a server comes back empty): we have been disconnected since the first began.
        state.frozen = match (&self.frozen, frozen) {
            (Some(before), Some(now)) => Some(Frozen { disconnected_since: before.disconnected_since, ..now }),
            (_, frozen) => frozen,
        };
        let again = state.look_again_in(probe, policy);
        Judgement { state, news, recount, again }
    }

    /// Lines that are heard wake us when they break, so nothing is asked while all is well.
    fn look_again_in(&self, probe: &Probe, policy: &SafetyPolicy) -> Duration {
        let broken = probe.control != Connection::Watching || probe.target != Connection::Watching;
        let counting = self.disappearance.map(|d| policy.freeze_after.saturating_sub(elapsed(d.at, probe.now)));
        let skewed = matches!(&self.frozen, Some(Frozen { cause: Cause::ClockSkew { .. }, .. }));
        let asking =
            if skewed || (broken && self.frozen.is_none()) { policy.freeze_after / 5 } else { policy.probe_every };
        counting.filter(|left| !left.is_zero()).map_or(asking, |left| left.min(asking))
    }
}

/// Follows one server, and says whether it cuts us off.
fn follow(
    server: Server,
    silence: &mut Silence,
    line: &Connection,
    was_disconnected: Option<&Frozen>,
    policy: &SafetyPolicy,
    now: Timestamp,
) -> Option<Frozen> {
    match line {
        Connection::Watching => {
            *silence = None;
            None
        }
        Connection::Answering { broken_since, why } => {
            *silence = None;
            let refusal = Cause::Refusal { server, why: why.clone() };
            // A server that comes back answers before its watch is heard, and until then we know no more than before.
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

/// Zero for a clock that was put back: then it only takes longer.
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
            Self::Silence(server) => write!(f, "{server} does not answer"),
            Self::Refusal { server: server @ Server::Control, why } => {
                write!(f, "{server} does not show us Machines: {why}")
            }
            Self::Refusal { server: server @ Server::Target, why } => {
                write!(f, "{server} does not show us Nodes: {why}")
            }
            Self::Disappearance { gone, of } => write!(f, "{gone} of {of} Nodes were gone at once"),
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
