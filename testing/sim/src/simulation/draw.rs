//! Draws the history of a run from random numbers.

use std::time::Duration;

use driver::{Code, Method};
use runtime::Random;

use super::history::{
    CallFault, Change, EntryKind, Fault, HistoryEntry, Pick, Preserve, RequestFault, RequestKind, Side, Version,
    VmFault,
};
use super::length::Length;
use super::profile::{ChangeKind, FaultKind, Profile, Strategy};

/// Initial state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// Update strategy.
    pub(super) strategy: Strategy,
    /// Replicas.
    pub(super) replicas: u16,
    /// `maxSurge`.
    pub(super) surge: u16,
    /// `maxUnavailable`.
    pub(super) unavailable: u16,
}

/// Draws the pools of a run.
pub(super) fn pools(profile: &Profile, random: &Random) -> Vec<Pool> {
    let count = 1 + below(random, profile.pools as u64);
    let pool = |_| {
        let (surge, unavailable) = match random.below(3) {
            0 => (1, 0),
            1 => (0, 1),
            _ => (1, 1),
        };
        // A single strategy draws no random number, so that the histories of older seeds stay the same.
        let strategy = match profile.strategies {
            [only] => *only,
            several => several.get(below(random, several.len() as u64)).copied().unwrap_or(Strategy::Rolling),
        };
        Pool { strategy, replicas: 1 + number(random, profile.machines), surge, unavailable }
    };
    (0..count).map(pool).collect()
}

/// Draws all changes and faults of a run, sorted by time.
pub(super) fn history(profile: &Profile, length: Length, pools: usize, random: &Random) -> Vec<HistoryEntry> {
    let mut draw = Draw { profile, length, pools, random, drawn: Vec::new() };
    let (changes, kinds) = profile.changes;
    for _ in 0..length.count(changes) {
        let at = draw.moment();
        draw.change(at, chosen(kinds, random));
    }
    let (faults, kinds) = profile.faults;
    for _ in 0..length.count(faults) {
        let kind = chosen(kinds, random).unwrap_or(FaultKind::Crash);
        let at = match (random.below(2), kind) {
            (0, kind) if kind != FaultKind::LostDeletes => draw.moment(),
            // The fault begins while the requests of a change are in progress.
            (_, FaultKind::Crash | FaultKind::OtherVersion) => {
                draw.time_of_change() + Duration::from_millis(random.below(4_000))
            }
            _ => draw.time_of_change().saturating_sub(Duration::from_millis(random.below(3_000))),
        };
        draw.fault(at, kind);
    }
    let mut drawn = draw.drawn;
    drawn.sort_by_key(|happening| happening.at);
    drawn
}

fn below(random: &Random, end: u64) -> usize {
    usize::try_from(random.below(end)).unwrap_or_default()
}

fn number(random: &Random, end: u16) -> u16 {
    u16::try_from(random.below(end.into())).unwrap_or_default()
}

fn seconds(random: &Random, least: u64, most: u64) -> Duration {
    Duration::from_secs(least + random.below(most - least + 1))
}

fn chosen<T: Copy>(kinds: &[(T, u32)], random: &Random) -> Option<T> {
    let all: u64 = kinds.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut left = random.below(all);
    kinds.iter().find_map(|(kind, weight)| {
        let weight = u64::from(*weight);
        let found = left < weight;
        left = left.saturating_sub(weight);
        found.then_some(*kind)
    })
}

/// Maximum number of abandoned VMs. With more, none of them is deleted and the controllers report them instead.
const MOST_ABANDONED: usize = 3;

struct Draw<'a> {
    profile: &'a Profile,
    length: Length,
    pools: usize,
    random: &'a Random,
    drawn: Vec<HistoryEntry>,
}

