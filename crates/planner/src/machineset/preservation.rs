//! Failed machines that are kept for a look.
//!
//! A Failed machine is normally replaced. Users may ask to preserve one, on the machine or on its node, and a set may ask for a
//! few by itself (`autoPreserveFailedMachineMax`). The annotation is only a request: the machine controller carries it out and
//! writes until when. Which wish counts is decided in one place for both ([`crate::preservation`]). How many the set has asked for is
//! counted on the machines as they are now, never taken from the status before: that one is late, and a lower limit would release
//! more than it must.
//!
//! A set asks once for a machine. When the time is up the machine controller takes the annotation away, and a set that was frozen or
//! away at that moment would find a Failed machine about which nobody says anything, and keep it for another four days. So both note
//! on the machine that it was preserved before.

use std::collections::BTreeMap;

use api::names::annotations;
use api::{Preservable, Machine, Object, PreserveValue};
use jiff::Timestamp;

use super::member::Member;
use super::step::Mark;
use crate::preservation::{effective_value, is_preserved};

/// Which preserve annotations change, by machine: the newest failures are kept, the oldest kept ones are let go first.
pub(super) fn marks<'a>(claimed: &[&'a Member<'a>], limit: i32) -> BTreeMap<&'a str, Mark> {
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut kept: Vec<&Member<'_>> = claimed.iter().copied().filter(|member| is_auto_preserved(member)).collect();
    if kept.len() > limit {
        kept.sort_by_key(|member| (member.machine.created_at(), member.machine.name()));
        return kept.iter().take(kept.len() - limit).map(|member| (member.machine.name(), Mark::LetGo)).collect();
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

/// Whether it was preserved before, or is until the machine controller has taken its expiry back.
fn was_preserved(machine: &Machine) -> bool {
    machine.annotation(annotations::PRESERVED_BEFORE).is_some()
        || machine.status.current_status.preserve_expiry_time.is_some()
}

/// Whether the set itself asked to preserve it.
pub(super) fn is_auto_preserved(member: &Member<'_>) -> bool {
    member.machine.preserve() == Some(PreserveValue::AutoPreserved)
}

/// Whether a Failed machine is kept; `mark` is what this very reconcile asks for.
pub(super) fn is_kept(member: &Member<'_>, mark: Option<Mark>, now: Timestamp) -> bool {
    if mark != Some(Mark::AutoPreserve) {
        return is_preserved(member.machine, member.node, now);
    }
    let mut asked = member.machine.clone();
    let value = PreserveValue::AutoPreserved.as_str().to_owned();
    asked.metadata.annotations.insert(annotations::PRESERVE, value);
    is_preserved(&asked, member.node, now)
}
