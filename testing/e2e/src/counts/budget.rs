//! Request budget for a period in the lifecycle of a machine, and the requests that were counted.

use std::fmt;

use serde_json::{Value, json};

use super::audit::Asked;

/// Limit per machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    what: &'static str,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Maximum number of writes and of reads.
    Each { writes: usize, reads: usize },
    /// Maximum number of requests of any kind.
    Together(usize),
}

/// Requests counted in a period.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    budget: Budget,
    asked: Asked,
    machines: usize,
}

impl Budget {
    /// Creates a budget of writes per machine, without reads and conflicts.
    pub(super) fn writes(what: &'static str, writes: usize) -> Self {
        Self { what, limit: Limit::Each { writes, reads: 0 } }
    }

    /// Creates a budget of requests per machine, without conflicts.
    pub(super) fn requests(what: &'static str, limit: usize) -> Self {
        Self { what, limit: Limit::Together(limit) }
    }

    /// Adds a number of reads.
    pub(super) fn and_reads(self, reads: usize) -> Self {
        match self.limit {
            Limit::Each { writes, .. } => Self { limit: Limit::Each { writes, reads }, ..self },
            Limit::Together(_) => self,
        }
    }

    /// Creates a budget of no requests.
    pub(super) fn nothing(what: &'static str) -> Self {
        Self::writes(what, 0)
    }

    /// Compares counted requests with the budget.
    pub(super) fn against(self, asked: Asked, machines: usize) -> Figure {
        Figure { budget: self, asked, machines }
    }
}

impl Figure {
    /// Returns whether the budget was kept. A few requests do not belong to a Machine: the finalizers of a MachineClass
    /// and its Secret. A write that was rejected because another client wrote first is counted separately.
    pub(super) fn is_kept(&self) -> bool {
        const SHARED_OBJECTS: usize = 2;
        let (mut writes, mut reads) = (0, 0);
        for ((verb, resource), count) in &self.asked.requests {
            if matches!(resource.as_str(), "machineclasses" | "secrets") && *count <= SHARED_OBJECTS {
                continue;
            }
            if is_read(verb) { reads += count } else { writes += count }
        }
        let writes = writes.saturating_sub(self.asked.conflicts_with_others);
        let within = match self.budget.limit {
            Limit::Each { writes: w, reads: r } => writes <= w * self.machines && reads <= r * self.machines,
            Limit::Together(limit) => writes + reads <= limit * self.machines,
        };
        within && self.asked.conflicts.is_empty()
    }

    /// Returns the result as JSON.
    pub(super) fn to_json(&self) -> Value {
        let requests: Vec<Value> = self
            .asked
            .requests
            .iter()
            .map(|((verb, resource), count)| json!({ "verb": verb, "resource": resource, "count": count }))
            .collect();
        json!({
            "case": self.budget.what, "machines": self.machines, "budget": self.budget.limit.to_string(), "kept": self.is_kept(),
            "conflicts": self.asked.conflicts.values().sum::<usize>(), "conflictsWithOthers": self.asked.conflicts_with_others, "requests": requests,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_kept() { "ok    " } else { "OVER  " };
        let Self { budget: Budget { what, limit }, asked, machines } = self;
        let (conflicts, conflicts_with_others) = (asked.conflicts.values().sum::<usize>(), asked.conflicts_with_others);
        writeln!(
            f,
            "{verdict} {what}: {machines} machines, at most {limit} each; \
             {conflicts} conflicts between our controllers, {conflicts_with_others} with other clients"
        )?;
        for ((verb, resource), count) in &asked.requests {
            writeln!(f, "         {verb:<7} {resource:<28} {count:>6}  {:.2} per machine", ratio(*count, *machines))?;
        }
        for ((verb, resource), count) in &asked.conflicts {
            writeln!(f, "         conflict: {verb} {resource}, {count} times")?;
        }
        Ok(())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each { writes, reads } => write!(f, "{writes} writes and {reads} reads"),
            Self::Together(limit) => write!(f, "{limit} requests"),
        }
    }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list")
}

fn ratio(count: usize, machines: usize) -> f64 {
    let float = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    float(count) / float(machines.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(requests: &[(&str, &str, usize)], conflicts: usize) -> Asked {
        let requests = requests.iter().map(|(verb, of, count)| (((*verb).into(), (*of).into()), *count)).collect();
        let refused = (conflicts > 0).then(|| (("patch".to_owned(), "machines".to_owned()), conflicts));
        Asked { requests, conflicts: refused.into_iter().collect(), conflicts_with_others: 0 }
    }

    #[test]
    fn one_extra_write_read_or_conflict_exceeds_a_budget() {
        let budget = || Budget::writes("up", 2);
        assert!(budget().against(asked(&[("patch", "machines", 20)], 0), 10).is_kept());
        assert!(!budget().against(asked(&[("patch", "machines", 21)], 0), 10).is_kept());
        assert!(!budget().against(asked(&[("get", "nodes", 1)], 0), 10).is_kept());
        assert!(budget().and_reads(1).against(asked(&[("list", "pods", 10)], 0), 10).is_kept());
        assert!(!budget().against(asked(&[], 1), 10).is_kept());
        assert!(budget().against(asked(&[("patch", "machineclasses", 1)], 0), 10).is_kept());
        let busy = Asked { conflicts_with_others: 5, ..asked(&[("patch", "nodes", 25)], 0) };
        assert!(budget().against(busy, 10).is_kept());
        let together = Budget::requests("rolled", 2);
        assert!(together.against(asked(&[("get", "nodes", 10), ("patch", "nodes", 10)], 0), 10).is_kept());
        assert!(!together.against(asked(&[("get", "nodes", 11), ("patch", "nodes", 10)], 0), 10).is_kept());
        assert!(!Budget::nothing("rest").against(asked(&[("patch", "machines/status", 1)], 0), 10).is_kept());
    }
}
