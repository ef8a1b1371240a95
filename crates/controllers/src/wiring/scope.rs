//! Which controllers a process runs.

/// Which half, or both. The reference runs them as two processes; either of ours can stand beside the other one of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// Machines, sets and deployments.
    #[default]
    Everything,
    /// Machines, their classes and nodes: what talks to a driver.
    Machines,
    /// Sets and deployments.
    Fleet,
}

impl Scope {
    pub(crate) fn has_machines(self) -> bool {
        matches!(self, Self::Everything | Self::Machines)
    }

    pub(crate) fn has_fleet(self) -> bool {
        matches!(self, Self::Everything | Self::Fleet)
    }
}
