//! The things that can go wrong, and with which requests they can.

use std::time::Duration;

/// What a request asks for, in the API server's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Delete an object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];
    /// The verbs that change something.
    pub const WRITES: [Self; 5] = [Self::Create, Self::Update, Self::Patch, Self::Delete, Self::DeleteCollection];
    /// The verbs that change nothing.
    pub const READS: [Self; 3] = [Self::Get, Self::List, Self::Watch];

    /// The word the API server's audit log and RBAC use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// What a rule deals out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server takes its time: at least this long, at most that long.
    Delay {
        /// Drawn anew for each request, not below this.
        least: Duration,
        /// Nor above this.
        most: Duration,
    },
    /// The server says no, and nothing has happened.
    Refuse(Refusal),
    /// The connection breaks, and nothing has happened.
    Disconnect,
    /// The request is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// An admission webhook puts everything back: the request succeeds, and the object is as it was.
    Revert,
    /// A read shows the past.
    Stale(Staleness),
    /// A watch goes wrong after a while.
    Watch {
        /// How.
        fault: WatchFault,
        /// When.
        after: After,
    },
}

impl Fault {
    /// Whether this can happen to a request with this verb. A rule never fires on one it cannot happen to, so a rule about
    /// all requests may carry any fault.
    pub fn can_befall(self, verb: Verb) -> bool {
        match self {
            Self::Delay { .. } | Self::Disconnect => true,
            Self::Refuse(refusal) => match refusal {
                Refusal::Conflict => Verb::WRITES.contains(&verb),
                Refusal::Gone => matches!(verb, Verb::List | Verb::Watch),
                Refusal::TooManyRequests { .. }
                | Refusal::Forbidden
                | Refusal::InternalError
                | Refusal::Unavailable => true,
            },
            Self::LoseAnswer => verb != Verb::Watch,
            Self::Revert => matches!(verb, Verb::Update | Verb::Patch),
            Self::Stale(_) => matches!(verb, Verb::Get | Verb::List),
            Self::Watch { .. } => verb == Verb::Watch,
        }
    }
}

/// The ways of saying no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 409: somebody else wrote first.
    Conflict,
    /// 429: too many requests.
    TooManyRequests {
        /// The `Retry-After` header in seconds. A blocked eviction comes without one.
        retry_after: Option<u64>,
    },
    /// 403: no role grants it.
    Forbidden,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 410: the resourceVersion is too old. Lists and watches only.
    Gone,
}

/// Which past a stale read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// As it was this long ago.
    Age(Duration),
    /// As it was this many writes ago.
    Revisions(u64),
}

/// The ways a watch goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// The connection breaks.
    Drop,
    /// It stays open and says nothing more, no bookmarks either.
    Stall,
    /// It ends with an `ERROR` event, 410.
    Expire,
}

/// When a watch goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// After this many events, bookmarks not counted; zero means at once.
    Events(u64),
    /// This long after it was opened.
    Time(Duration),
}
