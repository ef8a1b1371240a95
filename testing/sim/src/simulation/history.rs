//! The changes and faults of a run, as data.
//!
//! The history is drawn before the run begins. So a run can be repeated with a part of the history left out. When
//! nothing more can be left out, the shortest history that still fails is found. Objects are named by a number that
//! picks one of those that exist at that moment.

#![allow(missing_docs, reason = "the names of the fields and the comments of the variants describe them")]

use std::fmt;
use std::time::Duration;

use driver::{Code, Method};

use crate::oracle::FaultScope;

/// A change or a fault, and the time at which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Time since the start of the run.
    pub at: Duration,
    /// The change or fault.
    pub kind: EntryKind,
}

/// A change or a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A change by a user or by the autoscaler.
    Change(Change),
    /// A fault.
    Fault(Fault),
}

/// Picks one of the existing objects.
pub type Pick = u16;

/// A change by a user or by the autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the replicas of a pool.
    Scale { pool: usize, replicas: u16 },
    /// Adds this number to the replicas of a pool.
    ScaleBy { pool: usize, by: i8 },
    /// Sets the next class of a pool.
    Roll { pool: usize },
    /// Sets the previous class of a pool.
    RollBack { pool: usize },
    /// Pauses a pool.
    Pause { pool: usize },
    /// Resumes a pool.
    Resume { pool: usize },
    /// Deletes a Machine.
    Delete { pick: Pick },
    /// Force-deletes a Machine.
    ForceDelete { pick: Pick },
    /// Sets the priority of a Machine.
    Prioritize { pick: Pick, priority: u8 },
    /// Annotates a Machine to be preserved.
    Preserve { pick: Pick, value: Preserve },
    /// Lowers the replicas of a pool by one and names the Machine to delete, as the autoscaler does.
    ScaleDownByName { pick: Pick },
    /// Cordons a Node.
    Cordon { pick: Pick },
    /// Uncordons a Node.
    Uncordon { pick: Pick },
    /// Deletes a Node.
    DeleteNode { pick: Pick },
    /// Deletes a Machine and removes its finalizers, so that its VM is left behind.
    Abandon { pick: Pick },
    /// Sets this version of the node template of a pool.
    EditTemplate { pool: usize, version: u8 },
}

/// Value of the preserve annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preserve {
    /// Preserve now.
    Now,
    /// Preserve after a failure.
    WhenFailed,
    /// Do not preserve.
    No,
}

/// The API server. Both are one server here, but the controllers use different clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The API server with the Machines.
    Control,
    /// The API server with the Nodes.
    Target,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A share of the requests to an API server fails.
    Requests { side: Side, requests: RequestKind, how: RequestFault, percent: u8, duration: Duration },
    /// Watches break repeatedly.
    Watches { side: Side, duration: Duration },
    /// The API server is compacted and watches break, so that they cannot resume.
    Compaction { side: Side },
    /// Watch events are delayed.
    Lag { side: Side, duration: Duration },
    /// An API server is unreachable.
    Partition { side: Side, duration: Duration },
    /// All requests are rejected with 403.
    Forbidden { side: Side, duration: Duration },
    /// A share of the driver calls fails.
    Calls { how: CallFault, method: Option<Method>, percent: u8, duration: Duration },
    /// About half of the VMs are missing from each list.
    Omissions { duration: Duration },
    /// A VM fails.
    Vm { how: VmFault, pick: Pick },
    /// The VM of a Machine loses power.
    MachineDies { pick: Pick },
    /// Every second VM fails.
    Zone { how: VmFault, revived: Option<Duration> },
    /// The cloud has no capacity for another VM.
    Quota { duration: Duration },
    /// The leading process is killed, and the next one starts after a while.
    Crash { down: Duration },
    /// The leading process cannot reach the API server, and another one can.
    LeaderPartition { duration: Duration },
    /// The API server is copied. When the copy has this age, the API server goes down for a while and is restored to
    /// the copy.
    Restore { age: Duration, down: Duration },
    /// The process is killed, a process of another version writes objects, and the next process starts.
    OtherVersion { version: Version, down: Duration },
    /// Half of the creates make two VMs for a Machine and fail.
    Doubles { duration: Duration },
}

