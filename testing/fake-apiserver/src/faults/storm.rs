//! A storm: everything goes wrong now and then, in a mix that a bad day of a real cluster would show.
//!
//! A scripted fault tests what its author thought of. A storm is for simulations that look for what nobody thought of: each
//! seed is another day, and a day that broke a promise can be lived through again.

use std::time::Duration;

use crate::faults::{After, Faults, Staleness, Verb};

impl Faults {
    /// Rules for a bad day. `intensity` runs from zero (nothing happens) to one (about every third request suffers).
    #[must_use]
    pub fn storm(seed: u64, intensity: f64) -> Self {
        let faults = Self::seeded(seed);
        faults.brew(intensity);
        faults
    }

    /// Adds the rules of a storm to those already in force; [`Faults::calm`] ends it.
    pub fn brew(&self, intensity: f64) {
        let intensity = intensity.clamp(0.0, 1.0);
        let rule = |share: f64| self.on_any().with_probability(share * intensity);

        // The rule that comes first decides, so the rare and interesting ones come before the common ones.
        rule(0.04).lose_answer();
        rule(0.03).disconnect();
        rule(0.04).conflict();
        rule(0.02).expire();
        rule(0.05).be_stale(Staleness::Revisions(3));
        rule(0.03).be_stale(Staleness::Age(Duration::from_secs(30)));
        rule(0.03).throttle(None);
        rule(0.03).throttle(Some(1));
        rule(0.03).fail();
        rule(0.02).be_unavailable();

        let watch = |share: f64| self.on(Verb::Watch).with_probability(share * intensity);
        watch(0.10).stall_watch(After::Events(5));
        watch(0.10).expire_watch(After::Events(10));
        watch(0.15).drop_watch(After::Events(0));
        watch(0.15).drop_watch(After::Events(7));
        watch(0.15).drop_watch(After::Time(Duration::from_secs(20)));

        rule(0.30).delay_between(Duration::from_millis(5), Duration::from_secs(2));
    }
}
