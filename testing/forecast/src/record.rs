//! Records when each Machine is created, running and deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use driver_virtual::{VirtualCloud, VmEvent};
use fake_apiserver::{ChangeKind, Observation, Server};
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::Clock;
use serde_json::Value;

use crate::snapshot::text;
use crate::times::time;

/// Qualified name of the resource.
pub(crate) const MACHINES: &str = "machines.machine.sapcloud.io";

/// Observed timestamps of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) class: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) ready: Option<Timestamp>,
    pub(crate) deleting: Option<Timestamp>,
    pub(crate) deleted: Option<Timestamp>,
}

/// All observations. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct Record {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    timelines: BTreeMap<String, Timeline>,
    present: usize,
    peak: usize,
    /// Time at which each VM is deleted.
    vms: BTreeMap<String, Timestamp>,
    peak_vms: usize,
}

impl Record {
    /// Starts recording.
    pub(crate) fn watch(&self, server: &Server, cloud: &VirtualCloud, clock: &Clock) {
        let (record, time) = (self.clone(), clock.clone());
        server.observe(Arc::new(move |observation| {
            if let Observation::Written { kind: MACHINES, change, .. } = observation {
                record.written(&change.key.name, &change.after, change.kind, time.now());
            }
        }));
        let (state, time) = (self.state.clone(), clock.clone());
        cloud.observe(Arc::new(move |event, vm| {
            let (mut state, now) = (state.lock(), time.now());
            match event {
                VmEvent::Given => drop(state.vms.insert(vm.id.to_string(), Timestamp::MAX)),
                // The event is sent when the deletion is requested. The VM exists until the latency has passed.
                VmEvent::Deleted | VmEvent::TakenAway => {
                    let deleted = now.checked_add(vm.spec.delete_latency).unwrap_or(now);
                    state.vms.insert(vm.id.to_string(), deleted);
                }
            }
            state.vms.retain(|_, deleted| *deleted > now);
            state.peak_vms = state.peak_vms.max(state.vms.len());
        }));
    }

    fn written(&self, name: &str, machine: &Value, change: ChangeKind, now: Timestamp) {
        let mut state = self.state.lock();
        let State { timelines, present, peak, .. } = &mut *state;
        let timeline = timelines.entry(name.to_owned()).or_insert_with(|| {
            *present += 1;
            Timeline {
                class: text(machine, "/spec/class/name").to_owned(),
                created: time(machine, "/metadata/creationTimestamp").or(Some(now)),
                ..Timeline::default()
            }
        });
        *peak = (*peak).max(*present);
        if ["Running", "Available"].contains(&text(machine, "/status/currentStatus/phase")) {
            timeline.ready.get_or_insert(now);
        }
        if machine.pointer("/metadata/deletionTimestamp").is_some() {
            timeline.deleting.get_or_insert(now);
        }
        if change == ChangeKind::Removed {
            timeline.deleted = Some(now);
            *present = present.saturating_sub(1);
        }
    }

    /// Starts the measurement: resets the peaks to the current numbers.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        (state.peak, state.peak_vms) = (state.present, state.vms.len());
    }

    /// Returns the number of Machines, their peak, and the peak number of VMs.
    pub(crate) fn numbers(&self) -> (usize, usize, usize) {
        let state = self.state.lock();
        (state.present, state.peak, state.peak_vms)
    }

    pub(crate) fn timelines(&self) -> BTreeMap<String, Timeline> {
        self.state.lock().timelines.clone()
    }
}
