//! How a cloud that pushes back is spared.
//!
//! Clouds count what an account asks. One that asks too often is refused, its deletions with its creations and every other tool of
//! the account with both. The limiter in front of all drivers bounds how many *calls* are out; one call is several requests, and
//! only the driver hears which of them was throttled. So each account has a rate here: none at first, halved with each throttled
//! request, raised step by step with each answer, and forgotten once it is high enough not to matter
//! (additive increase, multiplicative decrease).
//!
//! A zone without capacity says nothing about the account. Only creates of that class in that zone are held back, for a short while:
//! long enough for the hundred machines of a pool not to ask the same question, shorter than the limiter's own wait.
//!
//! Everything here is data: the time comes in as the distance from a beginning that the caller chose.

use std::collections::BTreeMap;
use std::time::Duration;

/// A time, as the distance from a beginning that the caller chose.
pub type Moment = Duration;

/// Requests per second after the first that was throttled.
const FIRST: f64 = 16.0;

/// Never fewer: deletions have to go on.
const FEWEST: f64 = 0.5;

/// What an account gains with the answers of one second.
const STEP: f64 = 1.0;

/// From here on a rate bounds nobody.
const ENOUGH: f64 = 40.0;

/// Requests that were out together are throttled together; that is one sign, not fifty.
const SAME_SIGN: Duration = Duration::from_secs(1);

/// How long a class is held back in a zone without capacity.
const HELD_FOR: Duration = Duration::from_secs(30);

/// What a driver knows of its accounts and zones.
#[derive(Clone, Debug, Default)]
pub struct Pressure {
    accounts: BTreeMap<String, Rate>,
    held: BTreeMap<Place, Held>,
}

/// A class in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Namespace and name of the class.
    pub class: String,
    /// The zone, or whatever stands for it.
    pub zone: String,
}

/// A class that is held back in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Until then.
    pub until: Moment,
    /// What the cloud said.
    pub reason: String,
}

/// What an account may ask.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    /// When the next request may leave.
    next: Moment,
    /// When the rate was last lowered.
    lowered: Moment,
}

impl Pressure {
    /// When a request of this account may leave; not before `now`. Asking takes the turn.
    pub fn admit(&mut self, account: &str, now: Moment) -> Moment {
        let Some(rate) = self.accounts.get_mut(account) else { return now };
        let turn = rate.next.max(now);
        rate.next = turn + Duration::from_secs_f64(1.0 / rate.per_second);
        turn
    }

    /// The cloud throttled a request of this account.
    pub fn throttled(&mut self, account: &str, now: Moment) {
        match self.accounts.get_mut(account) {
            Some(rate) if now < rate.lowered + SAME_SIGN => {}
            Some(rate) => {
                rate.per_second = (rate.per_second / 2.0).max(FEWEST);
                rate.lowered = now;
            }
            None => {
                let pause = Duration::from_secs_f64(1.0 / FIRST);
                self.accounts.insert(account.to_owned(), Rate { per_second: FIRST, next: now + pause, lowered: now });
            }
        }
    }

    /// The cloud answered a request of this account, well or badly.
    pub fn answered(&mut self, account: &str) {
        if let Some(rate) = self.accounts.get_mut(account) {
            rate.per_second += STEP / rate.per_second;
            if rate.per_second >= ENOUGH {
                self.accounts.remove(account);
            }
        }
    }

    /// How many requests a second the account may make; `None` while nothing bounds it.
    pub fn rate(&self, account: &str) -> Option<f64> {
        self.accounts.get(account).map(|rate| rate.per_second)
    }

    /// The zone had no room for a VM of this class.
    pub fn refused(&mut self, place: Place, reason: impl Into<String>, now: Moment) {
        self.held.retain(|_, held| held.until > now);
        self.held.insert(place, Held { until: now + HELD_FOR, reason: reason.into() });
    }

    /// A VM of this class was made in this zone.
    pub fn made(&mut self, place: &Place) {
        self.held.remove(place);
    }

    /// Whether creates of this class are held back in this zone, and why.
    pub fn held(&self, place: &Place, now: Moment) -> Option<&Held> {
        self.held.get(place).filter(|held| held.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(class: &str, zone: &str) -> Place {
        Place { class: class.into(), zone: zone.into() }
    }

    /// Shows CLD-9.
    #[test]
    fn an_account_that_was_never_throttled_waits_for_nobody() {
        let mut pressure = Pressure::default();
        for _ in 0..1000 {
            assert_eq!(pressure.admit("a", SECOND), SECOND);
        }
        pressure.answered("a");
        assert_eq!(pressure.rate("a"), None);
    }

    /// Shows CLD-9.
    #[test]
    fn each_throttled_request_halves_the_rate_down_to_the_fewest() {
        let mut pressure = Pressure::default();
        let rates: Vec<_> = (1..9)
            .map(|at| {
                pressure.throttled("a", at * SECOND);
                pressure.rate("a").unwrap()
            })
            .collect();
        assert_eq!(rates, [16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.5, 0.5]);
        assert_eq!(pressure.rate("b"), None, "another account is not bound");
    }

    /// Shows CLD-9.
    #[test]
    fn requests_that_were_throttled_together_count_once() {
        let mut pressure = Pressure::default();
        for at in 0..50 {
            pressure.throttled("a", SECOND + at * SECOND / 100);
        }
        assert_eq!(pressure.rate("a"), Some(16.0));
    }

    #[test]
    fn requests_of_a_throttled_account_leave_one_after_the_other() {
        let mut pressure = Pressure::default();
        for at in 0..5 {
            pressure.throttled("a", at * SECOND);
        }
        assert_eq!(pressure.rate("a"), Some(1.0));
        let now = 10 * SECOND;
        let turns: Vec<_> = (0..4).map(|_| pressure.admit("a", now).as_secs()).collect();
        assert_eq!(turns, [10, 11, 12, 13]);
        assert_eq!(pressure.admit("b", now), now);
    }

    /// Shows CLD-9.
    #[test]
    fn a_second_of_answers_adds_one_request_a_second_until_nothing_is_bound() {
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
    fn a_zone_without_capacity_holds_back_that_class_in_that_zone_only() {
        let mut pressure = Pressure::default();
        pressure.refused(place("ns/a", "z1"), "InsufficientInstanceCapacity", SECOND);
        assert_eq!(pressure.held(&place("ns/a", "z1"), 2 * SECOND).unwrap().reason, "InsufficientInstanceCapacity");
        assert_eq!(pressure.held(&place("ns/a", "z2"), 2 * SECOND), None);
        assert_eq!(pressure.held(&place("ns/b", "z1"), 2 * SECOND), None);
        assert_eq!(pressure.held(&place("ns/a", "z1"), SECOND + HELD_FOR), None, "it may try again");
        pressure.made(&place("ns/a", "z1"));
        assert_eq!(pressure.held(&place("ns/a", "z1"), 2 * SECOND), None);
        assert_eq!(pressure.admit("account", SECOND), SECOND, "capacity says nothing about the account");
    }

    proptest! {
        #[test]
        fn turns_never_overtake_each_other_and_the_rate_keeps_to_its_bounds(steps in prop::collection::vec((0u8..3, 0u32..3000), 1..200)) {
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
                prop_assert!(pressure.rate("a").is_none_or(|rate| (FEWEST..ENOUGH).contains(&rate)));
            }
        }
    }
}
