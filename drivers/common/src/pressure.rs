//! Reacts to throttling and missing capacity.
//!
//! Clouds count the requests of an account. If an account exceeds its rate, the cloud rejects all its requests,
//! including deletions and those of other tools. The limiter in front of all drivers limits concurrent *calls*; a call
//! sends several requests, and only the driver sees which request was throttled. Each account therefore has a request
//! rate: unlimited at first, halved with each throttled request, raised with each response, and unlimited again above a
//! threshold (additive increase, multiplicative decrease).
//!
//! A zone without capacity says nothing about the account. It blocks creates of one class in one zone for a short time:
//! long enough to spare the requests of the other machines of a pool, shorter than the backoff of the limiter.
//!
//! This module is pure: the time is passed in as an offset on the caller's clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// An offset on the caller's clock.
pub type Moment = Duration;

/// Requests per second after the first throttled request.
const FIRST_RATE: f64 = 16.0;

/// Minimum rate, so that deletions continue.
const MIN_RATE: f64 = 0.5;

/// Increase of the rate per second of responses.
const STEP: f64 = 1.0;

/// Rate above which an account is unlimited.
const UNLIMITED_FROM: f64 = 40.0;

/// Concurrent requests are throttled together, so they lower the rate once.
const SAME_DECREASE: Duration = Duration::from_secs(1);

/// Duration for which a class is blocked in a zone without capacity.
const BLOCK_DURATION: Duration = Duration::from_secs(30);

/// The request rates of accounts and the zones without capacity.
#[derive(Clone, Debug, Default)]
pub struct Pressure {
    accounts: BTreeMap<String, Rate>,
    blocked: BTreeMap<ClassInZone, Blocked>,
}

/// A class in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassInZone {
    /// Namespace and name of the class.
    pub class: String,
    /// The zone, or a subnet that identifies it.
    pub zone: String,
}

/// A class that is blocked in a zone without capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// End of the block.
    pub until: Moment,
    /// The cloud's message.
    pub reason: String,
}

/// The request rate of an account.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    /// The next request may be sent at this time.
    next: Moment,
    /// Time of the last decrease.
    lowered: Moment,
}

impl Pressure {
    /// Reserves a slot for a request of this account and returns its time, which is not before `now`.
    pub fn admit(&mut self, account: &str, now: Moment) -> Moment {
        let Some(rate) = self.accounts.get_mut(account) else { return now };
        let turn = rate.next.max(now);
        rate.next = turn + Duration::from_secs_f64(1.0 / rate.per_second);
        turn
    }

    /// Lowers the rate after a throttled request.
    pub fn throttled(&mut self, account: &str, now: Moment) {
        match self.accounts.get_mut(account) {
            Some(rate) if now < rate.lowered + SAME_DECREASE => {}
            Some(rate) => {
                rate.per_second = (rate.per_second / 2.0).max(MIN_RATE);
                rate.lowered = now;
            }
            None => {
                let pause = Duration::from_secs_f64(1.0 / FIRST_RATE);
                self.accounts
                    .insert(account.to_owned(), Rate { per_second: FIRST_RATE, next: now + pause, lowered: now });
            }
        }
    }

    /// Raises the rate after any other response.
    pub fn answered(&mut self, account: &str) {
        if let Some(rate) = self.accounts.get_mut(account) {
            rate.per_second += STEP / rate.per_second;
            if rate.per_second >= UNLIMITED_FROM {
                self.accounts.remove(account);
            }
        }
    }

    /// Returns the account's requests per second, or `None` if it is unlimited.
    pub fn rate(&self, account: &str) -> Option<f64> {
        self.accounts.get(account).map(|rate| rate.per_second)
    }

    /// Blocks the class in a zone without capacity.
    pub fn block(&mut self, place: ClassInZone, reason: impl Into<String>, now: Moment) {
        self.blocked.retain(|_, blocked| blocked.until > now);
        self.blocked.insert(place, Blocked { until: now + BLOCK_DURATION, reason: reason.into() });
    }

    /// Unblocks the class after a VM was created in the zone.
    pub fn unblock(&mut self, place: &ClassInZone) {
        self.blocked.remove(place);
    }

