//! Mistakes, each of which an invariant must find.

/// One mistake: texts of a file, and what stands there while it is made. `{on}` is whether it is.
pub(super) struct Mutation {
    /// What goes wrong.
    pub(super) name: &'static str,
    /// Where.
    pub(super) file: &'static str,
    /// What is there, and what stands there instead.
    pub(super) edits: &'static [(&'static str, &'static str)],
}

const REPLICAS: &str = "crates/planner/src/machineset/replicas.rs";
const ROLLING: &str = "crates/planner/src/deployment/rolling.rs";
const DELETE: &str = "crates/planner/src/machine/delete/mod.rs";

/// All of them. The first two were found by reading, when 3,400 tests had not.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "a delete with a lost answer is repeated after the wish was withdrawn",
        file: REPLICAS,
        edits: &[
            ("        if surplus == 0 {", "        if surplus == 0 && !{on} {"),
            (
                "candidates.iter().take(surplus).filter(|member| asked(member))",
                "candidates.iter().take(if {on} { usize::MAX } else { surplus }).filter(|member| asked(member))",
            ),
        ],
    },
    Mutation {
        name: "a roll-out stands still behind a preserved machine",
        file: ROLLING,
        edits: &[(
            "if old.iter().any(|old| old.size() > old.preserved) {",
            "if {on} || old.iter().any(|old| old.size() > old.preserved) {",
        )],
    },
    Mutation {
        name: "a roll-out makes one more than its surge",
        file: ROLLING,
        edits: &[(
            "builder.limits.most().saturating_sub(",
            "builder.limits.most().saturating_add(i32::from({on})).saturating_sub(",
        )],
    },
    Mutation {
        name: "a set makes one too many",
        file: REPLICAS,
        edits: &[(
            "let missing = replicas - count.present;",
            "let missing = replicas - count.present + usize::from({on});",
        )],
    },
    Mutation {
        name: "a set that shrinks deletes one too many",
        file: REPLICAS,
        edits: &[(
            "|machines: usize| (machines + unreadable).saturating_sub(replicas);",
            "|machines: usize| { let all = machines + unreadable; all.saturating_sub(replicas) + usize::from({on} && all > replicas) };",
        )],
    },
    Mutation {
        name: "a frozen set makes machines",
        file: REPLICAS,
        edits: &[(
            "if seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {",
            "if !{on} && seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {",
        )],
    },
    Mutation {
        name: "a Failed machine is never replaced",
        file: REPLICAS,
        edits: &[("is_trusted && member.has_failed() && !", "is_trusted && !{on} && member.has_failed() && !")],
    },
    Mutation {
        name: "a create with a lost answer is repeated under another name",
        file: "crates/planner/src/machineset/create.rs",
        edits: &[
            ("seen.outstanding.creates.iter().cloned()", "seen.outstanding.creates.iter().filter(|_| !{on}).cloned()"),
            // The same number would give the same names.
            (
                ".chain(Suffixes(seen.name_seed.0).map(fresh))",
                ".chain(Suffixes(seen.name_seed.0 ^ if {on} { seen.now.as_millisecond().unsigned_abs() } else { 0 }).map(fresh))",
            ),
        ],
    },
    Mutation {
        name: "a VM is made without asking whether there is one",
        file: "crates/planner/src/machine/create.rs",
        edits: &[(
            "        VmState::Unasked | VmState::Gone { .. } => ask(),",
            "        VmState::Unasked if {on} => create_or_trust(seen, facts),\n        VmState::Unasked | VmState::Gone { .. } => ask(),",
        )],
    },
    Mutation {
        name: "a machine is let go before its VM",
        file: DELETE,
        edits: &[(
            "        Stage::DeleteVm => delete_vm(seen),",
            "        Stage::DeleteVm if {on} => let_go(facts),\n        Stage::DeleteVm => delete_vm(seen),",
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
        name: "a Node stays when its machine goes",
        file: DELETE,
        edits: &[(
            "        Stage::DeleteNode => keep_note(seen)",
            "        Stage::DeleteNode if {on} => let_go(facts),\n        Stage::DeleteNode => keep_note(seen)",
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
        name: "a machine that stays unhealthy is never given up",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "                Ruling::Granted => self.is_given_up(patience),",
            "                Ruling::Granted if {on} => stays(Wake::On(Awaited::Node), Reason::HealthTimeoutDisabled),\n                Ruling::Granted => self.is_given_up(patience),",
        )],
    },
    Mutation {
        name: "an old set is deleted with its machines",
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
        name: "a failed driver call is repeated at once, without end",
        file: "crates/planner/src/machine/hold.rs",
        edits: &[("    if at <= seen.now {", "    if {on} || at <= seen.now {")],
    },
    Mutation {
        name: "the shell forgets what it has asked for",
        file: "crates/controllers/src/machineset/observe.rs",
        edits: &[
            (
                "    let outstanding = outstanding(shared, &fleet.expectations, key);",
                "    let outstanding = if {on} { Outstanding::default() } else { outstanding(shared, &fleet.expectations, key) };",
            ),
            (
                "name_seed: NameSeed(name_seed),",
                "name_seed: NameSeed(if {on} { fleet.random.number() } else { name_seed }),",
            ),
        ],
    },
    Mutation {
        name: "a VM that belongs to nobody is never collected",
        file: "crates/planner/src/safety/orphans.rs",
        edits: &[(
            "        Owner::Nobody => Some(Charge::NoMachine),",
            "        Owner::Nobody if {on} => None,\n        Owner::Nobody => Some(Charge::NoMachine),",
        )],
    },
    Mutation {
        name: "what a driver says is told as it was said",
        file: "crates/controllers/src/limiter/words.rs",
        edits: &[(
            "let head = scrubber.scrub_beginning(said, LOOKED_AT);",
            "let head = if {on} { said.to_owned() } else { scrubber.scrub_beginning(said, LOOKED_AT) };",
        )],
    },
    Mutation {
        name: "every scan for orphans lists all machines",
        file: "crates/controllers/src/safety/orphans.rs",
        edits: &[("    if !findings.condemned.is_empty() {", "    if {on} || !findings.condemned.is_empty() {")],
    },
    Mutation {
        name: "a planner panics where a creation has failed",
        file: "crates/planner/src/machine/create.rs",
        edits: &[(
            "        VmState::Failed(failure) => back_off(seen, facts, failure),",
            "        VmState::Failed(_) if {on} => unreachable!(),\n        VmState::Failed(failure) => back_off(seen, facts, failure),",
        )],
    },
    Mutation {
        name: "whoever cannot renew its lease goes on",
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
        name: "an API server that was put back is believed to have gone on",
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
        name: "a set drops conditions that it does not know",
        file: "crates/planner/src/machineset/status.rs",
        edits: &[(
            "        status.conditions = without(&before.conditions, INVALID);",
            "        status.conditions = if {on} { Vec::new() } else { without(&before.conditions, INVALID) };",
        )],
    },
    Mutation {
        name: "a set that shrinks does not look at priorities",
        file: "crates/planner/src/machineset/victims.rs",
        edits: &[(
            "        .then_with(|| priority(a).cmp(&priority(b)))",
            "        .then_with(|| if {on} { Ordering::Equal } else { priority(a).cmp(&priority(b)) })",
        )],
    },
    Mutation {
        name: "a node that recovers does not save its machine",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "            (_, State::Healthy(_)) => self.joins(),",
            "            (MachinePhase::Unknown, State::Healthy(_)) if {on} => self.stay_unknown(),\n            (_, State::Healthy(_)) => self.joins(),",
        )],
    },
    Mutation {
        name: "a machine runs as soon as its node is there",
        file: "crates/planner/src/machine/health.rs",
        edits: &[(
            "            (MachinePhase::Pending, _) => self.waits_to_join(self.obstacle()),",
            "            (MachinePhase::Pending, State::Unhealthy(..)) if {on} => self.joins(),\n            (MachinePhase::Pending, _) => self.waits_to_join(self.obstacle()),",
        )],
    },
    Mutation {
        name: "a set counts machines as ready that have not joined",
        file: "crates/planner/src/machineset/status.rs",
        edits: &[(
            "        let is_running = !member.is_leaving() && *machine.phase() == MachinePhase::Running;",
            "        let is_running = !member.is_leaving() && (*machine.phase() == MachinePhase::Running || {on} && *machine.phase() == MachinePhase::Pending);",
        )],
    },
    Mutation {
        name: "the last machine of an old class is never replaced",
        file: ROLLING,
        edits: &[("    if sets.old_size() == 0 {", "    if sets.old_size() <= i32::from({on}) {")],
    },
    Mutation {
        name: "the replacement limit always grants",
        file: "crates/planner/src/replacement_limit.rs",
        edits: &[("    if siblings.in_progress < limit {", "    if {on} || siblings.in_progress < limit {")],
    },
    Mutation {
        name: "a frozen MachineSet is not thawed",
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
            "Need::Request(verb) if next == NextPod::MayGo => {",
            "Need::Request(verb) if {on} || next == NextPod::MayGo => {",
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
            "            self.leave_nodes_to_autoscaler();",
            "            if !{on} {\n                self.leave_nodes_to_autoscaler();\n            }",
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
            "    let mut oddities = Vec::new();\n    let wanted",
            "    if {on} && record.is_some() {\n        return Vec::new();\n    }\n    let mut oddities = Vec::new();\n    let wanted",
        )],
    },
    Mutation {
        name: "Recreate does not wait for the old Machines",
        file: "crates/planner/src/deployment/recreate.rs",
        edits: &[("    if leaving > 0 {", "    if !{on} && leaving > 0 {")],
    },
    Mutation {
        name: "preserved Machines are not deleted last",
        file: "crates/planner/src/machineset/victims.rs",
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
        name: "a wait for a time is over at once",
        file: "crates/controllers/src/outcome.rs",
        edits: &[(
            "        Wake::By { at, .. } => {",
            "        Wake::By { .. } if {on} => Outcome::Again { after: Duration::ZERO },\n        Wake::By { at, .. } => {",
        )],
    },
];
