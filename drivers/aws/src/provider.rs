//! Implements the driver calls.
//!
//! Each call validates its request without network access, resolves the credentials, and sends as few requests to EC2
//! as possible.

use std::sync::Arc;

use api::view::{PersistentVolumeSpec, SecretData};
use api::{MachineClass, TextMap};
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
    check_provider,
};
use driver_common::codes::During;
use driver_common::fault::Faults;
use driver_common::http::Transport;
use driver_common::keyed_mutex::KeyedMutex;
use driver_common::provider_spec::{ProviderSpec as _, Scope};
use driver_common::{Chance, Clock, owned};

use crate::answer::Instance;
use crate::create::{Creation, Images};
use crate::credentials::Session;
use crate::ec2::Aws;
use crate::find::{self, found};
use crate::identity::{instance_id, provider_id};
use crate::initialization::{self, Step};
use crate::launch::NAME_TAG;
use crate::query;
use crate::secret::{self, Source};
use crate::settings::Settings;
use crate::spec::{PROVIDER, Spec, placement_annotation};
use crate::volumes;

/// Annotation with the placement of a machine whose class has none.
const PLACEMENT: &str = "machine.sapcloud.io/awsPlacement";

/// The AWS driver.
pub struct AwsDriver {
    aws: Aws,
    images: Images,
    creating: KeyedMutex,
}

impl AwsDriver {
    /// Creates a driver that uses this transport.
    pub fn new(transport: Arc<dyn Transport>, settings: Settings, clock: Clock, chance: Chance) -> Self {
        Self {
            aws: Aws::new(transport, settings, clock, chance),
            images: Images::default(),
            creating: KeyedMutex::default(),
        }
    }

    /// Returns the inputs for finding a machine's instance.
    fn lookup(&self, class: &MachineClass, secret: &SecretData) -> Result<(Spec, Scope, Source), DriverError> {
        check_provider(PROVIDER, class)?;
        let mut faults = Faults::default();
        let source = secret::source(secret, self.aws.settings.ambient, &mut faults);
        let (spec, scope) = Spec::for_lookup(&class.provider_spec, faults)?;
        Ok((spec, scope, source))
    }

    /// Finds the machine's instance by name, then by provider id.
    async fn find(
        &self,
        session: &Session<'_>,
        scope: &Scope,
        request: &MachineRequest,
    ) -> Result<Option<Instance>, DriverError> {
        let machine = request.machine_name();
        if !machine.is_empty() {
            let label = "instance_get_by_machine";
            let named = find::by_tags(session, scope, Some(machine), label, During::Elsewhere).await?;
            if let Some(instance) = find::only(named, machine)? {
                return Ok(Some(instance));
            }
        }
        match request.provider_id() {
            Some(id) => find::by_id(session, instance_id(id.as_str())?, "instance_get_by_id", During::Elsewhere).await,
            None => Ok(None),
        }
    }

