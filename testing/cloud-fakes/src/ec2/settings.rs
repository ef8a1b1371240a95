//! What the cloud is like.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An image that instances are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// What its root device is called; empty for an image without one.
    pub root_device_name: String,
}

/// Settings of the cloud. By default every effect is immediate and every caller is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The region that addresses and zones are named after.
    pub region: String,
    /// The images there are.
    pub images: Vec<Image>,
    /// Subnets and their zones; where there are none, every subnet is known and is in the region's first zone.
    pub subnets: BTreeMap<String, String>,
    /// Instance profiles by name; where there are none, every profile is known.
    pub instance_profiles: BTreeSet<String>,
    /// How far describing looks into the past.
    pub shows_after: Duration,
    /// Until an instance runs.
    pub pending_for: Duration,
    /// Until an instance has its private DNS name.
    pub named_after: Duration,
    /// Until a terminated instance has shut down.
    pub shutting_down_for: Duration,
    /// For how long a terminated instance is shown.
    pub terminated_shown_for: Duration,
    /// The accepted access key ids; all if unset. Keys issued by STS are accepted, too.
    pub access_keys: Option<BTreeSet<String>>,
    /// When the keys that STS gives out expire, as it writes it.
    pub session_ends: String,
    /// The account that all this belongs to.
    pub account: String,
}

impl Settings {
    /// An image that is always there; moto knows one by this name, too.
    pub const IMAGE: &'static str = "ami-03cf127a";
}

impl Default for Settings {
    fn default() -> Self {
        let image = Image { id: Self::IMAGE.to_owned(), root_device_name: "/dev/sda1".to_owned() };
        Self {
            region: "eu-west-1".to_owned(),
            images: vec![image],
            subnets: BTreeMap::new(),
            instance_profiles: BTreeSet::new(),
            shows_after: Duration::ZERO,
            pending_for: Duration::ZERO,
            named_after: Duration::ZERO,
            shutting_down_for: Duration::ZERO,
            terminated_shown_for: Duration::from_hours(1),
            access_keys: None,
            session_ends: "2099-01-01T00:00:00Z".to_owned(),
            account: "123456789012".to_owned(),
        }
    }
}
