//! Implements the driver calls.
//!
//! Each call validates its request without the cloud, then applies the fault scripts. The effect happens at the *start*
//! of the call's duration: a caller that aborts the call still has a VM, as with a real cloud.

use std::sync::Arc;

use api::view::PersistentVolumeSpec;
use api::{MachineName, NodeAddress, Object, names};
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method,
    Owners, Support,
};
use tokio::time::Instant;

use crate::cloud::VirtualCloud;
use crate::faults::Fault;
use crate::ledger::{Order, Refusal, Wanted};
use crate::observer::VmEvent;
use crate::spec::{PROVIDER, Spec};
use crate::vm::{Initialized, UserData, Vm};

/// The CSI driver of this cloud's volumes.
pub const CSI_DRIVER: &str = "csi.virtual.millwright.dev";

#[async_trait]
impl Driver for VirtualCloud {
    fn capabilities(&self) -> Capabilities {
        self.shared.config.capabilities
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.serve(Method::Create, call, Some(request), || {
            let spec = Arc::new(spec_of(&request.class)?);
            let machine = request.required_machine_name()?;
            let order = Order {
                machine: Some(MachineName::from(machine.to_owned())),
                class: class_name(request),
                user_data: UserData(request.secret.get(names::secrets::USER_DATA).map(Into::into)),
                initialized: match self.capabilities().initialize {
                    Support::Offered => Initialized::NotYet,
                    Support::NotOffered => Initialized::Yes,
                },
                spec: spec.clone(),
            };
            Ok(move || {
                let (now, at) = self.time();
                let doubles = self.shared.config.doubles;
                let vm = self.fill(order, doubles, (now, at)).map_err(refused)?;
                tracing::info!(vm = %vm.provider_id, node = %vm.node_name, "creating VM");
                Ok((created(&vm), now + spec.create_latency))
            })
        })
        .await
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.serve(Method::Delete, call, Some(request), || {
            let spec = spec_of(&request.class)?;
            let wanted = wanted(request)?;
            Ok(move || {
                let (now, at) = self.time();
                let gone = self.change(|sky| {
                    let leaving = sky.ledger.delete(&spec.cluster, &wanted, (now, at));
                    for (vm, _) in &leaving {
                        sky.note(VmEvent::Deleted, vm);
                    }
                    leaving.into_iter().map(|(_, gone)| gone).max()
                });
                Ok((Deleted::default(), gone.unwrap_or(now)))
            })
        })
        .await
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.serve(Method::Initialize, call, Some(request), || {
            let spec = spec_of(&request.class)?;
            let wanted = wanted(request)?;
            Ok(move || {
                // A write sees the present, whatever the lag of status.
                let vm = only(self.seen(&spec.cluster, &wanted, std::time::Duration::ZERO))?;
                self.change(|sky| {
                    if let Some(vm) = sky.ledger.get_mut(&vm.id) {
                        vm.initialized = Initialized::Yes;
                    }
                });
                Ok((found(&vm), Instant::now()))
            })
        })
        .await
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.serve(Method::Status, call, Some(request), || {
            let spec = spec_of(&request.class)?;
            let wanted = wanted(request)?;
            Ok(move || {
                let vm = only(self.seen(&spec.cluster, &wanted, self.status_lag()))?;
                match vm.initialized {
                    Initialized::Yes => Ok((found(&vm), Instant::now())),
                    Initialized::NotYet => {
                        let message = format!("VM {} has not been initialized", vm.id);
                        Err(DriverError::new(Code::Uninitialized, message).with_found(found(&vm)))
                    }
                }
            })
        })
        .await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        self.serve(Method::List, call, None, || {
            let spec = spec_of(&request.class)?;
            Ok(move || {
                let seen = self.seen(&spec.cluster, &Wanted::All, self.shared.config.list_lag);
                let owners = seen.into_iter().filter_map(|vm| Some((vm.provider_id, vm.machine?))).collect();
                Ok((owners, Instant::now()))
            })
        })
        .await
    }

    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        self.serve(Method::VolumeIds, call, None, || {
            let ours = volumes.iter().filter_map(|volume| volume.csi.as_ref()).filter(|csi| &*csi.driver == CSI_DRIVER);
            let ids: Vec<_> = ours.map(|csi| csi.volume_handle.to_string()).collect();
            Ok(move || Ok((ids, Instant::now())))
        })
        .await
    }
}

