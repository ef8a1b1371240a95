//! The cloud: shared state, settings, actions and queries.

use std::sync::Arc;
use std::time::Duration;

use api::MachineName;
use driver::{Capabilities, Code, DriverError, Method, Support};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::calls::{CallEnd, CallRecord, Calls};
use crate::faults::{Script, Scripts};
use crate::journal::Journal;
use crate::kept::KeptVm;
use crate::ledger::{Doubles, Ledger, Order, Quotas, Refusal, Wanted};
use crate::node_life::NodeLife;
use crate::observer::{Observer, VmEvent};
use crate::spec::Spec;
use crate::vm::{Initialized, Leaving, Power, State, UserData, Vm, VmId};

/// Returns the wall time; injected.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Settings of a cloud.
#[derive(Clone, Debug)]
pub struct Config {
    /// The optional calls. With `initialize`, a new VM is `Uninitialized` until it is called.
    pub capabilities: Capabilities,
    /// Whether a machine can get two VMs. If so, status does not lag, so that callers can check first.
    pub doubles: Doubles,
    /// Lag of status.
    pub status_lag: Duration,
    /// Lag of list.
    pub list_lag: Duration,
    /// Quoted by injected errors: clouds quote requests, which contain credentials.
    pub quoted: String,
    /// Limits of the number of VMs; can be changed later.
    pub quotas: Quotas,
    /// Settings of the simulated nodes.
    pub node_life: NodeLife,
    /// Number of calls that are recorded individually.
    pub remembered_calls: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capabilities: Capabilities { initialize: Support::NotOffered, ..Capabilities::ALL },
            doubles: Doubles::default(),
            status_lag: Duration::ZERO,
            list_lag: Duration::ZERO,
            quoted: String::new(),
            quotas: Quotas::default(),
            node_life: NodeLife::default(),
            remembered_calls: 10_000,
        }
    }
}

/// A simulated cloud. Clones share the same cloud; it outlives the controllers that use it.
#[derive(Clone)]
pub struct VirtualCloud {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) now: Now,
    state: Mutex<Sky>,
    changes: watch::Sender<u64>,
}

/// All mutable state, behind one lock that is never held across an await.
pub(crate) struct Sky {
    pub(crate) ledger: Ledger,
    pub(crate) scripts: Scripts,
    pub(crate) calls: Calls,
    pub(crate) dice: fastrand::Rng,
    pub(crate) journal: Journal,
    observer: Option<Observer>,
}

impl Sky {
    /// Records a change of a VM and calls the observer.
    pub(crate) fn note(&mut self, event: VmEvent, id: &VmId) {
        self.journal.note(id);
        if let (Some(observer), Some(vm)) = (&self.observer, self.ledger.get(id)) {
            observer(event, vm);
        }
    }
}

impl VirtualCloud {
    /// Creates an empty cloud. `seed` determines its random behaviour.
    pub fn new(config: Config, now: Now, seed: u64) -> Self {
        let state = Mutex::new(Sky {
            ledger: Ledger::with(config.quotas.clone()),
            scripts: Scripts::default(),
            calls: Calls::keeping(config.remembered_calls),
            dice: fastrand::Rng::with_seed(seed),
            journal: Journal::default(),
            observer: None,
        });
        Self { shared: Arc::new(Shared { config, now, state, changes: watch::Sender::new(0) }) }
    }

    // Injected errors.

    /// Adds a fault script.
    pub fn inject(&self, script: Script) {
        self.look(|sky| sky.scripts.add(script));
    }

    /// Removes all fault scripts.
    pub fn clear_faults(&self) {
        self.look(|sky| sky.scripts.clear());
    }

