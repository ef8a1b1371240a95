//! Compares roles with the requests that were made under them.

use std::collections::BTreeMap;
use std::fmt;

use super::grants::Grant;
use super::requests::{Decision, Request};

/// Result of the comparison.
#[derive(Debug)]
pub(super) struct RoleReport {
    requests: Vec<Request>,
    /// Each permission, and how often it was used.
    granted: Vec<(Grant, usize)>,
    /// Denied requests, and how often they were made.
    denied: BTreeMap<Denial, usize>,
}

/// A request that no role allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Denial {
    pub(super) who: String,
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) namespace: String,
}

impl RoleReport {
    /// Compares the permissions of the subjects with their requests. Requests of other users are ignored.
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

    /// Returns the permissions.
    pub(super) fn grants(&self) -> Vec<Grant> {
        self.granted.iter().map(|(grant, _)| grant.clone()).collect()
    }

    /// Returns the requests.
    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the denied requests and their numbers.
    pub(super) fn denied(&self) -> &BTreeMap<Denial, usize> {
        &self.denied
    }

    /// Returns the permissions that were not used.
    pub(super) fn unused(&self) -> Vec<&Grant> {
        self.granted.iter().filter(|(_, uses)| *uses == 0).map(|(grant, _)| grant).collect()
    }

    /// Returns permissions that are redundant, because another rule grants them too.
    fn granted_twice(&self) -> Vec<&Grant> {
        let all = || self.granted.iter().map(|(grant, _)| grant).enumerate();
        let is_spare = |(nth, grant): &(usize, &Grant)| {
            // Of two equal permissions, the second one.
            all().any(|(other, wider)| {
                other != *nth && wider.includes(grant) && (other < *nth || !grant.includes(wider))
            })
        };
        all().filter(is_spare).map(|(_, grant)| grant).collect()
    }

