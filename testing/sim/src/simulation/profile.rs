//! Kinds of bad days, as data.

use std::time::Duration;

/// What a history is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// How it is called on the command line.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// How many processes stand for election; one does not need to.
    pub candidates: usize,
    /// How its pools may be updated; one is drawn for each.
    pub strategies: &'static [Strategy],
    /// Which pods there are.
    pub workload: Workload,
    /// What else there is.
    pub surroundings: Surroundings,
    /// How many MachineDeployments there are at most.
    pub pools: usize,
    /// How many machines one of them is ever to have.
    pub machines: u16,
    /// How long things happen; then everybody waits for what comes of it.
    pub lasts: Duration,
    /// How much people do, and what, with weights.
    pub acts: (usize, &'static [(ActKind, u32)]),
    /// How much goes wrong, and what, with weights.
    pub faults: (usize, &'static [(FaultKind, u32)]),
}

/// How a pool is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Machines are replaced.
    Rolling,
    /// Machines stay, and agents on their Nodes update them, one after the other.
    InPlace,
    /// All machines are deleted before new ones are created.
    Recreate,
}

/// Which pods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Pods that may run anywhere.
    Stateless,
    /// Besides them, pods with a volume each.
    Stateful,
}

/// What there is in a cluster besides Machines and applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// Nothing.
    Plain,
    /// A DaemonSet, a mirror pod on each Node, bootstrap tokens in the user data, node templates, and more pods with volumes than
    /// Nodes if there are any.
    Full,
}

const ROLLING: &[Strategy] = &[Strategy::Rolling];

/// What people may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActKind {
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
    /// Delete a Machine by force.
    ForceDelete,
    /// Set a priority.
    Prioritize,
    /// Preserve a Machine, or no longer.
    Preserve,
    /// Ask to keep a Machine when it fails, let it fail, and roll.
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

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Requests.
    Requests,
    /// Answers that are lost, before or after the effect.
    LostAnswers,
    /// Answers that are lost after the effect, while watches show nothing of it.
    LostAndLate,
    /// Deletes that are lost on the way while somebody does something, for so long that he may have thought better of it.
    LostDeletes,
    /// Watches break.
    Watches,
    /// Watches break and cannot be taken up again.
    Compaction,
    /// A webhook refuses or undoes writes.
    Webhook,
    /// Watches are late.
    Lag,
    /// An API server is out of reach.
    Partition,
    /// Permissions are lost.
    Forbidden,
    /// Driver calls.
    Calls,
    /// Driver calls that delete, for long.
    StuckDeletions,
    /// Driver calls that list.
    Omissions,
    /// One VM.
    Vm,
    /// Half of all VMs.
    Zone,
    /// No room for VMs.
    Quota,
    /// The process that leads.
    Crash,
    /// The process that leads is cut off alone.
    Deposed,
    /// The API server is put back to an older copy.
    PutBack,
    /// A process of another version was there before.
    OtherVersion,
    /// Creates give a Machine two VMs and fail.
    Doubles,
}

use ActKind::{
    Abandon, Cordon, Delete, DeleteNode, EditTemplate, ForceDelete, Pause, PauseAndRoll, Preserve, PreserveAndFail,
    PreserveAndScaleDown, Prioritize, Roll, RollAndBack, RollAndPause, RollAndScaleDown, Scale, ScaleAndBack,
    ScaleDownByName,
};
use FaultKind::{
    Calls, Compaction, Crash, Deposed, Doubles, Forbidden, Lag, LostAndLate, LostAnswers, LostDeletes, Omissions,
    OtherVersion, Partition, PutBack, Quota, Requests, StuckDeletions, Vm, Watches, Webhook, Zone,
};

