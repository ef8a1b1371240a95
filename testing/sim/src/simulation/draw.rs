//! A history, drawn from a seed.

use std::time::Duration;

use driver::{Code, Method};
use runtime::Random;

use super::history::{
    Act, CallFault, Fault, Happening, Pick, Preserve, RequestFault, Side, Version, VmFault, What, Which,
};
use super::length::Length;
use super::profile::{ActKind, FaultKind, Profile, Strategy};

/// One pool as it is at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// How it is updated.
    pub(super) strategy: Strategy,
    /// Its replicas.
    pub(super) replicas: u16,
    /// Its `maxSurge`.
    pub(super) surge: u16,
    /// Its `maxUnavailable`.
    pub(super) unavailable: u16,
}

/// The pools of a run.
pub(super) fn pools(profile: &Profile, random: &Random) -> Vec<Pool> {
    let count = 1 + below(random, profile.pools as u64);
    let pool = |_| {
        let (surge, unavailable) = match random.below(3) {
            0 => (1, 0),
            1 => (0, 1),
            _ => (1, 1),
        };
        // Nothing is drawn where there is no choice, so that seeds which found something stay what they were.
        let strategy = match profile.strategies {
            [only] => *only,
            several => several.get(below(random, several.len() as u64)).copied().unwrap_or(Strategy::Rolling),
        };
        Pool { strategy, replicas: 1 + number(random, profile.machines), surge, unavailable }
    };
    (0..count).map(pool).collect()
}

