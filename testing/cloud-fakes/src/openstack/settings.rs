//! What the cloud is like.

use std::time::Duration;

/// How Nova finds servers by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// As upstream does: the name is a regular expression that matches anywhere.
    #[default]
    Pattern,
    /// The letters are searched for, anchors among them.
    Letters,
    /// No server is ever found by its name.
    Never,
}

/// Settings of the cloud. By default every effect is immediate, and one project has a large quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The password of the user `mcm`.
    pub password: String,
    /// How long a token lives.
    pub token_lives: Duration,
    /// Until a server is built.
    pub builds_for: Duration,
    /// Until a server is gone.
    pub deletes_for: Duration,
    /// Until a volume is made.
    pub volume_builds_for: Duration,
    /// How many servers the project may have.
    pub servers: usize,
    /// How many ports.
    pub ports: usize,
    /// How many volumes.
    pub volumes: usize,
    /// How many servers the hosts have room for; what is accepted beyond that fails to build.
    pub room: usize,
    /// How many items a page of a list has.
    pub page: usize,
    /// How Nova finds servers by name.
    pub names: Names,
}

impl Settings {
    /// The only region.
    pub const REGION: &'static str = "RegionOne";
    /// The user that a driver is.
    pub const USER: &'static str = "mcm";
    /// Its project.
    pub const PROJECT: &'static str = "shoot";
    /// The id of its project.
    pub const PROJECT_ID: &'static str = "p-1";
    /// The domain of both.
    pub const DOMAIN: &'static str = "Default";
    /// The id of an application credential of that user.
    pub const CREDENTIAL: &'static str = "ac-1";
    /// The only zone.
    pub const ZONE: &'static str = "nova";
    /// The name of a flavor that is there.
    pub const FLAVOR: &'static str = "m1.small";
    /// The name of a flavor that no host has room for.
    pub const HUGE_FLAVOR: &'static str = "m1.huge";
    /// The name of an image that is there once.
    pub const IMAGE: &'static str = "img";
    /// Name and id of the network.
    pub const NETWORK: (&'static str, &'static str) = ("shoot", "net-1");
    /// The id of its subnet.
    pub const SUBNET: &'static str = "sub-1";
    /// The name of the key pair.
    pub const KEY: &'static str = "k";
    /// Name and id of the security group.
    pub const SECURITY_GROUP: (&'static str, &'static str) = ("sg", "sg-1");
    /// The name of the type of volumes.
    pub const VOLUME_TYPE: &'static str = "fake";
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            password: "mcm-secret".to_owned(),
            token_lives: Duration::from_hours(1),
            builds_for: Duration::ZERO,
            deletes_for: Duration::ZERO,
            volume_builds_for: Duration::ZERO,
            servers: 100,
            ports: 100,
            volumes: 100,
            room: 100,
            page: 1000,
            names: Names::default(),
        }
    }
}