impl VirtualCloud {
    /// Runs a call from its record to its response. `prepare` decodes the request and returns the effect, which returns
    /// the time from which the response is due.
    async fn serve<T, Deed>(
        &self,
        method: Method,
        call: &Call,
        request: Option<&MachineRequest>,
        prepare: impl FnOnce() -> Result<Deed, DriverError>,
    ) -> Result<T, DriverError>
    where
        Deed: FnOnce() -> Result<(T, Instant), DriverError>,
    {
        let machine = request.map(MachineRequest::machine_name);
        let open = self.begin(method, machine);
        if self.capabilities().support(method) == Support::NotOffered {
            let message = format!("this cloud has no {}", method.operation());
            return open.answer(Err(DriverError::new(Code::Unimplemented, message)));
        }
        let deed = match prepare() {
            Ok(deed) => deed,
            Err(error) => return open.answer(Err(error)),
        };
        let fate = self.look(|sky| sky.scripts.fate(method, machine, &mut sky.dice));
        let work = async {
            if !fate.delay.is_zero() {
                tokio::time::sleep(fate.delay).await;
            }
            match fate.fault {
                Some(Fault::Fail(code)) => return Err(self.scripted(code)),
                Some(Fault::Hang) => return std::future::pending().await,
                _ => {}
            }
            let (answer, due) = deed()?;
            if matches!(fate.fault, Some(Fault::HangAfterEffect)) {
                return std::future::pending().await;
            }
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            match fate.fault {
                Some(Fault::LoseAnswer(code)) => Err(self.scripted(code)),
                _ => Ok(answer),
            }
        };
        let answer = match service(method) {
            Some(service) => call.measure(service, call.bound(work)).await,
            None => call.bound(work).await,
        };
        open.answer(answer)
    }

    fn scripted(&self, code: Code) -> DriverError {
        let quoted = &self.shared.config.quoted;
        let separator = if quoted.is_empty() { "" } else { ": " };
        DriverError::new(code, format!("the virtual cloud is configured to return {code}{separator}{quoted}"))
    }
}

/// Returns the service of the cloud in metrics.
fn service(method: Method) -> Option<&'static str> {
    match method {
        Method::Create => Some("vm_create"),
        Method::Initialize => Some("vm_initialize"),
        Method::Delete => Some("vm_delete"),
        Method::Status => Some("vm_get"),
        Method::List => Some("vm_list"),
        Method::VolumeIds => None, // derived from the volumes
    }
}

fn spec_of(class: &api::MachineClass) -> Result<Spec, DriverError> {
    driver::check_provider(PROVIDER, class)?;
    Spec::decode(&class.provider_spec).map_err(|error| DriverError::invalid(error.to_string()).because(error))
}

fn class_name(request: &MachineRequest) -> String {
    format!("{}/{}", request.class.namespace(), request.class.name())
}

/// By provider id if the machine has one, else by name: the id may be missing after a crash.
fn wanted(request: &MachineRequest) -> Result<Wanted<'_>, DriverError> {
    match request.provider_id() {
        Some(id) => Ok(Wanted::Id(id.as_str())),
        None => request.required_machine_name().map(Wanted::Machine),
    }
}

fn only(matching: Vec<Vm>) -> Result<Vm, DriverError> {
    let names = || matching.iter().map(|vm| vm.id.as_str()).collect::<Vec<_>>().join(", ");
    match matching.len() {
        0 => Err(DriverError::not_found("there is no VM for this machine")),
        1 => matching.into_iter().next().ok_or_else(|| DriverError::not_found("there is no VM for this machine")),
        _ => Err(DriverError::new(Code::OutOfRange, format!("several VMs match this machine: {}", names()))),
    }
}

fn refused(refusal: Refusal) -> DriverError {
    let full = |whose: &str, limit| {
        DriverError::new(Code::ResourceExhausted, format!("the {whose} is limited to {limit} VMs, which all exist"))
    };
    match refusal {
        Refusal::QuotaOfCloud(limit) => full("cloud", limit),
        Refusal::QuotaOfClass(limit) => full("quota of this class", limit),
        Refusal::StillDeleting(vm) => {
            DriverError::new(Code::Aborted, format!("VM {vm} of this machine is still being deleted"))
        }
        Refusal::MadeDifferently(vm) => DriverError::new(
            Code::AlreadyExists,
            format!("VM {vm} of this machine exists with another region, zone or instance type"),
        ),
    }
}

fn found(vm: &Vm) -> Found {
    Found { provider_id: vm.provider_id.clone(), node_name: vm.node_name.clone(), addresses: addresses(vm) }
}

fn created(vm: &Vm) -> Created {
    let Found { provider_id, node_name, addresses } = found(vm);
    Created { provider_id, node_name, last_known_state: None, addresses }
}

fn addresses(vm: &Vm) -> Vec<NodeAddress> {
    let address = |kind: &str, address: &str| NodeAddress { kind: kind.into(), address: address.into() };
    vec![address("InternalIP", &vm.address), address("Hostname", vm.node_name.as_str())]
}
