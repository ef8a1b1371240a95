//! Renumbers states, so that states that differ only in numbers are equal.
//!
//! Versions and UIDs are only compared, and seeds only distinguish names. So they are renumbered in their order.
//! Without this, no state would occur twice.

use std::collections::BTreeSet;

use super::state::{Event, Machine, Name, Operation, Request, State};

/// Renumbers versions, UIDs and seeds.
pub(super) fn rename(state: &mut State) {
    let mut used = Used::default();
    visit(state, &mut |number| used.insert(&number));
    // UIDs of objects that no longer exist are dropped.
    let known: BTreeSet<u8> = used.uids.clone();
    state.deleted_externally.retain(|uid| known.contains(uid));
    state.deleted_externally.sort_unstable();
    visit(state, &mut |number| used.renumber(number));
    for uid in &mut state.deleted_externally {
        *uid = index(&used.uids, *uid);
    }
    sort(state);
}

/// A number, by kind.
enum Number<'a> {
    Version(&'a mut u8),
    Uid(&'a mut u8),
    Seed(&'a mut u8),
}

#[derive(Default)]
struct Used {
    versions: BTreeSet<u8>,
    uids: BTreeSet<u8>,
    seeds: BTreeSet<u8>,
}

impl Used {
    fn insert(&mut self, number: &Number<'_>) {
        match number {
            Number::Version(version) => drop(self.versions.insert(**version)),
            Number::Uid(uid) => drop(self.uids.insert(**uid)),
            Number::Seed(seed) => drop(self.seeds.insert(**seed)),
        }
    }

    fn renumber(&self, number: Number<'_>) {
        match number {
            Number::Version(version) => *version = index(&self.versions, *version),
            Number::Uid(uid) => *uid = index(&self.uids, *uid),
            Number::Seed(seed) => *seed = index(&self.seeds, *seed),
        }
    }
}

fn index(numbers: &BTreeSet<u8>, number: u8) -> u8 {
    u8::try_from(numbers.range(..number).count()).unwrap_or(u8::MAX)
}

fn visit(state: &mut State, visitor: &mut dyn FnMut(Number<'_>)) {
    visitor(Number::Version(&mut state.version));
    visitor(Number::Uid(&mut state.uid));
    visitor(Number::Seed(&mut state.seed));
    state.machines.iter_mut().for_each(|machine| visit_machine(machine, visitor));
    state.late.iter_mut().for_each(|request| visit_request(request, visitor));
    for event in &mut state.machine_events {
        match event {
            Event::Shown(machine) => visit_machine(machine, visitor),
            Event::Gone { name, uid, version } => {
                visit_name(name, visitor);
                visitor(Number::Uid(uid));
                visitor(Number::Version(version));
            }
        }
    }
    let Some(controller) = &mut state.controller else { return };
    visitor(Number::Version(&mut controller.position));
    visitor(Number::Seed(&mut controller.seed));
    controller.machines.iter_mut().for_each(|machine| visit_machine(machine, visitor));
    controller.gone.iter_mut().chain(&mut controller.deletes).for_each(|uid| visitor(Number::Uid(uid)));
    controller.creates.iter_mut().for_each(|name| visit_name(name, visitor));
    if let Some(active) = &mut controller.active {
        let batches = active.batches.iter_mut().flatten();
        active.sent.iter_mut().chain(batches).for_each(|request| visit_request(request, visitor));
    }
}

fn visit_name(name: &mut Name, visitor: &mut dyn FnMut(Number<'_>)) {
    visitor(Number::Seed(&mut name.seed));
}

fn visit_machine(machine: &mut Machine, visitor: &mut dyn FnMut(Number<'_>)) {
    visit_name(&mut machine.name, visitor);
    visitor(Number::Uid(&mut machine.uid));
    visitor(Number::Version(&mut machine.version));
}

fn visit_request(request: &mut Request, visitor: &mut dyn FnMut(Number<'_>)) {
    match &mut request.operation {
        Operation::Create(name) => visit_name(name, visitor),
        Operation::Delete { name, uid, version } => {
            visit_name(name, visitor);
            visitor(Number::Uid(uid));
            visitor(Number::Version(version));
        }
    }
}

fn sort(state: &mut State) {
    state.machines.sort_unstable();
    state.late.sort_unstable();
    if let Some(controller) = &mut state.controller {
        controller.machines.sort_unstable();
        controller.gone.sort_unstable();
        controller.creates.sort_unstable();
        controller.deletes.sort_unstable();
        if let Some(active) = &mut controller.active {
            active.sent.sort_unstable();
        }
    }
}