    /// Changes the limits of the number of VMs. Existing VMs stay.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.look(|sky| sky.ledger.quotas = quotas);
    }

    /// Turns a VM off: it still exists and incurs cost, but its kubelet is silent until the VM is revived.
    pub fn kill(&self, vm: &VmId) {
        self.set_power(vm, Power::Off);
    }

    /// Stops all processes in a VM without the cloud noticing.
    pub fn hang(&self, vm: &VmId) {
        self.set_power(vm, Power::Hung);
    }

    /// Revives a VM: a hung VM continues, one without power boots.
    pub fn revive(&self, vm: &VmId) {
        self.set_power(vm, Power::On);
    }

    /// Removes a VM immediately, as a cloud does with a spot instance.
    pub fn reclaim(&self, vm: &VmId) {
        let (now, at) = self.time();
        self.change(|sky| {
            if let Some(taken) = sky.ledger.get_mut(vm) {
                taken.leaving = Some(Leaving { since: now, gone: now });
                taken.deleted_at.get_or_insert(at);
                sky.note(VmEvent::TakenAway, vm);
            }
        });
    }

    /// Creates a VM without the driver: of another cluster, without a machine name, or a duplicate for a machine. Fails
    /// only if the quota is exceeded.
    pub fn plant(&self, spec: Spec, machine: Option<MachineName>) -> Option<Vm> {
        let time = self.time();
        let order = Order {
            machine,
            class: String::new(),
            spec: Arc::new(spec),
            user_data: UserData::default(),
            initialized: Initialized::Yes,
        };
        self.fill(order, Doubles::Allowed, time).ok()
    }

    /// Restores a VM of an earlier cloud under its name: it is running, and its kubelet continues. It counts against no
    /// quota. Returns `None` if the name is taken or its spec is invalid.
    pub fn put_back(&self, kept: &KeptVm) -> Option<Vm> {
        let (now, _) = self.time();
        let order = Order {
            machine: kept.machine.as_deref().map(MachineName::from),
            class: kept.class.clone(),
            spec: Arc::new(Spec::decode(&kept.provider_spec).ok()?),
            user_data: UserData::default(),
            initialized: Initialized::Yes,
        };
        self.change(|sky| {
            let vm = sky.ledger.put_back(order, VmId(kept.id.as_str().into()), kept.created_at, now)?.clone();
            sky.note(VmEvent::Given, &vm.id);
            Some(vm)
        })
    }

    // Queries.

    /// Returns every VM that is not being deleted, so that a later cloud can restore it. User data is not included.
    pub fn kept(&self) -> Vec<KeptVm> {
        let stays = |vm: &Vm| vm.leaving.is_none();
        self.vms().iter().filter(|vm| stays(vm)).map(KeptVm::of).collect()
    }

    /// Returns every existing VM, ordered by name.
    pub fn vms(&self) -> Vec<Vm> {
        let now = Instant::now();
        self.look(|sky| sky.ledger.present(now).cloned().collect())
    }

    /// Returns every existing VM of this machine, of any cluster.
    pub fn vms_of(&self, machine: &str) -> Vec<Vm> {
        let of_machine = |vm: &Vm| vm.machine.as_ref().is_some_and(|name| name.as_str() == machine);
        self.vms().into_iter().filter(of_machine).collect()
    }

    /// Returns a VM while it exists.
    pub fn vm(&self, id: &VmId) -> Option<Vm> {
        let now = Instant::now();
        self.look(|sky| sky.ledger.get(id).filter(|vm| vm.state(now) != State::Gone).cloned())
    }

    /// Returns the user data of a VM. It may contain a token, so it is not part of [`Vm`].
    pub fn user_data(&self, id: &VmId) -> Option<Arc<[u8]>> {
        self.look(|sky| sky.ledger.get(id).and_then(|vm| vm.user_data.0.clone()))
    }

    /// Returns the number of calls of a method.
    pub fn count(&self, method: Method) -> u64 {
        self.look(|sky| sky.calls.count(method))
    }

    /// Returns the latest calls, oldest first.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.look(|sky| sky.calls.latest())
    }

    /// Calls `observer` for later changes of VMs. There is at most one observer.
    pub fn observe(&self, observer: Observer) {
        self.look(|sky| sky.observer = Some(observer));
    }

    /// Signals that a VM was changed, not how. VMs also change with time (they boot and disappear); for that, use the
    /// instants of a VM.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    // Used by the driver and the nodes.

    pub(crate) fn time(&self) -> (Instant, Timestamp) {
        (Instant::now(), (self.shared.now)())
    }

    pub(crate) fn look<T>(&self, with: impl FnOnce(&mut Sky) -> T) -> T {
        with(&mut self.shared.state.lock())
    }

    /// Changes VMs: entries that `with` adds to the journal are signaled to its readers.
    pub(crate) fn change<T>(&self, with: impl FnOnce(&mut Sky) -> T) -> T {
        let longest_lag = self.shared.config.status_lag.max(self.shared.config.list_lag);
        let (outcome, written) = self.look(|sky| {
            sky.ledger.forget_gone(Instant::now(), longest_lag);
            (with(sky), sky.journal.end())
        });
        self.shared.changes.send_replace(written);
        outcome
    }

    /// Creates a VM or returns the existing one of the machine.
    pub(crate) fn fill(&self, order: Order, doubles: Doubles, time: (Instant, Timestamp)) -> Result<Vm, Refusal> {
        self.change(|sky| {
            let vm = sky.ledger.fill(order, doubles, &mut sky.dice, time)?.clone();
            sky.note(VmEvent::Given, &vm.id);
            Ok(vm)
        })
    }

    fn set_power(&self, id: &VmId, power: Power) {
        let now = Instant::now();
        self.change(|sky| {
            if let Some(vm) = sky.ledger.get_mut(id) {
                if (vm.power, power) == (Power::Off, Power::On) {
                    vm.up = now + vm.spec.boot_latency;
                    vm.boots += 1;
                }
                vm.power = power;
                sky.journal.note(&vm.id);
            }
        });
    }

    /// Records the start of a call. Its end is recorded by the response, or when the returned value is dropped.
    pub(crate) fn begin(&self, method: Method, machine: Option<&str>) -> OpenCall<'_> {
        let at = (self.shared.now)();
        OpenCall { cloud: self, number: self.look(|sky| sky.calls.begin(at, method, machine)), end: CallEnd::Abandoned }
    }

    /// Returns the lag of status.
    pub(crate) fn status_lag(&self) -> Duration {
        match self.shared.config.doubles {
            Doubles::Prevented => self.shared.config.status_lag,
            Doubles::Allowed => Duration::ZERO,
        }
    }

    /// Returns the matching VMs as status or list see them.
    pub(crate) fn seen(&self, cluster: &str, wanted: &Wanted<'_>, lag: Duration) -> Vec<Vm> {
        let now = Instant::now();
        self.look(|sky| sky.ledger.seen(cluster, wanted, now, lag).cloned().collect())
    }
}

impl std::fmt::Debug for VirtualCloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualCloud").field("vms", &self.vms().len()).finish_non_exhaustive()
    }
}

/// A call in progress.
pub(crate) struct OpenCall<'a> {
    cloud: &'a VirtualCloud,
    number: u64,
    end: CallEnd,
}

impl OpenCall<'_> {
    pub(crate) fn answer<T>(mut self, answer: Result<T, DriverError>) -> Result<T, DriverError> {
        self.end = CallEnd::Answered(answer.as_ref().map_or_else(DriverError::code, |_| Code::Ok));
        answer
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.cloud.look(|sky| sky.calls.end(self.number, self.end));
    }
}