/// Version of the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A version without the fields that MCM does not have.
    Older,
    /// A version that writes these fields in another format, and more fields.
    Newer,
}

/// Requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// All requests.
    All,
    /// Creates.
    Creates,
    /// Deletes.
    Deletes,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// 500 without an effect.
    Failed,
    /// 409.
    Conflict,
    /// 429.
    Throttled,
    /// The request is lost: the connection breaks before it has an effect.
    RequestLost,
    /// The request is processed, and the response is lost.
    ResponseLost,
    /// It takes up to five seconds.
    Slow,
    /// A webhook rejects it.
    Rejected,
    /// A webhook reverts it: it succeeds without an effect.
    Reverted,
}

/// How a driver call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// It fails without an effect.
    Fails(Code),
    /// It has its effect and reports this code.
    FailsAfterEffect(Code),
    /// It begins after this delay.
    Slow(Duration),
    /// It never returns.
    Hangs,
    /// It has its effect and never returns.
    HangsAfterEffect,
}

/// How a VM fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmFault {
    /// It loses power.
    Dies,
    /// It hangs. If it is booting, its Node never joins.
    Hangs,
    /// It reboots.
    Reboots,
    /// It is deleted externally.
    Vanishes,
}

impl Fault {
    /// Duration of the fault.
    pub fn duration(&self) -> Duration {
        match self {
            Self::Requests { duration, .. }
            | Self::Watches { duration, .. }
            | Self::Lag { duration, .. }
            | Self::Partition { duration, .. }
            | Self::Forbidden { duration, .. }
            | Self::Calls { duration, .. }
            | Self::LeaderPartition { duration }
            | Self::Omissions { duration }
            | Self::Doubles { duration }
            | Self::Quota { duration } => *duration,
            Self::Restore { age, .. } => *age,
            Self::Crash { down } | Self::OtherVersion { down, .. } => *down,
            Self::Zone { revived, .. } => revived.unwrap_or_default(),
            Self::Vm { .. } | Self::MachineDies { .. } | Self::Compaction { .. } => Duration::ZERO,
        }
    }
}