    /// Returns the block of this class in this zone, if there is one.
    pub fn blocked(&self, place: &ClassInZone, now: Moment) -> Option<&Blocked> {
        self.blocked.get(place).filter(|blocked| blocked.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(class: &str, zone: &str) -> ClassInZone {
        ClassInZone { class: class.into(), zone: zone.into() }
    }

    /// Shows CLD-9.
    #[test]
    fn account_without_throttling_is_unlimited() {
        let mut pressure = Pressure::default();
        for _ in 0..1000 {
            assert_eq!(pressure.admit("a", SECOND), SECOND);
        }
        pressure.answered("a");
        assert_eq!(pressure.rate("a"), None);
    }

    /// Shows CLD-9.
    #[test]
    fn throttled_request_halves_the_rate_down_to_the_minimum() {
        let mut pressure = Pressure::default();
        let rates: Vec<_> = (1..9)
            .map(|at| {
                pressure.throttled("a", at * SECOND);
                pressure.rate("a").unwrap()
            })
            .collect();
        assert_eq!(rates, [16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.5, 0.5]);
        assert_eq!(pressure.rate("b"), None, "another account is unlimited");
    }

    /// Shows CLD-9.
    #[test]
    fn requests_throttled_together_count_once() {
        let mut pressure = Pressure::default();
        for at in 0..50 {
            pressure.throttled("a", SECOND + at * SECOND / 100);
        }
        assert_eq!(pressure.rate("a"), Some(16.0));
    }

    #[test]
    fn requests_of_a_throttled_account_are_spaced() {
        let mut pressure = Pressure::default();
        for at in 0..5 {
            pressure.throttled("a", at * SECOND);
        }
        assert_eq!(pressure.rate("a"), Some(1.0));
        let now = 10 * SECOND;
        let rate_limiter: Vec<_> = (0..4).map(|_| pressure.admit("a", now).as_secs()).collect();
        assert_eq!(rate_limiter, [10, 11, 12, 13]);
        assert_eq!(pressure.admit("b", now), now);
    }

    /// Shows CLD-9.
    #[test]
    fn responses_raise_the_rate_until_it_is_unlimited() {
        let mut pressure = Pressure::default();
        for at in 0..4 {
            pressure.throttled("a", at * SECOND);
        }
        assert_eq!(pressure.rate("a"), Some(2.0));
        pressure.answered("a");
        pressure.answered("a");
        let rate = pressure.rate("a").unwrap();
        assert!((2.8..3.1).contains(&rate), "{rate}");
        for _ in 0..2000 {
            pressure.answered("a");
        }
        assert_eq!(pressure.rate("a"), None);
    }

    /// Shows CLD-10.
    #[test]
    fn zone_without_capacity_blocks_one_class_in_one_zone() {
        let mut pressure = Pressure::default();
        pressure.block(place("ns/a", "z1"), "InsufficientInstanceCapacity", SECOND);
        assert_eq!(pressure.blocked(&place("ns/a", "z1"), 2 * SECOND).unwrap().reason, "InsufficientInstanceCapacity");
        assert_eq!(pressure.blocked(&place("ns/a", "z2"), 2 * SECOND), None);
        assert_eq!(pressure.blocked(&place("ns/b", "z1"), 2 * SECOND), None);
        assert_eq!(pressure.blocked(&place("ns/a", "z1"), SECOND + BLOCK_DURATION), None, "the block has expired");
        pressure.unblock(&place("ns/a", "z1"));
        assert_eq!(pressure.blocked(&place("ns/a", "z1"), 2 * SECOND), None);
        assert_eq!(pressure.admit("account", SECOND), SECOND, "capacity says nothing about the account");
    }

    proptest! {
        #[test]
        fn slots_are_in_order_and_the_rate_stays_within_its_bounds(steps in prop::collection::vec((0u8..3, 0u32..3000), 1..200)) {
            let (mut pressure, mut now, mut last) = (Pressure::default(), Duration::ZERO, Duration::ZERO);
            for (what, millis) in steps {
                now += Duration::from_millis(millis.into());
                match what {
                    0 => pressure.throttled("a", now),
                    1 => pressure.answered("a"),
                    _ => {
                        let turn = pressure.admit("a", now);
                        prop_assert!(turn >= now && (pressure.rate("a").is_none() || turn >= last));
                        last = turn;
                    }
                }
                prop_assert!(pressure.rate("a").is_none_or(|rate| (MIN_RATE..UNLIMITED_FROM).contains(&rate)));
            }
        }
    }
}
