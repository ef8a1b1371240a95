//! States that differ in nothing but numbers are one.
//!
//! Versions and uids are only compared, and seeds only tell names apart. So each of them is renumbered in its order, and histories that
//! lead to the same thing meet again: without this, no state would ever come twice.

use std::collections::BTreeSet;

use super::state::{Event, Machine, Name, Request, State, What};

/// Renumbers versions, uids and seeds.
pub(super) fn rename(state: &mut State) {
    let mut used = Used::default();
    visit(state, &mut |number| used.insert(&number));
    // What is compared with no other object any more need not be remembered.
    let known: BTreeSet<u8> = used.uids.clone();
    state.by_somebody.retain(|uid| known.contains(uid));
    state.by_somebody.sort_unstable();
    visit(state, &mut |number| used.renumber(number));
    for uid in &mut state.by_somebody {
        *uid = place(&used.uids, *uid);
    }
    sort(state);
}

/// A number of one kind.
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
            Number::Version(version) => *version = place(&self.versions, *version),
            Number::Uid(uid) => *uid = place(&self.uids, *uid),
            Number::Seed(seed) => *seed = place(&self.seeds, *seed),
        }
    }
}

fn place(numbers: &BTreeSet<u8>, number: u8) -> u8 {
    u8::try_from(numbers.range(..number).count()).unwrap_or(u8::MAX)
}

fn visit(state: &mut State, see: &mut dyn FnMut(Number<'_>)) {
    see(Number::Version(&mut state.version));
    see(Number::Uid(&mut state.uid));
    see(Number::Seed(&mut state.seed));
    state.machines.iter_mut().for_each(|machine| visit_machine(machine, see));
    state.late.iter_mut().for_each(|request| visit_request(request, see));
    for event in &mut state.machine_events {
        match event {
            Event::Shown(machine) => visit_machine(machine, see),
            Event::Gone { name, uid, version } => {
                visit_name(name, see);
                see(Number::Uid(uid));
                see(Number::Version(version));
            }
        }
    }
    let Some(controller) = &mut state.controller else { return };
    see(Number::Version(&mut controller.position));
    see(Number::Seed(&mut controller.seed));
    controller.machines.iter_mut().for_each(|machine| visit_machine(machine, see));
    controller.gone.iter_mut().chain(&mut controller.deletes).for_each(|uid| see(Number::Uid(uid)));
    controller.creates.iter_mut().for_each(|name| visit_name(name, see));
    if let Some(acting) = &mut controller.acting {
        let batches = acting.batches.iter_mut().flatten();
        acting.sent.iter_mut().chain(batches).for_each(|request| visit_request(request, see));
    }
}

fn visit_name(name: &mut Name, see: &mut dyn FnMut(Number<'_>)) {
    see(Number::Seed(&mut name.seed));
}

fn visit_machine(machine: &mut Machine, see: &mut dyn FnMut(Number<'_>)) {
    visit_name(&mut machine.name, see);
    see(Number::Uid(&mut machine.uid));
    see(Number::Version(&mut machine.version));
}

fn visit_request(request: &mut Request, see: &mut dyn FnMut(Number<'_>)) {
    match &mut request.what {
        What::Create(name) => visit_name(name, see),
        What::Delete { name, uid, version } => {
            visit_name(name, see);
            see(Number::Uid(uid));
            see(Number::Version(version));
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
        if let Some(acting) = &mut controller.acting {
            acting.sent.sort_unstable();
        }
    }
}