impl Draw<'_> {
    fn push(&mut self, at: Duration, kind: EntryKind) {
        self.drawn.push(HistoryEntry { at, kind });
    }

    fn moment(&self) -> Duration {
        let duration = self.length.time(self.profile.duration);
        Duration::from_millis(self.random.below(u64::try_from(duration.as_millis()).unwrap_or(1)))
    }

    /// Returns the time of a random change: faults have the most effect while a change is in progress.
    fn time_of_change(&self) -> Duration {
        let number = below(self.random, self.drawn.len().max(1) as u64);
        self.drawn.get(number).map_or_else(|| self.moment(), |change| change.at)
    }

    fn pick(&self) -> Pick {
        number(self.random, 1000)
    }

    /// Draws a delay: either short, so that the first change is still in progress, or long.
    fn later(&self) -> Duration {
        match self.random.below(3) {
            0 => Duration::from_millis(self.random.below(3_000)),
            1 => seconds(self.random, 3, 60),
            _ => seconds(self.random, 60, 400),
        }
    }

    fn change(&mut self, at: Duration, kind: Option<ChangeKind>) {
        let Some(kind) = kind else { return };
        let random = self.random;
        let (pool, pick) = (below(random, self.pools as u64), self.pick());
        let replicas = || number(random, self.profile.machines + 1);
        let mut follow_ups = Vec::new();
        let change = match kind {
            ChangeKind::Scale => Change::Scale { pool, replicas: replicas() },
            ChangeKind::ScaleAndBack => {
                let by = 1 + i8::try_from(random.below(2)).unwrap_or_default();
                let by = if random.below(2) == 0 { -by } else { by };
                follow_ups.push((self.later(), Change::ScaleBy { pool, by: -by }));
                Change::ScaleBy { pool, by }
            }
            ChangeKind::Roll => Change::Roll { pool },
            ChangeKind::RollAndBack => {
                follow_ups.push((self.later(), Change::RollBack { pool }));
                Change::Roll { pool }
            }
            ChangeKind::RollAndPause => {
                follow_ups.push((seconds(random, 0, 90), Change::Pause { pool }));
                follow_ups.push((seconds(random, 90, 600), Change::Resume { pool }));
                Change::Roll { pool }
            }
            ChangeKind::Pause => {
                follow_ups.push((self.later(), Change::Resume { pool }));
                Change::Pause { pool }
            }
            ChangeKind::ForceDelete => Change::ForceDelete { pick },
            ChangeKind::Prioritize => {
                Change::Prioritize { pick, priority: u8::try_from(random.below(5)).unwrap_or_default() }
            }
            ChangeKind::Preserve => {
                let value = match random.below(4) {
                    0 => Preserve::Now,
                    1 | 2 => Preserve::WhenFailed,
                    _ => Preserve::No,
                };
                Change::Preserve { pick, value }
            }
            ChangeKind::PreserveAndFail => {
                self.push(at + seconds(random, 0, 2), EntryKind::Fault(Fault::MachineDies { pick }));
                // Usually, the Machine has been marked Failed by then.
                follow_ups.push((seconds(random, 600, 1200), Change::Roll { pool }));
                Change::Preserve { pick, value: Preserve::WhenFailed }
            }
            ChangeKind::ScaleDownByName => Change::ScaleDownByName { pick },
            ChangeKind::Cordon => {
                follow_ups.push((self.later(), Change::Uncordon { pick }));
                Change::Cordon { pick }
            }
            ChangeKind::DeleteNode => Change::DeleteNode { pick },
            ChangeKind::Abandon if self.abandoned() < MOST_ABANDONED => Change::Abandon { pick },
            ChangeKind::PauseAndRoll => {
                // By then, all requests that were decided before the pause have ended.
                follow_ups.push((seconds(random, 35, 90), Change::Roll { pool }));
                follow_ups.push((seconds(random, 150, 600), Change::Resume { pool }));
                Change::Pause { pool }
            }
            ChangeKind::RollAndScaleDown => {
                // Two or three replicas: both MachineSets soon have the same number, and the difference is not
                // divisible.
                let replicas = 2 + number(random, 2);
                self.push(
                    at.saturating_sub(seconds(random, 200, 300)),
                    EntryKind::Change(Change::Scale { pool, replicas }),
                );
                follow_ups.push((seconds(random, 15, 110), Change::ScaleBy { pool, by: -1 }));
                follow_ups.push((seconds(random, 150, 300), Change::ScaleBy { pool, by: 1 }));
                Change::Roll { pool }
            }
            ChangeKind::EditTemplate => {
                Change::EditTemplate { pool, version: u8::try_from(random.below(4)).unwrap_or_default() }
            }
            ChangeKind::PreserveAndScaleDown => {
                if random.below(2) == 0 {
                    follow_ups.push((Duration::ZERO, Change::Prioritize { pick, priority: 1 }));
                }
                let by = -1 - i8::try_from(random.below(2)).unwrap_or_default();
                follow_ups.push((seconds(random, 35, 120), Change::ScaleBy { pool, by }));
                follow_ups.push((seconds(random, 200, 400), Change::ScaleBy { pool, by: -by }));
                Change::Preserve { pick, value: Preserve::Now }
            }
            ChangeKind::Delete | ChangeKind::Abandon => Change::Delete { pick },
        };
        self.push(at, EntryKind::Change(change));
        for (after, change) in follow_ups {
            self.push(at + after, EntryKind::Change(change));
        }
    }

    fn abandoned(&self) -> usize {
        self.drawn.iter().filter(|drawn| matches!(drawn.kind, EntryKind::Change(Change::Abandon { .. }))).count()
    }

    /// Draws the duration of a fault. The maximum is proportional to the length of the history.
    fn fault_duration(&self, least: u64, most: u64) -> Duration {
        let most = self.length.time(Duration::from_secs(most)).as_secs();
        seconds(self.random, least, most.max(least))
    }

    fn fault(&mut self, at: Duration, kind: FaultKind) {
        let random = self.random;
        let side = if random.below(3) == 0 { Side::Target } else { Side::Control };
        let fault = match kind {
            FaultKind::Requests => {
                let how = [RequestFault::Failed, RequestFault::Conflict, RequestFault::Throttled, RequestFault::Slow];
                self.requests(side, &how)
            }
            FaultKind::LostResponses => self.requests(side, &[RequestFault::ResponseLost, RequestFault::RequestLost]),
            FaultKind::LostResponsesAndLag => {
                let duration = self.fault_duration(5, 90);
                self.push(at, EntryKind::Fault(Fault::Lag { side: Side::Control, duration }));
                let requests = [RequestKind::Creates, RequestKind::Deletes, RequestKind::All];
                let requests = requests.get(below(random, 3)).copied().unwrap_or(RequestKind::All);
                Fault::Requests {
                    side: Side::Control,
                    requests,
                    how: RequestFault::ResponseLost,
                    percent: 100,
                    duration,
                }
            }
            FaultKind::LostDeletes => {
                let (side, requests, how) = (Side::Control, RequestKind::Deletes, RequestFault::RequestLost);
                Fault::Requests { side, requests, how, percent: 100, duration: seconds(random, 20, 200) }
            }
            FaultKind::Watches => Fault::Watches { side, duration: self.fault_duration(30, 600) },
            FaultKind::Compaction => Fault::Compaction { side },
            FaultKind::Webhook => self.requests(side, &[RequestFault::Rejected, RequestFault::Reverted]),
            FaultKind::Lag => Fault::Lag { side, duration: self.fault_duration(1, 90) },
            FaultKind::Partition => Fault::Partition { side, duration: self.fault_duration(5, 900) },
            FaultKind::Forbidden => Fault::Forbidden { side, duration: self.fault_duration(5, 600) },
            FaultKind::Calls => self.calls(),
            FaultKind::StuckDeletions => {
                let how = if random.below(3) == 0 { CallFault::Hangs } else { CallFault::Fails(self.code()) };
                Fault::Calls {
                    how,
                    method: Some(Method::Delete),
                    percent: 100,
                    duration: self.fault_duration(600, 1800),
                }
            }
            FaultKind::Omissions => Fault::Omissions { duration: self.fault_duration(600, 3600) },
            FaultKind::Doubles => Fault::Doubles { duration: self.fault_duration(30, 400) },
            FaultKind::Vm => Fault::Vm { how: self.vm(), pick: self.pick() },
            FaultKind::Zone => {
                let how = if random.below(2) == 0 { VmFault::Dies } else { VmFault::Hangs };
                let revived = (random.below(2) == 0).then(|| self.fault_duration(60, 1200));
                Fault::Zone { how, revived }
            }
            FaultKind::Quota => Fault::Quota { duration: self.fault_duration(60, 1500) },
            // A lease expires after a minute, also in a short history.
            FaultKind::LeaderPartition => Fault::LeaderPartition { duration: seconds(random, 20, 300) },
            FaultKind::Crash => Fault::Crash { down: seconds(random, 0, 60) },
            // The API server keeps ten minutes of history. A restore takes some time.
            FaultKind::Restore => Fault::Restore { age: self.fault_duration(60, 480), down: seconds(random, 15, 120) },
            FaultKind::OtherVersion => {
                let version = if random.below(2) == 0 { Version::Older } else { Version::Newer };
                Fault::OtherVersion { version, down: seconds(random, 0, 60) }
            }
        };
        self.push(at, EntryKind::Fault(fault));
    }

    fn code(&self) -> Code {
        CODES.get(below(self.random, CODES.len() as u64)).copied().unwrap_or(Code::Internal)
    }

    fn requests(&self, side: Side, how: &[RequestFault]) -> Fault {
        let how = how.get(below(self.random, how.len() as u64)).copied().unwrap_or(RequestFault::Failed);
        let some = [20, 50, 90].get(below(self.random, 3)).copied().unwrap_or(50);
        // A request that is lost repeatedly may succeed when it is no longer wanted.
        let (requests, percent) = match self.random.below(6) {
            0 => (RequestKind::Creates, 100),
            1 | 2 => (RequestKind::Deletes, 100),
            _ => (RequestKind::All, some),
        };
        Fault::Requests { side, requests, how, percent, duration: self.fault_duration(10, 400) }
    }

    fn calls(&self) -> Fault {
        let random = self.random;
        let method = match random.below(6) {
            0 => None,
            1 | 2 => Some(Method::Create),
            3 => Some(Method::Delete),
            4 => Some(Method::Status),
            _ => Some(Method::List),
        };
        let code = self.code();
        let how = match random.below(6) {
            0 | 1 => CallFault::Fails(code),
            2 | 3 => CallFault::FailsAfterEffect(code),
            4 => CallFault::Slow(seconds(random, 1, 300)),
            _ if random.below(2) == 0 => CallFault::Hangs,
            _ => CallFault::HangsAfterEffect,
        };
        let percent = [30, 100].get(below(random, 2)).copied().unwrap_or(100);
        Fault::Calls { how, method, percent, duration: self.fault_duration(10, 900) }
    }

    fn vm(&self) -> VmFault {
        match self.random.below(5) {
            0 | 1 => VmFault::Dies,
            2 => VmFault::Hangs,
            3 => VmFault::Reboots,
            _ => VmFault::Vanishes,
        }
    }
}

