//! Profiles: which changes and faults a history contains.

use std::time::Duration;

/// Distribution from which histories are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Number of processes. With more than one, they hold a leader election.
    pub candidates: usize,
    /// Update strategies of the pools; one is drawn for each pool.
    pub strategies: &'static [Strategy],
    /// Pods of the cluster.
    pub workload: Workload,
    /// Additional objects.
    pub surroundings: Surroundings,
    /// Maximum number of MachineDeployments.
    pub pools: usize,
    /// Maximum number of replicas of a MachineDeployment.
    pub machines: u16,
    /// Time in which changes and faults begin, in a full history.
    pub duration: Duration,
    /// Number of changes in a full history, and the kinds of changes with their weights.
    pub changes: (usize, &'static [(ChangeKind, u32)]),
    /// Number of faults in a full history, and the kinds of faults with their weights.
    pub faults: (usize, &'static [(FaultKind, u32)]),
}

/// Update strategy of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Machines are replaced.
    Rolling,
    /// Machines are kept, and agents on their Nodes update them one after the other.
    InPlace,
    /// All machines are deleted before new ones are created.
    Recreate,
}

/// Pods of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Pods that may run anywhere.
    Stateless,
    /// In addition, pods with a volume each.
    Stateful,
}

/// Objects besides Machines and applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// No more objects.
    Plain,
    /// A DaemonSet, a mirror pod on each Node, bootstrap tokens in the user data, node templates and, with volumes,
    /// more pods with volumes than Nodes.
    Full,
}

const ROLLING: &[Strategy] = &[Strategy::Rolling];

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Scale.
    Scale,
    /// Scale, and back soon after.
    ScaleAndBack,
    /// Roll.
    Roll,
    /// Roll, and back soon after.
    RollAndBack,
    /// Roll, pause that soon after, and resume later.
    RollAndPause,
    /// Pause, and resume later.
    Pause,
    /// Delete a Machine.
    Delete,
    /// Force-delete a Machine.
    ForceDelete,
    /// Set a priority.
    Prioritize,
    /// Preserve a Machine, or stop preserving it.
    Preserve,
    /// Preserve a Machine when it fails, let it fail, and roll.
    PreserveAndFail,
    /// Scale down as the autoscaler does.
    ScaleDownByName,
    /// Cordon a Node, and uncordon it later.
    Cordon,
    /// Delete a Node.
    DeleteNode,
    /// Delete a Machine with its finalizers.
    Abandon,
    /// Pause, roll later, and resume.
    PauseAndRoll,
    /// Roll, and scale down soon after.
    RollAndScaleDown,
    /// Change the node template.
    EditTemplate,
    /// Preserve a Machine, with a low priority or without, and scale down.
    PreserveAndScaleDown,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Requests fail.
    Requests,
    /// Requests or responses are lost.
    LostResponses,
    /// Responses are lost while watch events are delayed.
    LostResponsesAndLag,
    /// Deletes are lost around a change, for so long that the change may be reverted meanwhile.
    LostDeletes,
    /// Watches break.
    Watches,
    /// Watches break and cannot resume.
    Compaction,
    /// A webhook rejects or reverts writes.
    Webhook,
    /// Watch events are delayed.
    Lag,
    /// An API server is unreachable.
    Partition,
    /// All requests are rejected with 403.
    Forbidden,
    /// Driver calls fail.
    Calls,
    /// Deletes of VMs fail for a long time.
    StuckDeletions,
    /// Lists of VMs are incomplete.
    Omissions,
    /// One VM fails.
    Vm,
    /// Half of all VMs fail.
    Zone,
    /// The cloud has no capacity.
    Quota,
    /// The leading process is killed.
    Crash,
    /// The leading process cannot reach the API server.
    LeaderPartition,
    /// The API server is restored to an older copy.
    Restore,
    /// A process of another version has written objects.
    OtherVersion,
    /// Creates make two VMs and fail.
    Doubles,
}

use ChangeKind::{
    Abandon, Cordon, Delete, DeleteNode, EditTemplate, ForceDelete, Pause, PauseAndRoll, Preserve, PreserveAndFail,
    PreserveAndScaleDown, Prioritize, Roll, RollAndBack, RollAndPause, RollAndScaleDown, Scale, ScaleAndBack,
    ScaleDownByName,
};
use FaultKind::{
    Calls, Compaction, Crash, Doubles, Forbidden, Lag, LeaderPartition, LostDeletes, LostResponses,
    LostResponsesAndLag, Omissions, OtherVersion, Partition, Quota, Requests, Restore, StuckDeletions, Vm, Watches,
    Webhook, Zone,
};

const EVERYTHING: &[(ChangeKind, u32)] = &[
    (Scale, 4),
    (ScaleAndBack, 3),
    (Roll, 3),
    (RollAndBack, 2),
    (Pause, 1),
    (Delete, 2),
    (ForceDelete, 1),
    (Prioritize, 1),
    (Preserve, 2),
    (ScaleDownByName, 2),
    (Cordon, 1),
    (DeleteNode, 1),
    (Abandon, 1),
];

