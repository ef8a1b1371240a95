//! What is done to a cluster, as data.
//!
//! Everything that people do and that goes wrong is written down before the run begins. So a run can be repeated without some of it, and
//! what is left when nothing more can be left out is the shortest history that still fails. Objects are named by a number that picks
//! among those that are there at that moment.

#![allow(
    missing_docs,
    reason = "what a field of a variant holds is in its name, and what it does in the words of the variant"
)]

use std::fmt;
use std::time::Duration;

use driver::{Code, Method};

use crate::oracle::Trouble;

/// One thing, and when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// From the beginning of the run.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// Something that somebody does, or that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A person or the autoscaler does this.
    Act(Act),
    /// This goes wrong.
    Fault(Fault),
}

/// Picks one of those that are there.
pub type Pick = u16;

/// What people and the autoscaler do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets the replicas of a pool.
    Scale { pool: usize, replicas: u16 },
    /// Changes the replicas of a pool by so many.
    ScaleBy { pool: usize, by: i8 },
    /// Gives a pool the next class.
    Roll { pool: usize },
    /// Gives a pool the class before.
    RollBack { pool: usize },
    /// Pauses a pool.
    Pause { pool: usize },
    /// Ends that.
    Resume { pool: usize },
    /// Deletes a Machine.
    Delete { pick: Pick },
    /// Deletes a Machine by force.
    ForceDelete { pick: Pick },
    /// Sets the priority of a Machine.
    Prioritize { pick: Pick, priority: u8 },
    /// Asks to keep a Machine.
    Preserve { pick: Pick, value: Preserve },
    /// Lowers the replicas of a pool by one and names the Machine that is to go, as the autoscaler does.
    ScaleDownByName { pick: Pick },
    /// Cordons a Node.
    Cordon { pick: Pick },
    /// Ends that.
    Uncordon { pick: Pick },
    /// Deletes a Node.
    DeleteNode { pick: Pick },
    /// Deletes a Machine and takes its finalizers away: its VM is left behind.
    Abandon { pick: Pick },
    /// Gives a pool this version of its node template.
    EditTemplate { pool: usize, version: u8 },
}

/// How a machine is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preserve {
    /// From now on.
    Now,
    /// When it fails.
    WhenFailed,
    /// Not any more.
    No,
}

/// Which API server is meant. Both are one server here; the controllers' clients differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one with Machines.
    Control,
    /// The one with Nodes.
    Target,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Some requests to an API server go wrong.
    Requests { side: Side, which: Which, how: RequestFault, percent: u8, lasts: Duration },
    /// Watches break, again and again.
    Watches { side: Side, lasts: Duration },
    /// The API server forgets its past, and watches break: what they missed cannot be shown any more.
    Compaction { side: Side },
    /// What watches would show comes late.
    Lag { side: Side, lasts: Duration },
    /// An API server cannot be reached.
    Partition { side: Side, lasts: Duration },
    /// Everything is forbidden.
    Forbidden { side: Side, lasts: Duration },
    /// Some calls to the driver go wrong.
    Calls { how: CallFault, method: Option<Method>, percent: u8, lasts: Duration },
    /// Lists of VMs leave every second one out, or so.
    Omissions { lasts: Duration },
    /// Something becomes of a VM.
    Vm { how: VmFault, pick: Pick },
    /// The VM of a Machine loses power.
    MachineDies { pick: Pick },
    /// Something becomes of every second VM.
    Zone { how: VmFault, revived: Option<Duration> },
    /// The cloud has no room for another VM.
    Quota { lasts: Duration },
    /// The process dies, and the next one begins after a while.
    Crash { down: Duration },
    /// The process that leads cannot reach the API server, and another one can.
    Deposed { lasts: Duration },
    /// The API server is copied; when the copy has this age nobody can reach the API server for a while, and then it is that copy.
    PutBack { age: Duration, down: Duration },
    /// The process dies, a process of another version is there for a while, and the next one begins.
    OtherVersion { version: Version, down: Duration },
    /// The cloud creates two VMs for a Machine, and half of the creates fail so.
    Doubles { lasts: Duration },
}

