//! Optional calls of a driver.
//!
//! Create and delete are mandatory. Other calls are optional: some clouds need no initialization, some cannot list VMs. A caller
//! that knows the capabilities omits the call and reports it (for example "orphan VMs are not deleted"), instead of receiving
//! `Unimplemented` in every reconcile.

/// The optional calls of a driver. Calls that are not offered return [`Unimplemented`](crate::Code::Unimplemented).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Initialization of a created VM.
    pub initialize: Support,
    /// Lookup of the VM of a Machine.
    pub status: Support,
    /// List of the VMs of a MachineClass. Required to find orphan VMs.
    pub list: Support,
    /// IDs of volumes in the cloud. Without it a drain does not wait until volumes are detached.
    pub volume_ids: Support,
}

/// Whether a driver offers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Offered: the call never returns `Unimplemented`.
    Offered,
    /// Not offered: the call always returns `Unimplemented`.
    NotOffered,
}

impl Capabilities {
    /// All calls.
    pub const ALL: Self = Self {
        initialize: Support::Offered,
        status: Support::Offered,
        list: Support::Offered,
        volume_ids: Support::Offered,
    };

    /// Create and delete only.
    pub const MINIMAL: Self = Self {
        initialize: Support::NotOffered,
        status: Support::NotOffered,
        list: Support::NotOffered,
        volume_ids: Support::NotOffered,
    };
}

/// The six calls, as data.
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
    /// All calls.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Initialize, Self::Delete, Self::Status, Self::List, Self::VolumeIds];

    /// Returns the value of the label `operation` in metrics, as in the drivers of MCM.
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
    /// Returns whether a driver with these capabilities offers the call.
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