impl Profile {
    /// All profiles.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "small-and-busy",
            about: "frequent spec changes and some lost responses",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (14, EVERYTHING),
            faults: (
                3,
                &[(LostResponses, 3), (LostResponsesAndLag, 2), (Requests, 2), (Watches, 1), (Lag, 1), (Crash, 2)],
            ),
        },
        Self {
            name: "second-thoughts",
            about: "spec changes are reverted, with lost requests in between",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (10, &[(ScaleAndBack, 6), (RollAndBack, 2), (Delete, 1), (Pause, 1)]),
            faults: (
                8,
                &[
                    (LostDeletes, 5),
                    (LostResponses, 4),
                    (LostResponsesAndLag, 3),
                    (Requests, 2),
                    (Partition, 1),
                    (Lag, 1),
                ],
            ),
        },
        Self {
            name: "zone-outage",
            about: "half of the VMs fail at the same time, and some return",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 5,
            duration: Duration::from_mins(40),
            changes: (3, &[(Scale, 2), (Roll, 1), (Delete, 1), (Preserve, 1)]),
            faults: (3, &[(Zone, 4), (Partition, 1), (Calls, 1), (Vm, 1)]),
        },
        Self {
            name: "quota",
            about: "the cloud has no capacity while pools scale up and roll",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(50),
            changes: (6, &[(Scale, 4), (ScaleAndBack, 2), (Roll, 2), (RollAndBack, 2), (Delete, 1)]),
            faults: (3, &[(Quota, 4), (Calls, 2), (Vm, 1)]),
        },
        Self {
            name: "api-brown-out",
            about: "API servers are slow, reject requests, lose responses and are unreachable",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (6, EVERYTHING),
            faults: (
                8,
                &[
                    (Requests, 4),
                    (LostResponses, 3),
                    (Watches, 2),
                    (Lag, 2),
                    (Partition, 2),
                    (Forbidden, 1),
                    (Compaction, 2),
                    (Webhook, 2),
                ],
            ),
        },
        Self {
            name: "mass-node-failure",
            about: "VMs fail, hang and vanish, one by one and together",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 6,
            duration: Duration::from_mins(40),
            changes: (3, &[(Scale, 2), (Delete, 1), (Preserve, 2), (DeleteNode, 1)]),
            faults: (8, &[(Vm, 6), (Zone, 1), (Crash, 1)]),
        },
        Self {
            name: "upgrade-storm",
            about: "rollouts start, are reverted and start again, with preserved Machines and PodDisruptionBudgets",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_hours(1),
            changes: (
                10,
                &[
                    (Roll, 4),
                    (RollAndBack, 4),
                    (RollAndPause, 2),
                    (Scale, 1),
                    (Preserve, 2),
                    (PreserveAndFail, 1),
                    (ScaleDownByName, 1),
                ],
            ),
            faults: (3, &[(Vm, 3), (LostResponses, 1), (Crash, 1), (Calls, 1)]),
        },
        Self {
            name: "hostile-driver",
            about: "driver calls fail with every code, hang, or succeed and report a failure",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (6, EVERYTHING),
            faults: (8, &[(Calls, 8), (Omissions, 1), (Quota, 1), (Crash, 1)]),
        },
        Self {
            name: "stuck-deletions",
            about: "deletions are stuck while more Machines are deleted",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (14, &[(Delete, 8), (ForceDelete, 2), (ScaleAndBack, 2), (Scale, 1), (RollAndBack, 1)]),
            faults: (3, &[(StuckDeletions, 6), (Vm, 1), (Crash, 1)]),
        },
        Self {
            name: "hand-over",
            about: "two candidates; the leader is killed, or is partitioned and loses its leases",
            candidates: 2,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (10, EVERYTHING),
            faults: (6, &[(Crash, 3), (LeaderPartition, 4), (LostResponses, 2), (Partition, 1), (Vm, 2), (Calls, 2)]),
        },
        Self {
            name: "preservation",
            about: "Machines are preserved and fail while pools roll and specs change",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(50),
            changes: (
                12,
                &[
                    (Preserve, 5),
                    (PreserveAndFail, 3),
                    (Roll, 2),
                    (RollAndBack, 2),
                    (Scale, 2),
                    (ScaleDownByName, 1),
                    (Delete, 1),
                ],
            ),
            faults: (5, &[(Vm, 4), (LostResponses, 2), (Crash, 1), (Lag, 1)]),
        },
        Self {
            name: "in-place",
            about: "in-place updates are reverted, lost and interrupted",
            candidates: 1,
            strategies: &[Strategy::InPlace, Strategy::InPlace, Strategy::Rolling],
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(50),
            changes: (
                8,
                &[
                    (Roll, 4),
                    (RollAndBack, 2),
                    (RollAndPause, 1),
                    (Scale, 2),
                    (ScaleAndBack, 2),
                    (Delete, 1),
                    (Cordon, 1),
                ],
            ),
            faults: (
                5,
                &[
                    (LostResponses, 3),
                    (LostResponsesAndLag, 1),
                    (Requests, 2),
                    (Watches, 1),
                    (Lag, 2),
                    (Crash, 3),
                    (Partition, 1),
                ],
            ),
        },
        Self {
            name: "volumes",
            about: "pods have volumes, and their Machines are deleted, force-deleted, fail and roll",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateful,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (8, &[(Delete, 4), (ForceDelete, 3), (Roll, 2), (RollAndBack, 1), (ScaleAndBack, 2), (Cordon, 1)]),
            faults: (
                5,
                &[(Vm, 3), (LostResponses, 2), (Lag, 1), (Requests, 1), (Partition, 1), (Calls, 1), (Crash, 2)],
            ),
        },
        Self {
            name: "in-place-failures",
            about: "VMs fail, hang and vanish during in-place updates, and users delete the waiting Machines",
            candidates: 1,
            strategies: &[Strategy::InPlace],
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(50),
            changes: (6, &[(Roll, 6), (RollAndBack, 2), (Scale, 1), (ScaleAndBack, 1), (Delete, 1)]),
            faults: (5, &[(Vm, 8), (Zone, 1), (Crash, 1), (LostResponses, 1)]),
        },
        Self {
            name: "put-back",
            about: "the API server is restored to an older copy while specs change and Machines are created and deleted",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (
                10,
                &[
                    (Scale, 3),
                    (ScaleAndBack, 3),
                    (Roll, 3),
                    (RollAndBack, 2),
                    (Delete, 2),
                    (ScaleDownByName, 1),
                    (Pause, 1),
                ],
            ),
            faults: (4, &[(Restore, 6), (Crash, 1), (LostResponses, 1), (Calls, 1), (Vm, 1)]),
        },
        Self {
            name: "other-versions",
            about: "processes of older and newer versions have written objects before",
            candidates: 2,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (10, EVERYTHING),
            faults: (6, &[(OtherVersion, 8), (Vm, 2), (LostResponses, 1), (Calls, 1)]),
        },
        Self {
            name: "strategies",
            about: "pools roll, recreate and update in place while they are paused, scaled and get new node templates",
            candidates: 1,
            strategies: &[Strategy::Rolling, Strategy::Rolling, Strategy::Recreate, Strategy::InPlace],
            workload: Workload::Stateless,
            surroundings: Surroundings::Full,
            pools: 2,
            machines: 6,
            duration: Duration::from_mins(50),
            changes: (
                12,
                &[
                    (Roll, 3),
                    (RollAndBack, 2),
                    (RollAndPause, 2),
                    (PauseAndRoll, 3),
                    (RollAndScaleDown, 4),
                    (EditTemplate, 3),
                    (PreserveAndScaleDown, 3),
                    (Scale, 1),
                ],
            ),
            faults: (4, &[(Vm, 4), (LostResponses, 1), (Crash, 2), (Calls, 1), (Lag, 1)]),
        },
        Self {
            name: "workloads",
            about: "Nodes have mirror pods, DaemonSet pods and several pods with volumes; their Machines are deleted, fail and lose their objects",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateful,
            surroundings: Surroundings::Full,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (
                8,
                &[
                    (Delete, 4),
                    (ForceDelete, 1),
                    (Roll, 2),
                    (ScaleAndBack, 2),
                    (EditTemplate, 2),
                    (Cordon, 1),
                    (Abandon, 3),
                ],
            ),
            faults: (4, &[(Vm, 3), (Zone, 2), (LostResponses, 1), (Requests, 1), (Partition, 1), (Crash, 1)]),
        },
        Self {
            name: "doubles",
            about: "the cloud creates two VMs for a Machine and reports a failure while pools scale up, roll and lose VMs",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            duration: Duration::from_mins(40),
            changes: (6, &[(Scale, 3), (ScaleAndBack, 2), (Roll, 2), (RollAndBack, 1), (Delete, 3), (ForceDelete, 1)]),
            faults: (3, &[(Doubles, 5), (Vm, 1), (Crash, 1), (LostResponses, 1)]),
        },
        Self {
            name: "chaos",
            about: "all faults together",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            duration: Duration::from_hours(1),
            changes: (12, EVERYTHING),
            faults: (
                10,
                &[
                    (Requests, 2),
                    (LostResponses, 3),
                    (LostResponsesAndLag, 1),
                    (Watches, 1),
                    (Lag, 2),
                    (Partition, 1),
                    (Forbidden, 1),
                    (Compaction, 1),
                    (Webhook, 1),
                    (Calls, 3),
                    (Vm, 3),
                    (Zone, 1),
                    (Quota, 1),
                    (Crash, 2),
                ],
            ),
        },
    ];

    /// Returns the profile of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }
}