const EVERYTHING: &[(ActKind, u32)] = &[
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
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "small-and-busy",
            about: "people change their minds all the time, and answers are lost now and then",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (14, EVERYTHING),
            faults: (3, &[(LostAnswers, 3), (LostAndLate, 2), (Requests, 2), (Watches, 1), (Lag, 1), (Crash, 2)]),
        },
        Self {
            name: "second-thoughts",
            about: "what was asked for is taken back, and requests are lost in between",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (10, &[(ScaleAndBack, 6), (RollAndBack, 2), (Delete, 1), (Pause, 1)]),
            faults: (
                8,
                &[(LostDeletes, 5), (LostAnswers, 4), (LostAndLate, 3), (Requests, 2), (Partition, 1), (Lag, 1)],
            ),
        },
        Self {
            name: "zone-outage",
            about: "half of the machines are gone at once, and some come back",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 5,
            lasts: Duration::from_mins(40),
            acts: (3, &[(Scale, 2), (Roll, 1), (Delete, 1), (Preserve, 1)]),
            faults: (3, &[(Zone, 4), (Partition, 1), (Calls, 1), (Vm, 1)]),
        },
        Self {
            name: "quota",
            about: "the cloud has no room, while pools grow and roll",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(50),
            acts: (6, &[(Scale, 4), (ScaleAndBack, 2), (Roll, 2), (RollAndBack, 2), (Delete, 1)]),
            faults: (3, &[(Quota, 4), (Calls, 2), (Vm, 1)]),
        },
        Self {
            name: "api-brown-out",
            about: "API servers are slow, refuse, forget to answer and cannot be reached",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (6, EVERYTHING),
            faults: (
                8,
                &[
                    (Requests, 4),
                    (LostAnswers, 3),
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
            about: "machines die, hang and vanish, one after the other and all at once",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 6,
            lasts: Duration::from_mins(40),
            acts: (3, &[(Scale, 2), (Delete, 1), (Preserve, 2), (DeleteNode, 1)]),
            faults: (8, &[(Vm, 6), (Zone, 1), (Crash, 1)]),
        },
        Self {
            name: "upgrade-storm",
            about: "roll-outs are begun, taken back and begun again, with preserved machines and budgets in the way",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_hours(1),
            acts: (
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
            faults: (3, &[(Vm, 3), (LostAnswers, 1), (Crash, 1), (Calls, 1)]),
        },
        Self {
            name: "hostile-driver",
            about: "driver calls fail with every code, hang, and succeed and say that they failed",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (6, EVERYTHING),
            faults: (8, &[(Calls, 8), (Omissions, 1), (Quota, 1), (Crash, 1)]),
        },
        Self {
            name: "stuck-deletions",
            about: "machines that are deleted do not go, and people delete more of them",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (14, &[(Delete, 8), (ForceDelete, 2), (ScaleAndBack, 2), (Scale, 1), (RollAndBack, 1)]),
            faults: (3, &[(StuckDeletions, 6), (Vm, 1), (Crash, 1)]),
        },
        Self {
            name: "hand-over",
            about: "two processes stand for election: the one that leads dies, or is cut off and loses its leases",
            candidates: 2,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (10, EVERYTHING),
            faults: (6, &[(Crash, 3), (Deposed, 4), (LostAnswers, 2), (Partition, 1), (Vm, 2), (Calls, 2)]),
        },
        Self {
            name: "preservation",
            about: "machines are preserved and fail, while pools roll and people change their minds",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(50),
            acts: (
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
            faults: (5, &[(Vm, 4), (LostAnswers, 2), (Crash, 1), (Lag, 1)]),
        },
        Self {
            name: "in-place",
            about: "machines are updated in place, and what is begun is taken back, lost and interrupted",
            candidates: 1,
            strategies: &[Strategy::InPlace, Strategy::InPlace, Strategy::Rolling],
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(50),
            acts: (
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
                    (LostAnswers, 3),
                    (LostAndLate, 1),
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
            about: "pods have volumes, and their machines are deleted, by force too, die and roll",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateful,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (8, &[(Delete, 4), (ForceDelete, 3), (Roll, 2), (RollAndBack, 1), (ScaleAndBack, 2), (Cordon, 1)]),
            faults: (5, &[(Vm, 3), (LostAnswers, 2), (Lag, 1), (Requests, 1), (Partition, 1), (Calls, 1), (Crash, 2)]),
        },
        Self {
            name: "in-place-failures",
            about: "machines die, hang and vanish while they are updated in place, and people delete those that wait for them",
            candidates: 1,
            strategies: &[Strategy::InPlace],
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(50),
            acts: (6, &[(Roll, 6), (RollAndBack, 2), (Scale, 1), (ScaleAndBack, 1), (Delete, 1)]),
            faults: (5, &[(Vm, 8), (Zone, 1), (Crash, 1), (LostAnswers, 1)]),
        },
        Self {
            name: "put-back",
            about: "the API server is put back to an older copy, while people change what they want and machines come and go",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (
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
            faults: (4, &[(PutBack, 6), (Crash, 1), (LostAnswers, 1), (Calls, 1), (Vm, 1)]),
        },
        Self {
            name: "other-versions",
            about: "processes of older and newer versions were there before, and left what they write",
            candidates: 2,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (10, EVERYTHING),
            faults: (6, &[(OtherVersion, 8), (Vm, 2), (LostAnswers, 1), (Calls, 1)]),
        },
        Self {
            name: "strategies",
            about: "pools roll, recreate and update in place, are paused, scaled and given other node templates meanwhile",
            candidates: 1,
            strategies: &[Strategy::Rolling, Strategy::Rolling, Strategy::Recreate, Strategy::InPlace],
            workload: Workload::Stateless,
            surroundings: Surroundings::Full,
            pools: 2,
            machines: 6,
            lasts: Duration::from_mins(50),
            acts: (
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
            faults: (4, &[(Vm, 4), (LostAnswers, 1), (Crash, 2), (Calls, 1), (Lag, 1)]),
        },
        Self {
            name: "workloads",
            about: "Nodes have mirror pods, pods of a DaemonSet and several pods with volumes, and their machines are deleted, fail and lose their Machine objects",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateful,
            surroundings: Surroundings::Full,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (
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
            faults: (4, &[(Vm, 3), (Zone, 2), (LostAnswers, 1), (Requests, 1), (Partition, 1), (Crash, 1)]),
        },
        Self {
            name: "doubles",
            about: "the cloud creates two VMs for a Machine and reports a failure, while pools grow, roll and lose machines",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 1,
            machines: 4,
            lasts: Duration::from_mins(40),
            acts: (6, &[(Scale, 3), (ScaleAndBack, 2), (Roll, 2), (RollAndBack, 1), (Delete, 3), (ForceDelete, 1)]),
            faults: (3, &[(Doubles, 5), (Vm, 1), (Crash, 1), (LostAnswers, 1)]),
        },
        Self {
            name: "chaos",
            about: "everything at once",
            candidates: 1,
            strategies: ROLLING,
            workload: Workload::Stateless,
            surroundings: Surroundings::Plain,
            pools: 2,
            machines: 4,
            lasts: Duration::from_hours(1),
            acts: (12, EVERYTHING),
            faults: (
                10,
                &[
                    (Requests, 2),
                    (LostAnswers, 3),
                    (LostAndLate, 1),
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }
}
