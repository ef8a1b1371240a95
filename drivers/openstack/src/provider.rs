//! Implements the driver calls.
//!
//! Each call validates its request without network access, gets a token, and sends as few requests to OpenStack as
//! possible.

use std::collections::BTreeSet;

use api::view::{PersistentVolumeSpec, SecretData};
use api::{MachineClass, MachineName};
use async_trait::async_trait;
use driver::text::machine_name_problem;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
    check_provider,
};
use driver_common::codes::During;
use driver_common::fault::Faults;
use driver_common::keyed_mutex::KeyedMutex;
use driver_common::provider_spec::{ProviderSpec as _, Scope};
use driver_common::{Chance, Clock};

use crate::answer::{Port, Server, Stage, Volume};
use crate::create::Creation;
use crate::delete::Deletion;
use crate::find::{self, found};
use crate::identity::{Resource, provider_id, resource};
use crate::initialization::{self, Step};
use crate::ports::is_our_port;
use crate::request;
use crate::secret::{self, Credentials};
use crate::session::{OpenStack, Session, Transports};
use crate::spec::{PROVIDER, Spec};
use crate::volumes;

/// The OpenStack driver.
pub struct OpenStackDriver {
    cloud: OpenStack,
    creating: KeyedMutex,
}

impl OpenStackDriver {
    /// Creates a driver that uses these transports.
    pub fn new(transports: Transports, clock: Clock, chance: Chance) -> Self {
        Self { cloud: OpenStack::new(transports, clock, chance), creating: KeyedMutex::default() }
    }

    /// Finds the machine's server by name, then by provider id.
    async fn find(
        &self,
        session: &Session<'_>,
        scope: &Scope,
        request: &MachineRequest,
    ) -> Result<Option<Server>, DriverError> {
        let machine = request.machine_name();
        if !machine.is_empty() {
            let uid = request.machine.metadata.uid.as_str();
            let named = find::named(session, machine, uid, During::Elsewhere).await?;
            if let Some(selected) = find::select(named, &scope.cluster_tags, machine, uid)? {
                return Ok(Some(selected.server));
            }
        }
        let Some(id) = request.provider_id() else { return Ok(None) };
        let Resource::Server(id) = resource(id.as_str())? else { return Ok(None) };
        let by_id = find::by_id(session, id, During::Elsewhere).await?;
        Ok(by_id.filter(|server| server.stage() != Stage::Deleting))
    }
}

/// Returns the inputs for finding a machine's server.
fn lookup(class: &MachineClass, secret: &SecretData) -> Result<(Spec, Scope, Credentials), DriverError> {
    check_provider(PROVIDER, class)?;
    let mut faults = Faults::default();
    let credentials = secret::credentials(secret, &mut faults);
    let (spec, scope) = Spec::for_lookup(&class.provider_spec, faults)?;
    Ok((spec, scope, credentials))
}

