//! The services and their names in the scripts.

/// A service with an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Users, tokens and the catalog.
    Keystone,
    /// Images.
    Glance,
    /// Servers.
    Nova,
    /// Capacity of hosts; used only by Nova.
    Placement,
    /// Networks, subnets, ports and security groups.
    Neutron,
    /// Volumes.
    Cinder,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Keystone, Self::Glance, Self::Nova, Self::Placement, Self::Neutron, Self::Cinder];

    /// Returns its name in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keystone => "keystone",
            Self::Glance => "glance",
            Self::Nova => "nova",
            Self::Placement => "placement",
            Self::Neutron => "neutron",
            Self::Cinder => "cinder",
        }
    }

    /// Returns the variable for its port.
    pub(crate) fn variable(self) -> String {
        self.name().to_uppercase()
    }

    /// Returns the process that listens on its port.
    pub fn process(self) -> Service {
        match self {
            Self::Keystone => Service("keystone"),
            Self::Glance => Service("glance-api"),
            Self::Nova => Service("nova-api"),
            Self::Placement => Service("placement"),
            Self::Neutron => Service("neutron-server"),
            Self::Cinder => Service("cinder-api"),
        }
    }
}

/// A process that can be stopped and started, such as `nova-compute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service(pub &'static str);