    /// Returns the ids of the instances to terminate. An instance that EC2 does not show is included, because it may be
    /// too new to be shown. An instance that EC2 shows as terminated is not terminated again.
    async fn to_delete(
        &self,
        session: &Session<'_>,
        scope: &Scope,
        request: &MachineRequest,
    ) -> Result<Vec<String>, DriverError> {
        let Some(id) = request.provider_id() else {
            let machine = request.required_machine_name()?;
            let label = "instance_get_by_tag_and_status";
            let named = find::by_tags(session, scope, Some(machine), label, During::Elsewhere).await?;
            return Ok(named.into_iter().map(|instance| instance.id).collect());
        };
        let id = instance_id(id.as_str())?;
        let Some(instance) = find::shown(session, id, "instance_get_by_id", During::Elsewhere).await? else {
            return Ok(vec![id.to_owned()]);
        };
        if !instance.is_alive() {
            return Ok(Vec::new());
        }
        // Never terminate an instance that carries only another cluster's tag: a provider id is only text.
        let of_a_cluster = |key: &&String| key.contains("kubernetes.io/cluster/");
        if let Some(other) = instance.tags.keys().find(of_a_cluster)
            && !instance.tags.contains_key(&scope.cluster_tags.cluster)
        {
            let message = format!(
                "instance {id} belongs to another cluster: it has the tag {other} but not {}",
                scope.cluster_tags.cluster
            );
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        Ok(vec![instance.id])
    }
}

#[async_trait]
impl Driver for AwsDriver {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        check_provider(PROVIDER, &request.class)?;
        let machine = request.required_machine_name()?;
        let mut faults = Faults::default();
        let source = secret::source(&request.secret, self.aws.settings.ambient, &mut faults);
        let user_data = secret::user_data(&request.secret, &mut faults);
        let (spec, scope) = Spec::for_create(&request.class.provider_spec, faults)?;
        let annotations = request.machine.spec.node_template.metadata.annotations.as_ref().map(TextMap::to_btree);
        let placement =
            placement_annotation(annotations.as_ref().and_then(|all| all.get(PLACEMENT)).map(String::as_str))?;
        let _guard = self.creating.lock(call, &format!("{}/{machine}", scope.cluster_tags.cluster)).await?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let creation = Creation {
            session,
            request,
            spec: &spec,
            scope: &scope,
            user_data,
            placement: placement.as_ref(),
            images: &self.images,
        };
        creation.run().await
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (spec, scope, source) = self.lookup(&request.class, &request.secret)?;
        if let Some(known) = known(request).filter(|_| !initialization::is_needed(&spec)) {
            return Ok(known);
        }
        let session = &self.aws.session(call, &scope.region, &source).await.map_err(DriverError::into_uninitialized)?;
        let Some(instance) = self.find(session, &scope, request).await? else {
            return Err(not_found(request).into_uninitialized());
        };
        let mut failed = None;
        for step in initialization::steps(&spec, &instance) {
            // Execute the remaining steps even if one fails.
            failed = carry_out(session, &step).await.err().or(failed);
        }
        match failed {
            None => Ok(found(&scope.region, &instance)),
            Some(error) => Err(error.into_uninitialized().with_found(found(&scope.region, &instance))),
        }
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (spec, scope, source) = self.lookup(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let instance = self.find(session, &scope, request).await?.ok_or_else(|| not_found(request))?;
        let found = found(&scope.region, &instance);
        match initialization::steps(&spec, &instance).first() {
            None => Ok(found),
            Some(step) => {
                Err(DriverError::new(Code::Uninitialized, pending_step(&instance.id, step)).with_found(found))
            }
        }
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let (_, scope, source) = self.lookup(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let to_delete = self.to_delete(session, &scope, request).await?;
        let ids: Vec<_> = to_delete.iter().map(String::as_str).collect();
        if ids.is_empty() {
            return Ok(Deleted::default());
        }
        match session.send("instance_terminate", &query::terminate(&ids), During::Elsewhere).await {
            Ok(_) => Ok(Deleted::default()),
            Err(failed) if failed.is("InvalidInstanceID.NotFound") && ids.len() == 1 => Ok(Deleted::default()),
            Err(failed) if failed.is("InvalidInstanceID.NotFound") => {
                // EC2 terminates all or none, so the other instances still exist.
                Err(DriverError::new(Code::Aborted, "one of several instances was gone when they were terminated"))
            }
            Err(failed) => Err(failed.error),
        }
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let (_, scope, source) = self.lookup(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let label = "instance_get_by_tag_and_status";
        let instances = find::by_tags(session, &scope, None, label, During::Elsewhere).await?;
        let vms = instances.iter().map(|vm| (provider_id(&scope.region, &vm.id), &vm.tags));
        let listed = owned::list(&scope.cluster_tags, NAME_TAG, vms);
        for vm in &listed.nameless {
            tracing::warn!(%vm, "ignoring instance with the tags of this cluster but without a name");
        }
        Ok(listed.owners)
    }

    async fn volume_ids(&self, _call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        Ok(volumes::ids(volumes))
    }
}

async fn carry_out(session: &Session<'_>, step: &Step) -> Result<(), DriverError> {
    let (label, query) = match step {
        Step::DisableCheck { interface } => {
            ("instance_disable_source_dest_check", query::disable_source_dest_check(interface))
        }
        Step::AssignPrefixes { interface, count } => {
            ("instance_assign_ipv6_prefixes", query::assign_ipv6_prefixes(interface, *count))
        }
    };
    session.send(label, &query, During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
}

/// Returns the result of an initialize call from the Machine object alone.
fn known(request: &MachineRequest) -> Option<Found> {
    let node = request.machine.metadata.labels.text("node").filter(|node| !node.is_empty())?;
    let provider_id = request.provider_id()?.clone();
    Some(Found { provider_id, node_name: node.into(), addresses: Vec::new() })
}

fn pending_step(id: &str, step: &Step) -> String {
    match step {
        Step::DisableCheck { interface } => {
            format!("instance {id} is not initialized: interface {interface} still checks source and destination")
        }
        Step::AssignPrefixes { interface, count } => {
            format!("instance {id} is not initialized: interface {interface} lacks {count} IPv6 prefixes")
        }
    }
}

fn not_found(request: &MachineRequest) -> DriverError {
    DriverError::not_found(format!("no AWS instance found for the machine {:?}", request.machine_name()))
}