/// Which version of ours was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One that writes nothing of what only we write.
    Older,
    /// One that writes it in other words, and more besides.
    Newer,
}

/// Which requests go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that make something.
    Creates,
    /// Those that delete something.
    Deletes,
}

/// How a request goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// 500, and nothing has happened.
    Failed,
    /// 409.
    Conflict,
    /// 429.
    Throttled,
    /// The connection breaks, and nothing has happened.
    LostBefore,
    /// It is carried out, and the answer is lost.
    LostAfter,
    /// It takes up to five seconds.
    Slow,
    /// A webhook refuses it.
    Refused,
    /// A webhook puts everything back: it succeeds, and nothing has changed.
    Reverted,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// It fails, and the cloud did nothing.
    Fails(Code),
    /// It is carried out and reported as failed.
    FailsAfterEffect(Code),
    /// It takes this long to begin.
    Slow(Duration),
    /// It never answers.
    Hangs,
    /// It is carried out and never answers.
    HangsAfterEffect,
}

/// What becomes of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmFault {
    /// It loses power.
    Dies,
    /// Nothing in it moves any more; one that is booting never joins.
    Hangs,
    /// It boots again.
    Reboots,
    /// Somebody deletes it behind our back.
    IsTaken,
}

impl Fault {
    /// How long it goes on after it began.
    pub fn lasts(&self) -> Duration {
        match self {
            Self::Requests { lasts, .. }
            | Self::Watches { lasts, .. }
            | Self::Lag { lasts, .. }
            | Self::Partition { lasts, .. }
            | Self::Forbidden { lasts, .. }
            | Self::Calls { lasts, .. }
            | Self::Deposed { lasts }
            | Self::Omissions { lasts }
            | Self::Doubles { lasts }
            | Self::Quota { lasts } => *lasts,
            Self::PutBack { age, .. } => *age,
            Self::Crash { down } | Self::OtherVersion { down, .. } => *down,
            Self::Zone { revived, .. } => revived.unwrap_or_default(),
            Self::Vm { .. } | Self::MachineDies { .. } | Self::Compaction { .. } => Duration::ZERO,
        }
    }
}

