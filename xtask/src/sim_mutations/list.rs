//! Mistakes, each of which must violate an invariant.

/// A mistake: texts of a file and their replacements. `{on}` stands for whether the mistake is active.
pub(super) struct Mutation {
    /// Description.
    pub(super) name: &'static str,
    /// Path of the file.
    pub(super) file: &'static str,
    /// Texts and their replacements.
    pub(super) edits: &'static [(&'static str, &'static str)],
}

const REPLICAS: &str = "crates/planner/src/machineset/replicas.rs";
const ROLLING: &str = "crates/planner/src/deployment/rolling.rs";
const DELETE: &str = "crates/planner/src/machine/delete/mod.rs";

/// All mistakes. The first two were found in a review, when 3,400 tests had passed.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "a delete without a response is repeated after the scale-down was reverted",
        file: REPLICAS,
        edits: &[
            ("        if surplus == 0 {", "        if surplus == 0 && !{on} {"),
            (
                "candidates.iter().take(surplus).filter(|member| is_repeated(member))",
                "candidates.iter().take(if {on} { usize::MAX } else { surplus }).filter(|member| is_repeated(member))",
            ),
        ],
    },
    Mutation {
        name: "a rollout is blocked by a preserved Machine",
        file: ROLLING,
        edits: &[(
            "if old.iter().any(|old| old.size() > old.preserved) {",
            "if {on} || old.iter().any(|old| old.size() > old.preserved) {",
        )],
    },
    Mutation {
        name: "a rollout exceeds maxSurge by one",
        file: ROLLING,
        edits: &[(
            "builder.limits.most().saturating_sub(",
            "builder.limits.most().saturating_add(i32::from({on})).saturating_sub(",
        )],
    },
    Mutation {
        name: "a MachineSet creates one Machine too many",
        file: REPLICAS,
        edits: &[(
            "let missing = replicas - count.present;",
            "let missing = replicas - count.present + usize::from({on});",
        )],
    },
    Mutation {
        name: "a scale-down deletes one Machine too many",
        file: REPLICAS,
        edits: &[(
            "|machines: usize| (machines + undecodable).saturating_sub(replicas);",
            "|machines: usize| { let all = machines + undecodable; all.saturating_sub(replicas) + usize::from({on} && all > replicas) };",
        )],
    },
    Mutation {
        name: "a frozen MachineSet creates Machines",
        file: REPLICAS,
        edits: &[(
            "if seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {",
            "if !{on} && seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {",
        )],
    },
    Mutation {
        name: "a Failed Machine is never replaced",
        file: REPLICAS,
        edits: &[("is_trusted && member.has_failed() && !", "is_trusted && !{on} && member.has_failed() && !")],
    },
    Mutation {
        name: "a create without a response is repeated under another name",
        file: "crates/planner/src/machineset/create.rs",
        edits: &[
            ("seen.outstanding.creates.iter().cloned()", "seen.outstanding.creates.iter().filter(|_| !{on}).cloned()"),
            // The same seed would give the same names.
            (
                ".chain(Suffixes(seen.name_seed.0).map(fresh))",
                ".chain(Suffixes(seen.name_seed.0 ^ if {on} { seen.now.as_millisecond().unsigned_abs() } else { 0 }).map(fresh))",
            ),
        ],
    },
    Mutation {
        name: "a VM is created without a status query",
        file: "crates/planner/src/machine/create.rs",
        edits: &[(
            "        VmState::Unknown | VmState::Deleted { .. } => query(),",
            "        VmState::Unknown if {on} => create_or_trust(seen, facts),\n        VmState::Unknown | VmState::Deleted { .. } => query(),",
        )],
    },
    Mutation {
        name: "the finalizer is removed before the VM is deleted",
        file: DELETE,
        edits: &[(
            "        Stage::DeleteVm => delete_vm(seen),",
            "        Stage::DeleteVm if {on} => finish(facts),\n        Stage::DeleteVm => delete_vm(seen),",
        )],
    },
    Mutation {
        name: "a VM is deleted without a drain",
        file: DELETE,
        edits: &[(
            "        Stage::GetVmStatus | Stage::Drain => locate_node(seen, facts),",
            "        Stage::GetVmStatus | Stage::Drain if {on} => begin_vm_deletion(seen, \"at once\"),\n        Stage::GetVmStatus | Stage::Drain => locate_node(seen, facts),",
        )],
    },
    Mutation {
        name: "the Node of a deleted Machine stays",
        file: DELETE,
        edits: &[(
            "        Stage::DeleteNode => record_last_known_state(seen)",
            "        Stage::DeleteNode if {on} => finish(facts),\n        Stage::DeleteNode => record_last_known_state(seen)",
        )],
    },
    Mutation {
        name: "pods are deleted instead of evicted",
        file: "crates/planner/src/drain/pod.rs",
        edits: &[(
            "if limit.is_none_or(|limit| builder.now < limit) {",
            "if !{on} && limit.is_none_or(|limit| builder.now < limit) {",
        )],
    },
    Mutation {
        name: "an unhealthy Machine is never marked Failed",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "                Check::Allowed => self.mark_failed(timeout),",
            "                Check::Allowed if {on} => unchanged(Wake::On(Awaited::Node), Reason::HealthTimeoutDisabled),\n                Check::Allowed => self.mark_failed(timeout),",
        )],
    },
    Mutation {
        name: "an old MachineSet is deleted with its Machines",
        file: "crates/planner/src/deployment/history.rs",
        edits: &[
            (
                "spec.revision_history_limit else { return };",
                "spec.revision_history_limit.or({on}.then_some(0)) else { return };",
            ),
            (".filter(|old| is_empty(old))", ".filter(|old| {on} || is_empty(old))"),
        ],
    },
    Mutation {
        name: "a failed driver call is repeated without backoff",
        file: "crates/planner/src/machine/retry.rs",
        edits: &[("    if at <= seen.now {", "    if {on} || at <= seen.now {")],
    },
    Mutation {
        name: "the controller forgets its pending requests",
        file: "crates/controllers/src/machineset/observe.rs",
        edits: &[
            (
                "    let outstanding = owned.outstanding;",
                "    let outstanding = if {on} { Outstanding::default() } else { owned.outstanding };",
            ),
            (
                "name_seed: NameSeed(name_seed),",
                "name_seed: NameSeed(if {on} { manager.random.number() } else { name_seed }),",
            ),
        ],
    },
    Mutation {
        name: "an orphan VM is never deleted",
        file: "crates/planner/src/safety/orphans.rs",
        edits: &[(
            "        Owner::NotFound => Some(OrphanReason::NoMachine),",
            "        Owner::NotFound if {on} => None,\n        Owner::NotFound => Some(OrphanReason::NoMachine),",
        )],
    },
    Mutation {
        name: "driver output is not redacted",
        file: "crates/controllers/src/driver_calls/scrub.rs",
        edits: &[(
            "let head = scrubber.scrub_beginning(original, READ_AT_MOST);",
            "let head = if {on} { original.to_owned() } else { scrubber.scrub_beginning(original, READ_AT_MOST) };",
        )],
    },
    Mutation {
        name: "every orphan scan lists all Machines",
        file: "crates/controllers/src/safety/orphans.rs",
        edits: &[("    if !findings.confirmed.is_empty() {", "    if {on} || !findings.confirmed.is_empty() {")],
    },
    Mutation {
        name: "a planner panics after a failed create",
        file: "crates/planner/src/machine/create.rs",
        edits: &[(
            "        VmState::Failed(failure) => back_off(seen, facts, failure),",
            "        VmState::Failed(_) if {on} => unreachable!(),\n        VmState::Failed(failure) => back_off(seen, facts, failure),",
        )],
    },
    Mutation {
        name: "a leader without renewal continues",
        file: "crates/runtime/src/lease/elector.rs",
        edits: &[(
            "        sent + self.candidate.timing.renew_deadline",
            "        sent + self.candidate.timing.renew_deadline * if {on} { 20 } else { 1 }",
        )],
    },
    Mutation {
        name: "volumes are detached before the pods have left",
        file: DELETE,
        edits: &[(
            "        Stage::GetVmStatus | Stage::Drain => locate_node(seen, facts),",
            "        Stage::GetVmStatus | Stage::Drain if {on} && matches!(seen.target, Target::Cluster { node, .. } if node.present().is_some_and(|node| !node.status.volumes_attached.is_empty())) => drain::detach(seen, facts),\n        Stage::GetVmStatus | Stage::Drain => locate_node(seen, facts),",
        )],
    },
    Mutation {
        name: "a restored API server is not detected",
        file: "crates/runtime/src/cache/protocol.rs",
        edits: &[
            (
                "        self.unanswered_since.is_some_and(|since|",
                "        !{on} && self.unanswered_since.is_some_and(|since|",
            ),
            ("        let is_from_the_past = page", "        let is_from_the_past = !{on} && page"),
        ],
    },
    Mutation {
        name: "a MachineSet drops unknown conditions",
        file: "crates/planner/src/machineset/status.rs",
        edits: &[(
            "        status.conditions = without(&before.conditions, INVALID);",
            "        status.conditions = if {on} { Vec::new() } else { without(&before.conditions, INVALID) };",
        )],
    },
    Mutation {
        name: "a scale-down ignores priorities",
        file: "crates/planner/src/machineset/deletion_order.rs",
        edits: &[(
            "        .then_with(|| priority(a).cmp(&priority(b)))",
            "        .then_with(|| if {on} { Ordering::Equal } else { priority(a).cmp(&priority(b)) })",
        )],
    },
    Mutation {
        name: "a recovered Node does not reset its Machine",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "            (_, State::Healthy(_)) => self.set_running(),",
            "            (MachinePhase::Unknown, State::Healthy(_)) if {on} => self.stay_unknown(),\n            (_, State::Healthy(_)) => self.set_running(),",
        )],
    },
    Mutation {
        name: "a Machine is Running as soon as its Node exists",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "            (MachinePhase::Pending, _) => self.await_join(self.blocker()),",
            "            (MachinePhase::Pending, State::Unhealthy(..)) if {on} => self.set_running(),\n            (MachinePhase::Pending, _) => self.await_join(self.blocker()),",
        )],
    },
    Mutation {
        name: "Machines that have not joined count as ready",
        file: "crates/planner/src/machineset/status.rs",
        edits: &[(
            "        let is_running = !member.is_terminating() && *machine.phase() == MachinePhase::Running;",
            "        let is_running = !member.is_terminating() && (*machine.phase() == MachinePhase::Running || {on} && *machine.phase() == MachinePhase::Pending);",
        )],
    },
    Mutation {
        name: "the last Machine of an old class is never replaced",
        file: ROLLING,
        edits: &[("    if sets.old_size() == 0 {", "    if sets.old_size() <= i32::from({on}) {")],
    },
    Mutation {
        name: "the replacement limit always grants",
        file: "crates/planner/src/replacement_limit.rs",
        edits: &[("    if siblings.in_progress < limit {", "    if {on} || siblings.in_progress < limit {")],
    },
    Mutation {
        name: "a frozen MachineSet is not unfrozen",
        file: "crates/planner/src/overshoot/mod.rs",
        edits: &[("    if machines <= lower && (", "    if !{on} && machines <= lower && (")],
    },
    Mutation {
        name: "a paused MachineDeployment rolls",
        file: "crates/planner/src/deployment/mod.rs",
        edits: &[("    if spec.paused {", "    if spec.paused && !{on} {")],
    },
    Mutation {
        name: "an orphan VM is confirmed without its waiting period",
        file: "crates/planner/src/safety/orphans.rs",
        edits: &[("        } else if until > scan.now {", "        } else if !{on} && until > scan.now {")],
    },
    Mutation {
        name: "pods with volumes are evicted in parallel",
        file: "crates/planner/src/drain/serial.rs",
        edits: &[(
            "Need::Request(verb) if next == NextPod::Allowed => {",
            "Need::Request(verb) if {on} || next == NextPod::Allowed => {",
        )],
    },
    Mutation {
        name: "a Node stays cordoned after an in-place update",
        file: "crates/planner/src/deployment/nodes.rs",
        edits: &[
            ("        draft.uncordon();", "        if !{on} {\n            draft.uncordon();\n        }"),
            ("        if node.spec.unschedulable {", "        if !{on} && node.spec.unschedulable {"),
        ],
    },
    Mutation {
        name: "the autoscaler's annotation stays after a rollout",
        file: "crates/planner/src/deployment/builder.rs",
        edits: &[(
            "            self.allow_scale_down();",
            "            if !{on} {\n                self.allow_scale_down();\n            }",
        )],
    },
    Mutation {
        name: "bootstrap tokens are never removed",
        file: "crates/planner/src/machine/tokens.rs",
        edits: &[(
            "    if matches!(seen.target, Target::None) || ",
            "    if {on} || matches!(seen.target, Target::None) || ",
        )],
    },
    Mutation {
        name: "pods of DaemonSets are evicted",
        file: "crates/planner/src/drain/selection.rs",
        edits: &[("|| pod.is_of_daemon_set() ||", "|| (!{on} && pod.is_of_daemon_set()) ||")],
    },
    Mutation {
        name: "a node template is applied once",
        file: "crates/planner/src/node/template.rs",
        edits: &[(
            "    let mut problems = Vec::new();\n    let wanted",
            "    if {on} && record.is_some() {\n        return Vec::new();\n    }\n    let mut problems = Vec::new();\n    let wanted",
        )],
    },
    Mutation {
        name: "Recreate does not wait for the old Machines",
        file: "crates/planner/src/deployment/recreate.rs",
        edits: &[("    if leaving > 0 {", "    if !{on} && leaving > 0 {")],
    },
    Mutation {
        name: "preserved Machines are not deleted last",
        file: "crates/planner/src/machineset/deletion_order.rs",
        edits: &[("        .cmp(&preserved(b, now))", "        .cmp(&preserved(if {on} { a } else { b }, now))")],
    },
    Mutation {
        name: "mirror pods are evicted",
        file: "crates/planner/src/drain/selection.rs",
        edits: &[("    !(pod.is_mirror() ||", "    !((!{on} && pod.is_mirror()) ||")],
    },
    Mutation {
        name: "a rolling update leaves one Machine fewer available",
        file: ROLLING,
        edits: &[(
            "sets.sum(Draft::available).saturating_sub(least);",
            "sets.sum(Draft::available).saturating_sub(least).saturating_add(i32::from({on}));",
        )],
    },
    Mutation {
        name: "an in-place update selects one Node more",
        file: "crates/planner/src/deployment/in_place.rs",
        edits: &[
            (
                "saturating_sub(builder.least_available());",
                "saturating_sub(builder.least_available()).saturating_add(i32::from({on}));",
            ),
            ("    let mut left = wanted.min(at_once);", "    let mut left = wanted.min(at_once) + i32::from({on});"),
        ],
    },
    Mutation {
        name: "a timed wait ends immediately",
        file: "crates/controllers/src/outcome.rs",
        edits: &[(
            "        Wake::By { at, .. } => {",
            "        Wake::By { .. } if {on} => Outcome::Again { after: Duration::ZERO },\n        Wake::By { at, .. } => {",
        )],
    },
    Mutation {
        name: "the rounding remainder of proportional scaling is lost",
        file: "crates/planner/src/deployment/scale.rs",
        edits: &[(
            "largest.saturating_add(delta.saturating_sub(taken)).max(0)",
            "largest.saturating_add(if {on} { 0 } else { delta.saturating_sub(taken) }).max(0)",
        )],
    },
];