/// All codes except those that make a false statement: NotFound, Uninitialized and Unimplemented.
const CODES: [Code; 14] = [
    Code::Canceled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_depends_only_on_the_seed() {
        for profile in Profile::ALL {
            let draw = |seed| history(profile, Length::Half, 2, &Random::seeded(seed));
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
            assert!(draw(1).windows(2).all(|two| two[0].at <= two[1].at), "{}", profile.name);
        }
    }

    #[test]
    fn profile_draws_its_own_changes_and_faults() {
        for (name, part) in [
            ("in-place-failures", "loses power"),
            ("put-back", "the API server is restored"),
            ("other-versions", "an older version writes objects"),
            ("other-versions", "a newer version writes objects"),
            ("strategies", "node template"),
            ("doubles", "two VMs"),
        ] {
            let profile = Profile::named(name).unwrap();
            let drawn = (0..20).flat_map(|seed| history(profile, Length::Quarter, 1, &Random::seeded(seed)));
            assert!(
                drawn.map(|happening| happening.kind.to_string()).any(|kind| kind.contains(part)),
                "{name}: {part}"
            );
        }
    }

    #[test]
    fn chaos_draws_every_kind_of_fault() {
        let chaos = Profile::named("chaos").unwrap();
        let texts: Vec<String> = (0..50)
            .flat_map(|seed| history(chaos, Length::Whole, 2, &Random::seeded(seed)))
            .map(|h| h.kind.to_string())
            .collect();
        for part in
            [" are lost", "responses are lost", "is unreachable", "forbids", "no capacity", "is killed", "never return"]
        {
            assert!(texts.iter().any(|kind| kind.contains(part)), "{part}");
        }
    }
}