    /// Returns the errors in the roles, if there are any.
    pub(super) fn complaint(&self) -> Option<String> {
        let missing = self.denied.keys().map(|denial| format!("missing: {denial}"));
        let unused = self.unused().into_iter().map(|grant| format!("never used: {}: {grant}", grant.to));
        let too_wide = self.granted.iter().filter(|(grant, _)| grant.is_boundless());
        let too_wide = too_wide.map(|(grant, _)| format!("too wide: {}: {grant}", grant.to));
        let twice = self.granted_twice().into_iter().map(|grant| format!("granted twice: {}: {grant}", grant.to));
        let all: Vec<String> = missing.chain(too_wide).chain(unused).chain(twice).collect();
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

impl fmt::Display for RoleReport {
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
    fn roles_that_grant_exactly_what_is_used_are_accepted() {
        assert_eq!(RoleReport::of(roles(), &life()).complaint(), None);
    }

    /// Shows ROL-1.
    #[test]
    fn a_missing_rule_is_reported() {
        let mut life = life();
        life.push(request("us", "list", "secrets", Decision::Denied));
        life.push(request("us", "list", "secrets", Decision::Denied));
        let role_report = RoleReport::of(roles(), &life);
        assert_eq!(role_report.complaint().as_deref(), Some("missing: us: list secrets in ns"));
        assert_eq!(role_report.denied().values().sum::<usize>(), 2);
        assert!(role_report.to_string().contains("DENIED us: list secrets in ns (2 times)"));
    }

    /// Shows ROL-1.
    #[test]
    fn an_unused_rule_is_reported_for_another_namespace_or_name() {
        let mut wide = roles();
        wide.push(grant("delete", "secrets"));
        assert_eq!(RoleReport::of(wide, &life()).complaint().as_deref(), Some("never used: us: delete  secrets in ns"));
        let mut elsewhere = roles();
        elsewhere.push(Grant { namespace: Some("kube-system".to_owned()), ..grant("get", "secrets") });
        assert_eq!(RoleReport::of(elsewhere, &life()).unused().len(), 1);
        let mut named = roles();
        named.push(Grant { name: Some("y".to_owned()), ..grant("get", "secrets") });
        assert_eq!(RoleReport::of(named, &life()).unused().len(), 1);
        let mut part = roles();
        part.push(grant("get", "secrets/status"));
        assert_eq!(RoleReport::of(part, &life()).unused().len(), 1);
    }

    /// Shows ROL-1.
    #[test]
    fn a_wildcard_is_always_reported_as_too_wide() {
        for wide in
            [grant("*", "secrets"), grant("get", "*"), Grant { group: "*".to_owned(), ..grant("get", "secrets") }]
        {
            let said = RoleReport::of(vec![wide], &life()).complaint().unwrap_or_default();
            assert!(said.contains("too wide: us: "), "{said}");
        }
    }

    /// Shows ROL-1.
    #[test]
    fn of_two_rules_for_a_permission_the_narrower_one_is_reported() {
        let anywhere = Grant { namespace: None, ..grant("get", "secrets") };
        let named = Grant { name: Some("x".to_owned()), ..grant("get", "secrets") };
        let cases = [
            (grant("get", "secrets"), "granted twice: us: get     secrets in ns"),
            (anywhere, "granted twice: us: get     secrets in ns"),
            (named, "granted twice: us: get     secrets x in ns"),
        ];
        for (more, expected) in cases {
            let mut roles = roles();
            roles.push(more);
            assert_eq!(RoleReport::of(roles, &life()).complaint().as_deref(), Some(expected));
        }
    }

    #[test]
    fn rules_of_another_group_or_subresource_do_not_match() {
        let other = Grant { group: "apps".to_owned(), ..grant("get", "secrets") };
        let part = grant("get", "secrets/status");
        let mut roles = roles();
        roles.extend([other, part]);
        let said = RoleReport::of(roles, &life()).complaint().unwrap_or_default();
        assert_eq!(
            said, "never used: us: get     secrets.apps in ns; never used: us: get     secrets/status in ns",
            "requests are not counted for these rules"
        );
    }

    /// All combinations of six rules that differ in one field each, and of requests for them.
    /// Shows ROL-1.
    #[test]
    fn roles_are_accepted_if_and_only_if_they_match_the_requests() {
        let named = |name: &str| Grant { name: Some(name.to_owned()), ..grant("update", "leases") };
        let elsewhere = Grant { namespace: Some("kube-system".to_owned()), ..grant("get", "secrets") };
        let other = Grant { to: "them".to_owned(), ..grant("get", "secrets") };
        let (get, part) = (grant("get", "secrets"), grant("get", "secrets/status"));
        let known = [get, part, elsewhere, other, named("a"), named("b")];
        let some = |bits: usize| move |(nth, _): &(usize, &Grant)| bits & (1 << nth) != 0;
        for granted in 1..1_usize << known.len() {
            let roles: Vec<Grant> =
                known.iter().enumerate().filter(some(granted)).map(|(_, rule)| rule.clone()).collect();
            for asked in 0..1_usize << known.len() {
                let request = |(nth, rule): (usize, &Grant)| {
                    let allowed = granted & (1 << nth) != 0;
                    Request {
                        group: rule.group.clone(),
                        namespace: rule.namespace.clone().unwrap_or_default(),
                        name: rule.name.clone().unwrap_or_else(|| "x".to_owned()),
                        ..request(
                            &rule.to,
                            &rule.verb,
                            &rule.resource,
                            if allowed { Decision::Allowed } else { Decision::Denied },
                        )
                    }
                };
                let life: Vec<Request> = known.iter().enumerate().filter(some(asked)).map(request).collect();
                let role_report = RoleReport::of(roles.clone(), &life);
                // Users without any role are ignored.
                let tried = |rule: &Grant| roles.iter().any(|role| role.to == rule.to);
                let mine = known.iter().enumerate().filter(some(asked)).filter(|(_, rule)| tried(rule));
                let expected = mine.map(|(nth, _)| 1 << nth).sum::<usize>() == granted;
                assert_eq!(role_report.complaint().is_none(), expected, "granted {granted:b}, asked {asked:b}");
            }
        }
    }
}