impl Fault {
    /// Scope of the fault.
    pub(super) fn scope(&self) -> FaultScope {
        match self {
            Self::Requests { .. }
            | Self::Watches { .. }
            | Self::Compaction { .. }
            | Self::Lag { .. }
            | Self::Partition { .. }
            | Self::Forbidden { .. }
            | Self::Crash { .. }
            | Self::LeaderPartition { .. }
            | Self::Restore { .. }
            | Self::OtherVersion { .. } => FaultScope::Controllers,
            Self::Calls { .. }
            | Self::Omissions { .. }
            | Self::Doubles { .. }
            | Self::Vm { .. }
            | Self::MachineDies { .. }
            | Self::Zone { .. }
            | Self::Quota { .. } => FaultScope::Cloud,
        }
    }
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        write!(f, "{:>3}:{:02} {}", seconds / 60, seconds % 60, self.kind)
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(act) => act.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { pool, replicas } => write!(f, "user scales pool-{pool} to {replicas}"),
            Self::ScaleBy { pool, by } => write!(f, "user scales pool-{pool} by {by:+}"),
            Self::Roll { pool } => write!(f, "user sets the next class of pool-{pool}"),
            Self::RollBack { pool } => write!(f, "user sets the previous class of pool-{pool}"),
            Self::Pause { pool } => write!(f, "user pauses pool-{pool}"),
            Self::Resume { pool } => write!(f, "user resumes pool-{pool}"),
            Self::Delete { pick } => write!(f, "user deletes Machine #{pick}"),
            Self::ForceDelete { pick } => write!(f, "user force-deletes Machine #{pick}"),
            Self::Prioritize { pick, priority } => write!(f, "user sets priority {priority} of Machine #{pick}"),
            Self::Preserve { pick, value } => {
                let value = match value {
                    Preserve::Now => "now",
                    Preserve::WhenFailed => "when-failed",
                    Preserve::No => "false",
                };
                write!(f, "user annotates Machine #{pick} with preserve={value}")
            }
            Self::ScaleDownByName { pick } => write!(f, "autoscaler scales down Machine #{pick}"),
            Self::Cordon { pick } => write!(f, "user cordons Node #{pick}"),
            Self::Uncordon { pick } => write!(f, "user uncordons Node #{pick}"),
            Self::DeleteNode { pick } => write!(f, "user deletes Node #{pick}"),
            Self::Abandon { pick } => write!(f, "user deletes Machine #{pick} and its finalizers"),
            Self::EditTemplate { pool, version } => write!(f, "user sets node template {version} of pool-{pool}"),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { side, requests, how, percent, .. } => {
                let requests = match requests {
                    RequestKind::All => "requests",
                    RequestKind::Creates => "creates",
                    RequestKind::Deletes => "deletes",
                };
                write!(f, "{percent} % of {requests} to {side} {how}")?;
            }
            Self::Watches { side, .. } => write!(f, "watches of {side} break")?,
            Self::Compaction { side } => return write!(f, "watches of {side} break and cannot resume"),
            Self::Lag { side, .. } => write!(f, "watches of {side} are delayed")?,
            Self::Partition { side, .. } => write!(f, "{side} is unreachable")?,
            Self::Forbidden { side, .. } => write!(f, "{side} forbids everything")?,
            Self::Calls { how, method, percent, .. } => {
                let method = method.map_or("any", Method::operation);
                write!(f, "{percent} % of driver calls ({method}) {how}")?;
            }
            Self::Vm { how, pick } => return write!(f, "VM #{pick} {how}"),
            Self::MachineDies { pick } => return write!(f, "the VM of Machine #{pick} loses power"),
            Self::Zone { how, revived: None } => return write!(f, "every second VM {how}"),
            Self::Zone { how, .. } => write!(f, "every second VM {how}")?,
            Self::LeaderPartition { .. } => f.write_str("the leading process cannot reach control")?,
            Self::Quota { .. } => f.write_str("the cloud has no capacity")?,
            Self::Omissions { .. } => f.write_str("lists of VMs are incomplete")?,
            Self::Doubles { .. } => f.write_str("half of the creates make two VMs and fail")?,
            Self::Crash { down } => {
                return write!(f, "the leading process is killed; the next one starts {} s later", down.as_secs());
            }
            Self::Restore { age, down } => {
                let (age, down) = (age.as_secs(), down.as_secs());
                return write!(f, "the API server is restored to this state {age} s later and is down for {down} s");
            }
            Self::OtherVersion { version, down } => {
                let version = match version {
                    Version::Older => "an older",
                    Version::Newer => "a newer",
                };
                return write!(
                    f,
                    "the leading process is killed and {version} version writes objects; the next process starts {} s later",
                    down.as_secs()
                );
            }
        }
        write!(f, ", for {} s", self.duration().as_secs())
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "fail with 500",
            Self::Conflict => "fail with 409",
            Self::Throttled => "fail with 429",
            Self::RequestLost => "are lost",
            Self::ResponseLost => "succeed, but the responses are lost",
            Self::Slow => "are slow",
            Self::Rejected => "are rejected by a webhook",
            Self::Reverted => "are reverted by a webhook",
        })
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(code) => write!(f, "fail with {code}"),
            Self::FailsAfterEffect(code) => write!(f, "succeed but report {code}"),
            Self::Slow(time) => write!(f, "begin {} s late", time.as_secs()),
            Self::Hangs => f.write_str("never return"),
            Self::HangsAfterEffect => f.write_str("succeed but never return"),
        }
    }
}

impl fmt::Display for VmFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dies => "loses power",
            Self::Hangs => "hangs",
            Self::Reboots => "reboots",
            Self::Vanishes => "disappears",
        })
    }
}