/// Everything that happens in a run, in order.
pub(super) fn history(profile: &Profile, length: Length, pools: usize, random: &Random) -> Vec<Happening> {
    let mut draw = Draw { profile, length, pools, random, drawn: Vec::new() };
    let (acts, kinds) = profile.acts;
    for _ in 0..length.count(acts) {
        let at = draw.moment();
        draw.act(at, chosen(kinds, random));
    }
    let (faults, kinds) = profile.faults;
    for _ in 0..length.count(faults) {
        let kind = chosen(kinds, random).unwrap_or(FaultKind::Crash);
        let at = match (random.below(2), kind) {
            (0, kind) if kind != FaultKind::LostDeletes => draw.moment(),
            // While what was begun is under way, and has not been written down.
            (_, FaultKind::Crash | FaultKind::OtherVersion) => {
                draw.an_act() + Duration::from_millis(random.below(4_000))
            }
            _ => draw.an_act().saturating_sub(Duration::from_millis(random.below(3_000))),
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

/// If more VMs have no machine, none of them is collected: people are asked instead.
const MOST_ABANDONED: usize = 3;

struct Draw<'a> {
    profile: &'a Profile,
    length: Length,
    pools: usize,
    random: &'a Random,
    drawn: Vec<Happening>,
}

impl Draw<'_> {
    fn push(&mut self, at: Duration, what: What) {
        self.drawn.push(Happening { at, what });
    }

    fn moment(&self) -> Duration {
        let lasts = self.length.time(self.profile.lasts);
        Duration::from_millis(self.random.below(u64::try_from(lasts.as_millis()).unwrap_or(1)))
    }

    /// When somebody does something: what goes wrong matters most while something is under way.
    fn an_act(&self) -> Duration {
        let number = below(self.random, self.drawn.len().max(1) as u64);
        self.drawn.get(number).map_or_else(|| self.moment(), |act| act.at)
    }

    fn pick(&self) -> Pick {
        number(self.random, 1000)
    }

    /// Soon enough to meet what was begun, or when it may be over.
    fn later(&self) -> Duration {
        match self.random.below(3) {
            0 => Duration::from_millis(self.random.below(3_000)),
            1 => seconds(self.random, 3, 60),
            _ => seconds(self.random, 60, 400),
        }
    }

    fn act(&mut self, at: Duration, kind: Option<ActKind>) {
        let Some(kind) = kind else { return };
        let random = self.random;
        let (pool, pick) = (below(random, self.pools as u64), self.pick());
        let replicas = || number(random, self.profile.machines + 1);
        let mut then = Vec::new();
        let act = match kind {
            ActKind::Scale => Act::Scale { pool, replicas: replicas() },
            ActKind::ScaleAndBack => {
                let by = 1 + i8::try_from(random.below(2)).unwrap_or_default();
                let by = if random.below(2) == 0 { -by } else { by };
                then.push((self.later(), Act::ScaleBy { pool, by: -by }));
                Act::ScaleBy { pool, by }
            }
            ActKind::Roll => Act::Roll { pool },
            ActKind::RollAndBack => {
                then.push((self.later(), Act::RollBack { pool }));
                Act::Roll { pool }
            }
            ActKind::RollAndPause => {
                then.push((seconds(random, 0, 90), Act::Pause { pool }));
                then.push((seconds(random, 90, 600), Act::Resume { pool }));
                Act::Roll { pool }
            }
            ActKind::Pause => {
                then.push((self.later(), Act::Resume { pool }));
                Act::Pause { pool }
            }
            ActKind::ForceDelete => Act::ForceDelete { pick },
            ActKind::Prioritize => {
                Act::Prioritize { pick, priority: u8::try_from(random.below(5)).unwrap_or_default() }
            }
            ActKind::Preserve => {
                let value = match random.below(4) {
                    0 => Preserve::Now,
                    1 | 2 => Preserve::WhenFailed,
                    _ => Preserve::No,
                };
                Act::Preserve { pick, value }
            }
            ActKind::PreserveAndFail => {
                self.push(at + seconds(random, 0, 2), What::Fault(Fault::MachineDies { pick }));
                // When it has been given up, mostly.
                then.push((seconds(random, 600, 1200), Act::Roll { pool }));
                Act::Preserve { pick, value: Preserve::WhenFailed }
            }
            ActKind::ScaleDownByName => Act::ScaleDownByName { pick },
            ActKind::Cordon => {
                then.push((self.later(), Act::Uncordon { pick }));
                Act::Cordon { pick }
            }
            ActKind::DeleteNode => Act::DeleteNode { pick },
            ActKind::Abandon if self.abandoned() < MOST_ABANDONED => Act::Abandon { pick },
            ActKind::PauseAndRoll => {
                // What is decided on a state of before the pause is over by then.
                then.push((seconds(random, 35, 90), Act::Roll { pool }));
                then.push((seconds(random, 150, 600), Act::Resume { pool }));
                Act::Pause { pool }
            }
            ActKind::RollAndScaleDown => {
                // Two or three replicas: both sets have as many soon, and the difference is not divisible.
                let replicas = 2 + number(random, 2);
                self.push(at.saturating_sub(seconds(random, 200, 300)), What::Act(Act::Scale { pool, replicas }));
                then.push((seconds(random, 15, 110), Act::ScaleBy { pool, by: -1 }));
                then.push((seconds(random, 150, 300), Act::ScaleBy { pool, by: 1 }));
                Act::Roll { pool }
            }
            ActKind::EditTemplate => {
                Act::EditTemplate { pool, version: u8::try_from(random.below(4)).unwrap_or_default() }
            }
            ActKind::PreserveAndScaleDown => {
                if random.below(2) == 0 {
                    then.push((Duration::ZERO, Act::Prioritize { pick, priority: 1 }));
                }
                let by = -1 - i8::try_from(random.below(2)).unwrap_or_default();
                then.push((seconds(random, 35, 120), Act::ScaleBy { pool, by }));
                then.push((seconds(random, 200, 400), Act::ScaleBy { pool, by: -by }));
                Act::Preserve { pick, value: Preserve::Now }
            }
            ActKind::Delete | ActKind::Abandon => Act::Delete { pick },
        };
        self.push(at, What::Act(act));
        for (after, act) in then {
            self.push(at + after, What::Act(act));
        }
    }

    fn abandoned(&self) -> usize {
        self.drawn.iter().filter(|drawn| matches!(drawn.what, What::Act(Act::Abandon { .. }))).count()
    }

    /// How long something goes wrong: not longer in proportion than in a whole history.
    fn lasting(&self, least: u64, most: u64) -> Duration {
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
            FaultKind::LostAnswers => self.requests(side, &[RequestFault::LostAfter, RequestFault::LostBefore]),
            FaultKind::LostAndLate => {
                let lasts = self.lasting(5, 90);
                self.push(at, What::Fault(Fault::Lag { side: Side::Control, lasts }));
                let which = [Which::Creates, Which::Deletes, Which::All];
                let which = which.get(below(random, 3)).copied().unwrap_or(Which::All);
                Fault::Requests { side: Side::Control, which, how: RequestFault::LostAfter, percent: 100, lasts }
            }
            FaultKind::LostDeletes => {
                let (side, which, how) = (Side::Control, Which::Deletes, RequestFault::LostBefore);
                Fault::Requests { side, which, how, percent: 100, lasts: seconds(random, 20, 200) }
            }
            FaultKind::Watches => Fault::Watches { side, lasts: self.lasting(30, 600) },
            FaultKind::Compaction => Fault::Compaction { side },
            FaultKind::Webhook => self.requests(side, &[RequestFault::Refused, RequestFault::Reverted]),
            FaultKind::Lag => Fault::Lag { side, lasts: self.lasting(1, 90) },
            FaultKind::Partition => Fault::Partition { side, lasts: self.lasting(5, 900) },
            FaultKind::Forbidden => Fault::Forbidden { side, lasts: self.lasting(5, 600) },
            FaultKind::Calls => self.calls(),
            FaultKind::StuckDeletions => {
                let how = if random.below(3) == 0 { CallFault::Hangs } else { CallFault::Fails(self.code()) };
                Fault::Calls { how, method: Some(Method::Delete), percent: 100, lasts: self.lasting(600, 1800) }
            }
            FaultKind::Omissions => Fault::Omissions { lasts: self.lasting(600, 3600) },
            FaultKind::Doubles => Fault::Doubles { lasts: self.lasting(30, 400) },
            FaultKind::Vm => Fault::Vm { how: self.vm(), pick: self.pick() },
            FaultKind::Zone => {
                let how = if random.below(2) == 0 { VmFault::Dies } else { VmFault::Hangs };
                let revived = (random.below(2) == 0).then(|| self.lasting(60, 1200));
                Fault::Zone { how, revived }
            }
            FaultKind::Quota => Fault::Quota { lasts: self.lasting(60, 1500) },
            // A lease is lost after a minute, however short the history is.
            FaultKind::Deposed => Fault::Deposed { lasts: seconds(random, 20, 300) },
            FaultKind::Crash => Fault::Crash { down: seconds(random, 0, 60) },
            // Nothing older than ten minutes is remembered. To take an API server away and put it back takes a while.
            FaultKind::PutBack => Fault::PutBack { age: self.lasting(60, 480), down: seconds(random, 15, 120) },
            FaultKind::OtherVersion => {
                let version = if random.below(2) == 0 { Version::Older } else { Version::Newer };
                Fault::OtherVersion { version, down: seconds(random, 0, 60) }
            }
        };
        self.push(at, What::Fault(fault));
    }

    fn code(&self) -> Code {
        CODES.get(below(self.random, CODES.len() as u64)).copied().unwrap_or(Code::Internal)
    }

    fn requests(&self, side: Side, how: &[RequestFault]) -> Fault {
        let how = how.get(below(self.random, how.len() as u64)).copied().unwrap_or(RequestFault::Failed);
        let some = [20, 50, 90].get(below(self.random, 3)).copied().unwrap_or(50);
        // What is lost again and again comes through when it is no longer wanted.
        let (which, percent) = match self.random.below(6) {
            0 => (Which::Creates, 100),
            1 | 2 => (Which::Deletes, 100),
            _ => (Which::All, some),
        };
        Fault::Requests { side, which, how, percent, lasts: self.lasting(10, 400) }
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
        Fault::Calls { how, method, percent, lasts: self.lasting(10, 900) }
    }

    fn vm(&self) -> VmFault {
        match self.random.below(5) {
            0 | 1 => VmFault::Dies,
            2 => VmFault::Hangs,
            3 => VmFault::Reboots,
            _ => VmFault::IsTaken,
        }
    }
}

