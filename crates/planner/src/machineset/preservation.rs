//! Preserves Failed Machines on behalf of a MachineSet.
//!
//! A Failed Machine is normally replaced. Users may request its preservation on the Machine or its Node, and a
//! MachineSet may request it for a few Machines (`autoPreserveFailedMachineMax`). The annotation is only a request: the
//! machine controller acts on it and writes the expiry. [`crate::preservation`] decides for both controllers which
//! request is effective. The requests of the MachineSet are counted on the current Machines and not taken from its
//! status, which may be behind.
//!
//! A MachineSet requests the preservation of a Machine once. When it expires, the machine controller removes the
//! annotation. A MachineSet that was frozen or not reconciled at that moment would find a Failed Machine without
//! request and preserve it for another four days. So both controllers record on the Machine that it was preserved
//! before.

use std::collections::BTreeMap;

use api::names::annotations::{PRESERVE, PRESERVED_BEFORE, PRESERVED_BEFORE_VALUE};
use api::{Machine, Object, Preservable, PreserveValue};
use jiff::Timestamp;

use super::member::Member;
use crate::preservation::{effective_value, is_preserved};

/// Change of a Machine's preserve annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Preserve the Machine on behalf of the MachineSet.
    AutoPreserve,
    /// Stop preserving the Machine.
    Release,
}

impl Mark {
    pub(super) fn write(self, annotations: &mut BTreeMap<&'static str, Option<String>>) {
        match self {
            Self::AutoPreserve => {
                let value = PreserveValue::AutoPreserved.as_str().to_owned();
                annotations.insert(PRESERVE, Some(value));
                annotations.insert(PRESERVED_BEFORE, Some(PRESERVED_BEFORE_VALUE.to_owned()));
            }
            Self::Release => drop(annotations.insert(PRESERVE, None)),
        }
    }
}

/// Returns the changes of preserve annotations by Machine name. The newest failures are preserved, and the oldest
/// preserved ones are released first.
pub(super) fn marks<'a>(claimed: &[&'a Member<'a>], limit: i32) -> BTreeMap<&'a str, Mark> {
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut kept: Vec<&Member<'_>> = claimed.iter().copied().filter(|member| is_auto_preserved(member)).collect();
    if kept.len() > limit {
        kept.sort_by_key(|member| (member.machine.created_at(), member.machine.name()));
        return kept.iter().take(kept.len() - limit).map(|member| (member.machine.name(), Mark::Release)).collect();
    }
    let free = limit - kept.len();
    if free == 0 {
        return BTreeMap::new();
    }
    let undecided = |member: &&Member<'_>| {
        member.has_failed() && effective_value(member.machine, member.node).is_none() && !was_preserved(member.machine)
    };
    let mut failed: Vec<&Member<'_>> = claimed.iter().copied().filter(undecided).collect();
    failed.sort_by(|a, b| (b.machine.created_at(), a.machine.name()).cmp(&(a.machine.created_at(), b.machine.name())));
    failed.iter().take(free).map(|member| (member.machine.name(), Mark::AutoPreserve)).collect()
}

/// Returns whether the Machine was preserved before, or is until the machine controller removes its expiry.
fn was_preserved(machine: &Machine) -> bool {
    machine.annotation(PRESERVED_BEFORE).is_some() || machine.status.current_status.preserve_expiry_time.is_some()
}

/// Returns whether the MachineSet requested the preservation.
pub(super) fn is_auto_preserved(member: &Member<'_>) -> bool {
    member.machine.preserve() == Some(PreserveValue::AutoPreserved)
}

/// Returns whether a Failed Machine is preserved. `mark` is the change of this reconcile.
pub(super) fn is_kept(member: &Member<'_>, mark: Option<Mark>, now: Timestamp) -> bool {
    if mark != Some(Mark::AutoPreserve) {
        return is_preserved(member.machine, member.node, now);
    }
    let mut asked = member.machine.clone();
    let value = PreserveValue::AutoPreserved.as_str().to_owned();
    asked.metadata.annotations.insert(PRESERVE, value);
    is_preserved(&asked, member.node, now)
}
