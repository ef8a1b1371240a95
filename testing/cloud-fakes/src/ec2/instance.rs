//! An instance, and how it is at any instant.

use std::collections::BTreeMap;
use std::time::Duration;

use super::interface::Interface;
use super::settings::Settings;
use super::timed::Timed;

/// How far an instance is. The numbers are AWS'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It was asked for.
    Pending = 0,
    /// It runs.
    Running = 16,
    /// It was asked to end.
    ShuttingDown = 32,
    /// It has ended.
    Terminated = 48,
}

impl State {
    /// What AWS calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }
}

/// A volume that came with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// What the instance calls it.
    pub device: String,
    /// `gp3` and the like.
    pub kind: String,
    /// In GiB.
    pub size: u32,
    /// Operations per second that were asked for.
    pub iops: Option<u32>,
    /// MiB per second that were asked for.
    pub throughput: Option<u32>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Whether it goes with its instance.
    pub delete_on_termination: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// An instance. Instants are offsets on the cloud's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// What it was made from.
    pub image: String,
    /// Its type.
    pub kind: String,
    /// Its zone.
    pub zone: String,
    /// What it was launched with, all of it.
    pub launch: crate::parameters::Parameters,
    /// Its network interfaces.
    pub interfaces: Vec<Interface>,
    /// The volumes it came with.
    pub volumes: Vec<Volume>,
    /// The token that keeps a repeated launch from making another.
    pub client_token: Option<String>,
    /// When it was made.
    pub made: Duration,
    /// When it was asked to end.
    pub ended: Option<Duration>,
    pub(super) tags: Timed<BTreeMap<String, String>>,
}

impl Instance {
    /// Its tags.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        self.tags.latest()
    }

    /// Returns the tag `Name`; empty if it is unset.
    pub fn name(&self) -> &str {
        self.tags().get("Name").map(String::as_str).unwrap_or_default()
    }

    /// What it was started with, as it was sent.
    pub fn user_data(&self) -> Option<&str> {
        self.launch.get("UserData")
    }

    /// How far it was at an instant.
    pub fn state(&self, then: Duration, settings: &Settings) -> State {
        match self.ended {
            Some(ended) if then >= ended + settings.shutting_down_for => State::Terminated,
            Some(ended) if then >= ended => State::ShuttingDown,
            _ if then >= self.made + settings.pending_for => State::Running,
            _ => State::Pending,
        }
    }

    /// Its private DNS name at an instant: it comes late, and ends with the instance.
    pub fn private_dns_name(&self, then: Duration, settings: &Settings) -> String {
        let named = then >= self.made + settings.named_after && self.state(then, settings) < State::ShuttingDown;
        let address = self.interfaces.first().filter(|_| named).map(|interface| interface.address.replace('.', "-"));
        address.map(|address| format!("ip-{address}.{}.compute.internal", settings.region)).unwrap_or_default()
    }

    /// Returns whether a change at `then` is visible at `now`.
    pub(super) fn is_shown(&self, then: Duration, now: Duration, settings: &Settings) -> bool {
        let forgotten = self.ended.is_some_and(|ended| now >= ended + settings.terminated_shown_for);
        self.made <= then && !forgotten
    }
}
