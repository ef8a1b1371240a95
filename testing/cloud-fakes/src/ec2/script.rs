//! What befalls calls: the errors of a bad day, on demand.

use std::fmt;

use super::answer::Refusal;
use super::calls::Request;

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Befalls {
    /// Nothing is done, and this is answered.
    Refused(Refusal),
    /// The effect takes place, and this error is returned.
    RefusedAfterwards(Refusal),
    /// It is never answered, and nothing is done.
    NeverAnswered,
}

/// Which calls something befalls, and how often.
pub struct Script {
    matches: Box<dyn Fn(&Request) -> bool + Send>,
    befalls: Befalls,
    left: Option<u32>,
}

impl Script {
    /// Befalls the next call of an action.
    pub fn next(action: &str, befalls: Befalls) -> Self {
        let action = action.to_owned();
        Self { matches: Box::new(move |request| request.action() == action), befalls, left: Some(1) }
    }

    /// Refuses the next call of an action with this code and HTTP status.
    pub fn refuse(action: &str, status: u16, code: &str) -> Self {
        Self::next(action, Befalls::Refused(Refusal::new(code, "by script").with_status(status)))
    }

    /// Befalls every call, of whatever action.
    pub fn everything(befalls: Befalls) -> Self {
        Self { matches: Box::new(|_| true), befalls, left: None }
    }

    /// The same, so many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { left: Some(times), ..self }
    }

    /// The same, until the scripts are cleared.
    #[must_use]
    pub fn always(self) -> Self {
        Self { left: None, ..self }
    }

    /// The same, only for requests of which this is true.
    #[must_use]
    pub fn when(self, also: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        let matches = self.matches;
        Self { matches: Box::new(move |request| matches(request) && also(request)), ..self }
    }

    /// What befalls this request, if anything does.
    pub(super) fn strikes(&mut self, request: &Request) -> Option<Befalls> {
        if self.left == Some(0) || !(self.matches)(request) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(self.befalls.clone())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("befalls", &self.befalls).field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_applies_to_its_matches_up_to_its_limit() {
        let zone = |request: &Request| request.parameters.get("Placement.AvailabilityZone") == Some("a");
        let mut script = Script::refuse("RunInstances", 500, "InsufficientInstanceCapacity").times(2).when(zone);
        let run = Request::of(&[("Action", "RunInstances"), ("Placement.AvailabilityZone", "a")]);
        let elsewhere = Request::of(&[("Action", "RunInstances"), ("Placement.AvailabilityZone", "b")]);
        assert_eq!(script.strikes(&elsewhere), None);
        assert!(script.strikes(&run).is_some() && script.strikes(&run).is_some());
        assert_eq!(script.strikes(&run), None);
    }
}
