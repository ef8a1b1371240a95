//! What a driver can do beyond making and removing VMs.
//!
//! Creating and deleting are mandatory. The rest is not: some clouds need no initialisation, some cannot list. A caller that
//! knows beforehand plans without the call, and says so ("this driver has no list, orphaned VMs are not collected"), instead
//! of being told `Unimplemented` on every reconcile.

/// The optional calls of a driver. What is not offered answers [`Unimplemented`](crate::Code::Unimplemented).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Steps after creation that must be done before the VM is of use.
    pub initialize: Support,
    /// Asking whether the VM of a machine exists.
    pub status: Support,
    /// All VMs of a class and their machines; without it orphaned VMs cannot be found.
    pub list: Support,
    /// The cloud's ids of volumes; without it a drain does not wait for volumes to detach.
    pub volume_ids: Support,
}

/// Whether a driver has a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has, and never answers `Unimplemented` to it.
    Offered,
    /// It has not, and always answers `Unimplemented` to it.
    NotOffered,
}

impl Capabilities {
    /// Every call there is.
    pub const ALL: Self = Self {
        initialize: Support::Offered,
        status: Support::Offered,
        list: Support::Offered,
        volume_ids: Support::Offered,
    };

    /// Create and delete, nothing else.
    pub const MINIMAL: Self = Self {
        initialize: Support::NotOffered,
        status: Support::NotOffered,
        list: Support::NotOffered,
        volume_ids: Support::NotOffered,
    };
}

/// The six calls, as data: for fault scripts, logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// [`Driver::create`](crate::Driver::create)
    Create,
    /// [`Driver::initialize`](crate::Driver::initialize)
    Initialize,
    /// [`Driver::delete`](crate::Driver::delete)
    Delete,
    /// [`Driver::status`](crate::Driver::status)
    Status,
    /// [`Driver::list`](crate::Driver::list)
    List,
    /// [`Driver::volume_ids`](crate::Driver::volume_ids)
    VolumeIds,
}

impl Method {
    /// All six.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Initialize, Self::Delete, Self::Status, Self::List, Self::VolumeIds];

    /// The value of the label `operation` in the metrics that the reference's drivers emit.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Create => "create_machine",
            Self::Initialize => "initialize_machine",
            Self::Delete => "delete_machine",
            Self::Status => "get_machine_status",
            Self::List => "list_machine",
            Self::VolumeIds => "get_volume_ids",
        }
    }
}

impl Capabilities {
    /// Whether a driver with these capabilities has the call.
    pub fn support(&self, method: Method) -> Support {
        match method {
            Method::Create | Method::Delete => Support::Offered,
            Method::Initialize => self.initialize,
            Method::Status => self.status,
            Method::List => self.list,
            Method::VolumeIds => self.volume_ids,
        }
    }
}