impl Fault {
    /// Whom it befalls.
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Requests { .. }
            | Self::Watches { .. }
            | Self::Compaction { .. }
            | Self::Lag { .. }
            | Self::Partition { .. }
            | Self::Forbidden { .. }
            | Self::Crash { .. }
            | Self::Deposed { .. }
            | Self::PutBack { .. }
            | Self::OtherVersion { .. } => Trouble::Ours,
            Self::Calls { .. }
            | Self::Omissions { .. }
            | Self::Doubles { .. }
            | Self::Vm { .. }
            | Self::MachineDies { .. }
            | Self::Zone { .. }
            | Self::Quota { .. } => Trouble::Around,
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        write!(f, "{:>3}:{:02} {}", seconds / 60, seconds % 60, self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(act) => act.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { pool, replicas } => write!(f, "somebody scales pool-{pool} to {replicas}"),
            Self::ScaleBy { pool, by } => write!(f, "somebody scales pool-{pool} by {by:+}"),
            Self::Roll { pool } => write!(f, "somebody gives pool-{pool} the next class"),
            Self::RollBack { pool } => write!(f, "somebody gives pool-{pool} the class before"),
            Self::Pause { pool } => write!(f, "somebody pauses pool-{pool}"),
            Self::Resume { pool } => write!(f, "somebody resumes pool-{pool}"),
            Self::Delete { pick } => write!(f, "somebody deletes Machine #{pick}"),
            Self::ForceDelete { pick } => write!(f, "somebody deletes Machine #{pick} by force"),
            Self::Prioritize { pick, priority } => write!(f, "somebody gives Machine #{pick} priority {priority}"),
            Self::Preserve { pick, value } => {
                let value = match value {
                    Preserve::Now => "to be kept",
                    Preserve::WhenFailed => "to be kept when it fails",
                    Preserve::No => "not to be kept",
                };
                write!(f, "somebody wants Machine #{pick} {value}")
            }
            Self::ScaleDownByName { pick } => write!(f, "the autoscaler wants Machine #{pick} gone"),
            Self::Cordon { pick } => write!(f, "somebody cordons Node #{pick}"),
            Self::Uncordon { pick } => write!(f, "somebody uncordons Node #{pick}"),
            Self::DeleteNode { pick } => write!(f, "somebody deletes Node #{pick}"),
            Self::Abandon { pick } => write!(f, "somebody deletes Machine #{pick} and its finalizers"),
            Self::EditTemplate { pool, version } => write!(f, "somebody gives pool-{pool} node template {version}"),
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
            Self::Requests { side, which, how, percent, .. } => {
                let which = match which {
                    Which::All => "requests",
                    Which::Creates => "creates",
                    Which::Deletes => "deletes",
                };
                write!(f, "{percent} % of {which} to {side}: {how}")?;
            }
            Self::Watches { side, .. } => write!(f, "watches of {side} break")?,
            Self::Compaction { side } => return write!(f, "watches of {side} break, and the past is forgotten"),
            Self::Lag { side, .. } => write!(f, "watches of {side} show nothing")?,
            Self::Partition { side, .. } => write!(f, "{side} cannot be reached")?,
            Self::Forbidden { side, .. } => write!(f, "{side} forbids everything")?,
            Self::Calls { how, method, percent, .. } => {
                let method = method.map_or("any", Method::operation);
                write!(f, "{percent} % of driver calls ({method}): {how}")?;
            }
            Self::Vm { how, pick } => return write!(f, "VM #{pick} {how}"),
            Self::MachineDies { pick } => return write!(f, "the VM of Machine #{pick} loses power"),
            Self::Zone { how, revived: None } => return write!(f, "every second VM {how}"),
            Self::Zone { how, .. } => write!(f, "every second VM {how}")?,
            Self::Deposed { .. } => f.write_str("the process that leads cannot reach control")?,
            Self::Quota { .. } => f.write_str("the cloud is full")?,
            Self::Omissions { .. } => f.write_str("lists of VMs leave some out")?,
            Self::Doubles { .. } => f.write_str("half of the creates give a Machine two VMs and fail")?,
            Self::Crash { down } => return write!(f, "the process dies; the next begins {} s later", down.as_secs()),
            Self::PutBack { age, down } => {
                let (age, down) = (age.as_secs(), down.as_secs());
                return write!(
                    f,
                    "a copy is made, and {age} s later the API server is put back to it, away for {down} s"
                );
            }
            Self::OtherVersion { version, down } => {
                let version = match version {
                    Version::Older => "an older",
                    Version::Newer => "a newer",
                };
                return write!(
                    f,
                    "the process dies after {version} version; the next begins {} s later",
                    down.as_secs()
                );
            }
        }
        write!(f, ", for {} s", self.lasts().as_secs())
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "answered with 500",
            Self::Conflict => "answered with 409",
            Self::Throttled => "answered with 429",
            Self::LostBefore => "lost on the way",
            Self::LostAfter => "carried out, and the answer is lost",
            Self::Slow => "slow",
            Self::Refused => "refused by a webhook",
            Self::Reverted => "undone by a webhook",
        })
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(code) => write!(f, "fail with {code}"),
            Self::FailsAfterEffect(code) => write!(f, "are carried out and fail with {code}"),
            Self::Slow(time) => write!(f, "begin {} s late", time.as_secs()),
            Self::Hangs => f.write_str("never answer"),
            Self::HangsAfterEffect => f.write_str("are carried out and never answer"),
        }
    }
}

impl fmt::Display for VmFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dies => "loses power",
            Self::Hangs => "hangs",
            Self::Reboots => "reboots",
            Self::IsTaken => "is taken away",
        })
    }
}