#[async_trait]
impl Driver for OpenStackDriver {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        check_provider(PROVIDER, &request.class)?;
        let machine = request.required_machine_name()?;
        let mut faults = Faults::default();
        let credentials = secret::credentials(&request.secret, &mut faults);
        let user_data = driver_common::secret::user_data(&request.secret, secret::MAX_USER_DATA, "Nova", &mut faults);
        let (spec, scope) = Spec::for_create(&request.class.provider_spec, faults)?;
        let _guard = self.creating.lock(call, &format!("{}/{machine}", scope.cluster_tags.cluster)).await?;
        let session = &self.cloud.session(call, &scope.region, &credentials).await?;
        Creation { session, request, spec: &spec, scope: &scope, user_data }.run().await
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (spec, scope, credentials) = lookup(&request.class, &request.secret)?;
        let session =
            &self.cloud.session(call, &scope.region, &credentials).await.map_err(DriverError::into_uninitialized)?;
        let known = match request.provider_id() {
            Some(id) => Some(resource(id.as_str())?),
            None => None,
        };
        let found = match known {
            Some(Resource::Server(id)) => Found {
                provider_id: provider_id(&scope.region, Resource::Server(id)),
                node_name: request.required_machine_name()?.into(),
                addresses: Vec::new(),
            },
            _ => match self.find(session, &scope, request).await? {
                Some(server) => found(&scope.region, &server),
                None => return Err(not_found(request).into_uninitialized()),
            },
        };
        let Resource::Server(id) = resource(found.provider_id.as_str())? else {
            return Err(not_found(request).into_uninitialized());
        };
        let Some(steps) = initialization::left(session, &spec, id).await.map_err(DriverError::into_uninitialized)?
        else {
            return Err(DriverError::new(Code::Uninitialized, format!("server {id} has no ports")).with_found(found));
        };
        let mut failed = None;
        for step in &steps {
            // Execute the remaining steps even if one fails.
            failed = initialization::carry_out(session, step).await.err().or(failed);
        }
        match failed {
            None => Ok(found),
            Some(error) => Err(error.into_uninitialized().with_found(found)),
        }
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (spec, scope, credentials) = lookup(&request.class, &request.secret)?;
        let session = &self.cloud.session(call, &scope.region, &credentials).await?;
        let server = self.find(session, &scope, request).await?.ok_or_else(|| not_found(request))?;
        if server.stage() != Stage::Built && request.provider_id().is_none() {
            // An interrupted create continues: it waits for this server, or deletes it if the build failed.
            return Err(DriverError::not_found(format!("server {} is not built yet", server.id)));
        }
        let found = found(&scope.region, &server);
        let steps = initialization::left(session, &spec, &server.id).await?.unwrap_or_default();
        match steps.first() {
            None => Ok(found),
            Some(step) => Err(DriverError::new(Code::Uninitialized, pending_step(&server.id, step)).with_found(found)),
        }
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let (spec, scope, credentials) = lookup(&request.class, &request.secret)?;
        let (machine, uid) = (request.required_machine_name()?, request.machine.metadata.uid.as_str());
        let named = match request.provider_id() {
            Some(id) => Some(resource(id.as_str())?),
            None => None,
        };
        let session = &self.cloud.session(call, &scope.region, &credentials).await?;
        Deletion { session, spec: &spec, scope: &scope, machine, uid, named }.run().await?;
        Ok(Deleted::default())
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let (spec, scope, credentials) = lookup(&request.class, &request.secret)?;
        let session = &self.cloud.session(call, &scope.region, &credentials).await?;
        // List ports and volumes before servers: the server of a new port is then in the list, and the port is not an
        // orphan.
        let leftovers = leftovers(session, &spec, &scope).await?;
        let servers = session.list(&request::servers(), "servers", During::Elsewhere).await?;
        let mut servers: Vec<Server> = servers.iter().filter_map(Server::read).collect();
        let names: BTreeSet<String> = servers.iter().map(|server| server.name.clone()).collect();
        servers.retain(|server| scope.cluster_tags.matches(&server.metadata) && server.stage() != Stage::Deleting);
        let servers = servers
            .iter()
            .map(|server| (provider_id(&scope.region, Resource::Server(&server.id)), server.name.clone()));
        let leftovers = leftovers.into_iter().filter(|(_, machine)| !names.contains(machine));
        let mut owners = Owners::new();
        for (id, machine) in servers.chain(leftovers) {
            if machine_name_problem(&machine).is_none() {
                owners.insert(id, MachineName::from(machine));
            } else {
                tracing::warn!(%id, "ignoring resource with the cluster tags but without a valid machine name");
            }
        }
        Ok(owners)
    }

    async fn volume_ids(&self, _call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        Ok(volumes::ids(volumes))
    }
}

/// Returns the unused ports and volumes of the cluster with their machine names. A delete of an existing Machine finds
/// them by name; this list is for those whose Machine is gone.
async fn leftovers(
    session: &Session<'_>,
    spec: &Spec,
    scope: &Scope,
) -> Result<Vec<(api::ProviderId, String)>, DriverError> {
    let mut all = Vec::new();
    if spec.has_own_port() {
        let found = session.list(&request::ports_unused(&spec.network_id), "ports", During::Elsewhere).await?;
        let ports = found.iter().filter_map(Port::read);
        for port in ports.filter(|port| port.device.is_empty() && is_our_port(port, &scope.cluster_tags)) {
            all.push((provider_id(&scope.region, Resource::Port(&port.id)), port.name));
        }
    }
    if spec.has_own_volume() {
        let key = &scope.cluster_tags.cluster;
        let value = spec.tags.get(key).map(String::as_str).unwrap_or_default();
        let found = session.list(&request::volumes_with(key, value), "volumes", During::Elsewhere).await?;
        let volumes = found.iter().filter_map(Volume::read);
        let unused = |volume: &Volume| {
            volume.servers.is_empty() && !matches!(volume.status.as_str(), "deleting" | "attaching" | "reserved")
        };
        for volume in volumes.filter(|volume| unused(volume) && scope.cluster_tags.matches(&volume.metadata)) {
            all.push((provider_id(&scope.region, Resource::Volume(&volume.id)), volume.name));
        }
    }
    Ok(all)
}

fn pending_step(id: &str, step: &Step) -> String {
    let (port, missing) = (&step.port, step.missing.join(", "));
    format!("server {id} is not initialized: port {port} does not allow the addresses [{missing}] yet")
}

fn not_found(request: &MachineRequest) -> DriverError {
    DriverError::not_found(format!("no OpenStack server found for the machine {:?}", request.machine_name()))
}
