//! What runs in it, under the names that its scripts know.

/// A service whose API others call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Users, tokens and the catalogue.
    Keystone,
    /// Images.
    Glance,
    /// Servers.
    Nova,
    /// What hosts have room for; only Nova asks.
    Placement,
    /// Networks, subnets, ports and security groups.
    Neutron,
    /// Volumes.
    Cinder,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Keystone, Self::Glance, Self::Nova, Self::Placement, Self::Neutron, Self::Cinder];

    /// Its name in the catalogue.
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

    /// The variable that names its port.
    pub(crate) fn variable(self) -> String {
        self.name().to_uppercase()
    }

    /// The process that listens on its port.
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

/// A process that can be ended and begun again, such as `nova-compute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service(pub &'static str);