/// Every code but those that would be a lie: that there is no VM, that it has not been initialized, that a call is not offered.
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
    fn the_same_seed_gives_the_same_history_and_another_seed_another() {
        for profile in Profile::ALL {
            let draw = |seed| history(profile, Length::Half, 2, &Random::seeded(seed));
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
            assert!(draw(1).windows(2).all(|two| two[0].at <= two[1].at), "{}", profile.name);
        }
    }

    #[test]
    fn a_profile_draws_what_it_is_for() {
        for (name, part) in [
            ("in-place-failures", "loses power"),
            ("put-back", "the API server is put back to it"),
            ("other-versions", "the process dies after an older version"),
            ("other-versions", "the process dies after a newer version"),
            ("strategies", "node template"),
            ("doubles", "two VMs"),
        ] {
            let profile = Profile::named(name).unwrap();
            let drawn = (0..20).flat_map(|seed| history(profile, Length::Quarter, 1, &Random::seeded(seed)));
            assert!(
                drawn.map(|happening| happening.what.to_string()).any(|what| what.contains(part)),
                "{name}: {part}"
            );
        }
    }

    #[test]
    fn every_kind_of_trouble_is_drawn_sooner_or_later() {
        let chaos = Profile::named("chaos").unwrap();
        let told: Vec<String> = (0..50)
            .flat_map(|seed| history(chaos, Length::Whole, 2, &Random::seeded(seed)))
            .map(|h| h.what.to_string())
            .collect();
        for part in
            ["lost on the way", "the answer is lost", "cannot be reached", "forbids", "full", "dies", "never answer"]
        {
            assert!(told.iter().any(|what| what.contains(part)), "{part}");
        }
    }
}
