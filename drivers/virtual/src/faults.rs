//! Fault injection.
//!
//! A script selects calls, a fault and a number of repetitions. Scripts are tried in the order in which they were
//! added. The first match decides, except that a delay also applies the next match, so that "slow *and* failing" is two
//! scripts. The random generator has the cloud's seed: the same seed injects the same faults.

use std::time::Duration;

use driver::{Code, Method};

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this code without effect.
    Fail(Code),
    /// The call takes effect, but its response is lost: the caller gets this code.
    LoseAnswer(Code),
    /// The call starts this much later.
    Delay(Duration),
    /// The call has no effect and never returns; only its deadline or its cancellation ends it.
    Hang,
    /// The call takes effect and never returns.
    HangAfterEffect,
}

/// Selects the calls with a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    fault: Fault,
    method: Option<Method>,
    machine: Option<String>,
    left: Option<u64>,
    chance: f64,
}

impl Script {
    /// Applies to every call of every method, unless restricted.
    pub fn always(fault: Fault) -> Self {
        Self { fault, method: None, machine: None, left: None, chance: 1.0 }
    }

    /// Applies to the next call of this method; see [`Script::times`] for more.
    pub fn next(method: Method, fault: Fault) -> Self {
        Self::always(fault).on(method).times(1)
    }

    /// Restricts the script to calls of this method.
    #[must_use]
    pub fn on(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Restricts the script to calls for this machine.
    #[must_use]
    pub fn of(self, machine: impl Into<String>) -> Self {
        Self { machine: Some(machine.into()), ..self }
    }

    /// Restricts the script to this number of calls.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { left: Some(times), ..self }
    }

    /// Restricts the script to this probability, from zero to one.
    #[must_use]
    pub fn with_chance(self, chance: f64) -> Self {
        Self { chance, ..self }
    }

    fn befalls(&self, method: Method, machine: Option<&str>) -> bool {
        self.left != Some(0)
            && self.method.is_none_or(|only| only == method)
            && self.machine.as_deref().is_none_or(|only| Some(only) == machine)
    }
}

/// The combined faults of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) delay: Duration,
    pub(crate) fault: Option<Fault>,
}

/// The active scripts.
#[derive(Debug, Default)]
pub(crate) struct Scripts(Vec<Script>);

impl Scripts {
    pub(crate) fn add(&mut self, script: Script) {
        self.0.push(script);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Selects the faults of this call and uses up its scripts.
    pub(crate) fn fate(&mut self, method: Method, machine: Option<&str>, dice: &mut fastrand::Rng) -> Fate {
        let mut fate = Fate::default();
        for script in self.0.iter_mut().filter(|script| script.befalls(method, machine)) {
            // A certain fault draws no random number, so that adding one does not change the other faults.
            if script.chance < 1.0 && dice.f64() >= script.chance {
                continue;
            }
            script.left = script.left.map(|left| left.saturating_sub(1));
            match &script.fault {
                Fault::Delay(delay) => fate.delay += *delay,
                fault => {
                    fate.fault = Some(fault.clone());
                    break;
                }
            }
        }
        self.0.retain(|script| script.left != Some(0));
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(scripts: &mut Scripts, seed: u64, count: usize) -> Vec<Option<Fault>> {
        let mut dice = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| scripts.fate(Method::Create, Some("m"), &mut dice).fault).collect()
    }

    #[test]
    fn a_script_is_used_up() {
        let mut scripts = Scripts::default();
        scripts.add(Script::next(Method::Create, Fault::Fail(Code::Internal)).times(2));
        let failed = Some(Fault::Fail(Code::Internal));
        assert_eq!(fates(&mut scripts, 1, 3), [failed.clone(), failed, None]);
        assert!(scripts.0.is_empty());
    }

    #[test]
    fn calls_of_other_methods_and_machines_are_unaffected() {
        let mut scripts = Scripts::default();
        scripts.add(Script::always(Fault::Hang).on(Method::Delete));
        scripts.add(Script::always(Fault::Hang).of("another"));
        assert_eq!(fates(&mut scripts, 1, 1), [None]);
    }

    #[test]
    fn delay_applies_the_next_script_too() {
        let mut scripts = Scripts::default();
        scripts.add(Script::always(Fault::Delay(Duration::from_secs(3))));
        scripts.add(Script::always(Fault::Delay(Duration::from_secs(4))));
        scripts.add(Script::always(Fault::Fail(Code::Aborted)));
        let fate = scripts.fate(Method::List, None, &mut fastrand::Rng::with_seed(1));
        assert_eq!(fate, Fate { delay: Duration::from_secs(7), fault: Some(Fault::Fail(Code::Aborted)) });
    }

    #[test]
    fn same_seed_injects_the_same_faults() {
        let course = |seed| {
            let mut scripts = Scripts::default();
            scripts.add(Script::always(Fault::Fail(Code::Unavailable)).with_chance(0.5));
            fates(&mut scripts, seed, 64)
        };
        assert_eq!(course(7), course(7));
        assert_ne!(course(7), course(8));
        assert!(course(7).contains(&None) && course(7).iter().any(Option::is_some));
    }
}
