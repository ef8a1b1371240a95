//! What happens, machine by machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use driver_virtual::{VirtualCloud, VmEvent};
use fake_apiserver::{ChangeKind, Observation, Server};
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::Clock;
use serde_json::Value;

use crate::seen::text;
use crate::times::time;

/// The qualified name of the kind.
pub(crate) const MACHINES: &str = "machines.machine.sapcloud.io";

/// A machine's life, as far as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) class: String,
    pub(crate) made: Option<Timestamp>,
    pub(crate) ready: Option<Timestamp>,
    pub(crate) deleting: Option<Timestamp>,
    pub(crate) gone: Option<Timestamp>,
}

/// What was seen. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Record {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    lives: BTreeMap<String, Life>,
    present: usize,
    most: usize,
    /// VMs, and when each is gone.
    vms: BTreeMap<String, Timestamp>,
    most_vms: usize,
}

impl Record {
    /// Looks at everything from now on.
    pub(crate) fn watch(&self, server: &Server, cloud: &VirtualCloud, clock: &Clock) {
        let (record, time) = (self.clone(), clock.clone());
        server.observe(Arc::new(move |observation| {
            if let Observation::Written { kind: MACHINES, change, .. } = observation {
                record.written(&change.key.name, &change.after, change.kind, time.now());
            }
        }));
        let (inside, time) = (self.inside.clone(), clock.clone());
        cloud.observe(Arc::new(move |event, vm| {
            let (mut inside, now) = (inside.lock(), time.now());
            match event {
                VmEvent::Given => drop(inside.vms.insert(vm.id.to_string(), Timestamp::MAX)),
                // It is told when it is asked to go, and is there until it has gone.
                VmEvent::Deleted | VmEvent::TakenAway => {
                    let gone = now.checked_add(vm.spec.delete_latency).unwrap_or(now);
                    inside.vms.insert(vm.id.to_string(), gone);
                }
            }
            inside.vms.retain(|_, gone| *gone > now);
            inside.most_vms = inside.most_vms.max(inside.vms.len());
        }));
    }

    fn written(&self, name: &str, machine: &Value, change: ChangeKind, now: Timestamp) {
        let mut inside = self.inside.lock();
        let Inside { lives, present, most, .. } = &mut *inside;
        let life = lives.entry(name.to_owned()).or_insert_with(|| {
            *present += 1;
            Life {
                class: text(machine, "/spec/class/name").to_owned(),
                made: time(machine, "/metadata/creationTimestamp").or(Some(now)),
                ..Life::default()
            }
        });
        *most = (*most).max(*present);
        if ["Running", "Available"].contains(&text(machine, "/status/currentStatus/phase")) {
            life.ready.get_or_insert(now);
        }
        if machine.pointer("/metadata/deletionTimestamp").is_some() {
            life.deleting.get_or_insert(now);
        }
        if change == ChangeKind::Removed {
            life.gone = Some(now);
            *present = present.saturating_sub(1);
        }
    }

    /// The time that counts begins: what was most before is forgotten.
    pub(crate) fn begin(&self) {
        let mut inside = self.inside.lock();
        (inside.most, inside.most_vms) = (inside.present, inside.vms.len());
    }

    /// Machines now, the most at once, and the most VMs.
    pub(crate) fn numbers(&self) -> (usize, usize, usize) {
        let inside = self.inside.lock();
        (inside.present, inside.most, inside.most_vms)
    }

    pub(crate) fn lives(&self) -> BTreeMap<String, Life> {
        self.inside.lock().lives.clone()
    }
}
