//! The cloud itself: what is shared, what can be set, what can be done to it, what can be seen.

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

/// Wall time, as something that is handed in.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How a cloud behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which optional calls it has. With `initialize`, a new VM is `Uninitialized` until it was called.
    pub capabilities: Capabilities,
    /// Whether a machine can get two VMs. Where it can, status does not lag, so that there is an honest way to look first.
    pub doubles: Doubles,
    /// How far status looks into the past.
    pub status_lag: Duration,
    /// How far list looks into the past.
    pub list_lag: Duration,
    /// What its errors on demand quote: clouds quote requests, and those hold credentials.
    pub quoted: String,
    /// How many VMs there may be; can be changed later.
    pub quotas: Quotas,
    /// How nodes live.
    pub node_life: NodeLife,
    /// How many calls are remembered one by one.
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

/// A cloud with a clock. Clones are the same cloud; it outlives the controllers that use it.
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

/// Everything that changes, behind one lock that is never held across a wait.
pub(crate) struct Sky {
    pub(crate) ledger: Ledger,
    pub(crate) scripts: Scripts,
    pub(crate) calls: Calls,
    pub(crate) dice: fastrand::Rng,
    pub(crate) journal: Journal,
    observer: Option<Observer>,
}

impl Sky {
    /// Writes down that something was done to a VM, and tells whoever looks.
    pub(crate) fn note(&mut self, event: VmEvent, id: &VmId) {
        self.journal.note(id);
        if let (Some(observer), Some(vm)) = (&self.observer, self.ledger.get(id)) {
            observer(event, vm);
        }
    }
}

impl VirtualCloud {
    /// An empty cloud. What it does by chance follows from `seed`.
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

    // ApiError on demand.

    /// Lets this befall calls from now on.
    pub fn inject(&self, script: Script) {
        self.look(|sky| sky.scripts.add(script));
    }

    /// Lets nothing befall calls any more.
    pub fn clear_faults(&self) {
        self.look(|sky| sky.scripts.clear());
    }

    /// Changes how many VMs there may be. Those that are there stay.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.look(|sky| sky.ledger.quotas = quotas);
    }

    /// Cuts the power of a VM: it is still there and still paid for, but its kubelet is silent until it is revived.
    pub fn kill(&self, vm: &VmId) {
        self.set_power(vm, Power::Off);
    }

    /// Stops everything inside a VM without the cloud noticing.
    pub fn hang(&self, vm: &VmId) {
        self.set_power(vm, Power::Hung);
    }

    /// Brings a VM back: one that hung goes on where it stood, one without power boots.
    pub fn revive(&self, vm: &VmId) {
        self.set_power(vm, Power::On);
    }

    /// Takes a VM away at once, as a cloud does with one that was rented cheaply.
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

    /// Makes a VM behind the driver's back: of another cluster, without a machine's name, or a second one for a machine.
    /// Refused only when the quota is full.
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

    /// Puts a VM of an earlier cloud back under its name: it is up, and its kubelet goes on. It counts against no quota. `None` if the name is taken, or its
    /// spec cannot be read.
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

    // What there is to see.

    /// Every VM that stays, so that a later cloud can put it back. What it was started with is not kept.
    pub fn kept(&self) -> Vec<KeptVm> {
        let stays = |vm: &Vm| vm.leaving.is_none();
        self.vms().iter().filter(|vm| stays(vm)).map(KeptVm::of).collect()
    }

    /// Every VM that is not gone, ordered by name.
    pub fn vms(&self) -> Vec<Vm> {
        let now = Instant::now();
        self.look(|sky| sky.ledger.present(now).cloned().collect())
    }

    /// Every VM that is not gone and was made for this machine, whatever its cluster.
    pub fn vms_of(&self, machine: &str) -> Vec<Vm> {
        let of_machine = |vm: &Vm| vm.machine.as_ref().is_some_and(|name| name.as_str() == machine);
        self.vms().into_iter().filter(of_machine).collect()
    }

    /// One VM, while it is not gone.
    pub fn vm(&self, id: &VmId) -> Option<Vm> {
        let now = Instant::now();
        self.look(|sky| sky.ledger.get(id).filter(|vm| vm.state(now) != State::Gone).cloned())
    }

    /// What a VM was started with; it may hold a token, so it is not part of [`Vm`].
    pub fn user_data(&self, id: &VmId) -> Option<Arc<[u8]>> {
        self.look(|sky| sky.ledger.get(id).and_then(|vm| vm.user_data.0.clone()))
    }

    /// How often a method was called.
    pub fn count(&self, method: Method) -> u64 {
        self.look(|sky| sky.calls.count(method))
    }

    /// The latest calls, oldest first.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.look(|sky| sky.calls.latest())
    }

    /// Calls `observer` for what becomes of VMs from now on. There is one at most.
    pub fn observe(&self, observer: Observer) {
        self.look(|sky| sky.observer = Some(observer));
    }

    /// Tells that something was done to a VM, not what. Time alone changes VMs too (they boot, they go); for that, look at
    /// the instants of a VM.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    // For the driver and the nodes.

    pub(crate) fn time(&self) -> (Instant, Timestamp) {
        (Instant::now(), (self.shared.now)())
    }

    pub(crate) fn look<T>(&self, with: impl FnOnce(&mut Sky) -> T) -> T {
        with(&mut self.shared.state.lock())
    }

    /// Changes VMs: what `with` writes into the journal is told to whoever follows it.
    pub(crate) fn change<T>(&self, with: impl FnOnce(&mut Sky) -> T) -> T {
        let longest_lag = self.shared.config.status_lag.max(self.shared.config.list_lag);
        let (outcome, written) = self.look(|sky| {
            sky.ledger.forget_gone(Instant::now(), longest_lag);
            (with(sky), sky.journal.end())
        });
        self.shared.changes.send_replace(written);
        outcome
    }

    /// Makes a VM, or finds the one the machine has.
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

    /// Notes the beginning of a call; its end is noted by the answer, or by dropping what this returns.
    pub(crate) fn begin(&self, method: Method, machine: Option<&str>) -> OpenCall<'_> {
        let at = (self.shared.now)();
        OpenCall { cloud: self, number: self.look(|sky| sky.calls.begin(at, method, machine)), end: CallEnd::Abandoned }
    }

    /// How far status looks into the past.
    pub(crate) fn status_lag(&self) -> Duration {
        match self.shared.config.doubles {
            Doubles::Prevented => self.shared.config.status_lag,
            Doubles::Allowed => Duration::ZERO,
        }
    }

    /// The VMs that match, as status or list see them.
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

/// A call whose end has not been noted.
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
