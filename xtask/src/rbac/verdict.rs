//! Roles held against what was asked under them.

use std::collections::BTreeMap;
use std::fmt;

use super::grants::Grant;
use super::requests::{Decision, Request};

/// What came of it.
#[derive(Debug)]
pub(super) struct Verdict {
    requests: Vec<Request>,
    /// Each thing that is granted, and how often it was used.
    granted: Vec<(Grant, usize)>,
    /// What was denied, and how often.
    denied: BTreeMap<Denial, usize>,
}

/// Something that somebody wanted and no role granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Denial {
    pub(super) who: String,
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) namespace: String,
}

impl Verdict {
    /// Compares what was granted to somebody with what that somebody asked for. Requests of others do not count.
    pub(super) fn of(grants: Vec<Grant>, requests: &[Request]) -> Self {
        let uses = |grant: &Grant| {
            requests.iter().filter(|request| request.decision == Decision::Allowed && grant.covers(request)).count()
        };
        let mut denied = BTreeMap::new();
        let is_known = |request: &&Request| grants.iter().any(|grant| grant.to == request.who);
        for request in requests.iter().filter(|request| request.decision == Decision::Denied).filter(is_known) {
            let Request { who, verb, resource, namespace, .. } = request.clone();
            *denied.entry(Denial { who, verb, resource, namespace }).or_default() += 1;
        }
        let granted =
            grants.into_iter().map(|grant| (uses(&grant), grant)).map(|(uses, grant)| (grant, uses)).collect();
        Self { requests: requests.to_vec(), granted, denied }
    }

    /// What was granted.
    pub(super) fn grants(&self) -> Vec<Grant> {
        self.granted.iter().map(|(grant, _)| grant.clone()).collect()
    }

    /// What was asked.
    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// What no role granted, and how often it was wanted.
    pub(super) fn denied(&self) -> &BTreeMap<Denial, usize> {
        &self.denied
    }

    /// What nobody used.
    pub(super) fn unused(&self) -> Vec<&Grant> {
        self.granted.iter().filter(|(_, uses)| *uses == 0).map(|(grant, _)| grant).collect()
    }

    /// What is wrong with the roles, if anything is.
    pub(super) fn complaint(&self) -> Option<String> {
        let missing = self.denied.keys().map(|denial| format!("missing: {denial}"));
        let unused = self.unused().into_iter().map(|grant| format!("never used: {}: {grant}", grant.to));
        let all: Vec<String> = missing.chain(unused).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, verb, resource, namespace } = self;
        write!(f, "{who}: {verb} {resource}")?;
        if namespace.is_empty() { Ok(()) } else { write!(f, " in {namespace}") }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut who = "";
        for (grant, uses) in &self.granted {
            if grant.to != who {
                who = &grant.to;
                writeln!(f, "  {who}")?;
            }
            let mark = if *uses == 0 { "NEVER" } else { "" };
            writeln!(f, "    {:<64} {uses:>6} {mark}", grant.to_string())?;
        }
        for (denial, times) in &self.denied {
            writeln!(f, "  DENIED {denial} ({times} times)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(verb: &str, resource: &str) -> Grant {
        let text = str::to_owned;
        Grant {
            to: text("us"),
            verb: text(verb),
            group: text(""),
            resource: text(resource),
            namespace: Some(text("ns")),
            name: None,
        }
    }

    fn request(who: &str, verb: &str, resource: &str, decision: Decision) -> Request {
        let text = str::to_owned;
        Request {
            who: text(who),
            verb: text(verb),
            group: text(""),
            resource: text(resource),
            namespace: text("ns"),
            name: text("x"),
            decision,
        }
    }

    fn roles() -> Vec<Grant> {
        vec![grant("get", "secrets"), grant("patch", "secrets")]
    }

    fn life() -> Vec<Request> {
        let ours = |verb: &str| request("us", verb, "secrets", Decision::Allowed);
        vec![ours("get"), ours("get"), ours("patch"), request("jane", "delete", "secrets", Decision::Denied)]
    }

    #[test]
    fn roles_that_are_just_enough_give_no_cause_for_complaint() {
        assert_eq!(Verdict::of(roles(), &life()).complaint(), None);
    }

    #[test]
    fn a_missing_rule_is_found() {
        let mut life = life();
        life.push(request("us", "list", "secrets", Decision::Denied));
        life.push(request("us", "list", "secrets", Decision::Denied));
        let verdict = Verdict::of(roles(), &life);
        assert_eq!(verdict.complaint().as_deref(), Some("missing: us: list secrets in ns"));
        assert_eq!(verdict.denied().values().sum::<usize>(), 2);
        assert!(verdict.to_string().contains("DENIED us: list secrets in ns (2 times)"));
    }

    #[test]
    fn a_superfluous_rule_is_found_also_when_only_its_place_or_its_name_is_too_wide() {
        let mut wide = roles();
        wide.push(grant("delete", "secrets"));
        assert_eq!(Verdict::of(wide, &life()).complaint().as_deref(), Some("never used: us: delete  secrets in ns"));
        let mut elsewhere = roles();
        elsewhere.push(Grant { namespace: Some("kube-system".to_owned()), ..grant("get", "secrets") });
        assert_eq!(Verdict::of(elsewhere, &life()).unused().len(), 1);
        let mut named = roles();
        named.push(Grant { name: Some("y".to_owned()), ..grant("get", "secrets") });
        assert_eq!(Verdict::of(named, &life()).unused().len(), 1);
        let mut part = roles();
        part.push(grant("get", "secrets/status"));
        assert_eq!(Verdict::of(part, &life()).unused().len(), 1);
    }
}
