//! The six calls.
//!
//! Each goes the same way: what is wrong with the request is told without asking anybody, then keys are found, then EC2 is asked
//! as few times as the answer needs.

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
use driver_common::one_at_a_time::OneAtATime;
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

/// Where the annotation stands that places a machine whose class does not.
const PLACEMENT: &str = "machine.sapcloud.io/awsPlacement";

/// EC2, as Millwright sees it.
pub struct AwsDriver {
    aws: Aws,
    images: Images,
    creating: OneAtATime,
}

impl AwsDriver {
    /// A driver that reaches AWS by this transport.
    pub fn new(transport: Arc<dyn Transport>, settings: Settings, clock: Clock, chance: Chance) -> Self {
        Self {
            aws: Aws::new(transport, settings, clock, chance),
            images: Images::default(),
            creating: OneAtATime::default(),
        }
    }

    /// What is needed to find a machine's instance.
    fn looking(&self, class: &MachineClass, secret: &SecretData) -> Result<(Spec, Scope, Source), DriverError> {
        check_provider(PROVIDER, class)?;
        let mut faults = Faults::default();
        let source = secret::source(secret, self.aws.settings.ambient, &mut faults);
        let (spec, scope) = Spec::for_lookup(&class.provider_spec, faults)?;
        Ok((spec, scope, source))
    }

    /// The machine's instance, by name and then by provider id.
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

    /// The ids of what a delete has to terminate. An instance that EC2 does not show is terminated by its id all the same: it may be too
    /// young to be shown. One that EC2 shows as terminated is not terminated again.
    async fn doomed(
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
        if !instance.lives() {
            return Ok(Vec::new());
        }
        // A provider id is only a text. What carries another cluster's tag and not ours is not ours to terminate.
        let of_a_cluster = |key: &&String| key.contains("kubernetes.io/cluster/");
        if let Some(other) = instance.tags.keys().find(of_a_cluster)
            && !instance.tags.contains_key(&scope.marks.cluster)
        {
            let message = format!(
                "instance {id} belongs to another cluster: it has the tag {other}, and not {}",
                scope.marks.cluster
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
        let _turn = self.creating.turn(call, &format!("{}/{machine}", scope.marks.cluster)).await?;
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
        let (spec, scope, source) = self.looking(&request.class, &request.secret)?;
        if let Some(known) = known(request).filter(|_| !initialization::is_needed(&spec)) {
            return Ok(known);
        }
        let session = &self.aws.session(call, &scope.region, &source).await.map_err(DriverError::into_uninitialized)?;
        let Some(instance) = self.find(session, &scope, request).await? else {
            return Err(not_found(request).into_uninitialized());
        };
        let mut failed = None;
        for step in initialization::steps(&spec, &instance) {
            // One that fails does not keep the others from being done.
            failed = carry_out(session, &step).await.err().or(failed);
        }
        match failed {
            None => Ok(found(&scope.region, &instance)),
            Some(error) => Err(error.into_uninitialized().with_found(found(&scope.region, &instance))),
        }
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let (spec, scope, source) = self.looking(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let instance = self.find(session, &scope, request).await?.ok_or_else(|| not_found(request))?;
        let found = found(&scope.region, &instance);
        match initialization::steps(&spec, &instance).first() {
            None => Ok(found),
            Some(step) => Err(DriverError::new(Code::Uninitialized, left_to_do(&instance.id, step)).with_found(found)),
        }
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let (_, scope, source) = self.looking(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let doomed = self.doomed(session, &scope, request).await?;
        let ids: Vec<_> = doomed.iter().map(String::as_str).collect();
        if ids.is_empty() {
            return Ok(Deleted::default());
        }
        match session.ask("instance_terminate", &query::terminate(&ids), During::Elsewhere).await {
            Ok(_) => Ok(Deleted::default()),
            Err(failed) if failed.is("InvalidInstanceID.NotFound") && ids.len() == 1 => Ok(Deleted::default()),
            Err(failed) if failed.is("InvalidInstanceID.NotFound") => {
                // EC2 terminates all or none, so the others are still there.
                Err(DriverError::new(Code::Aborted, "one of several instances vanished while they were terminated"))
            }
            Err(failed) => Err(failed.error),
        }
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let (_, scope, source) = self.looking(&request.class, &request.secret)?;
        let session = &self.aws.session(call, &scope.region, &source).await?;
        let label = "instance_get_by_tag_and_status";
        let instances = find::by_tags(session, &scope, None, label, During::Elsewhere).await?;
        let vms = instances.iter().map(|vm| (provider_id(&scope.region, &vm.id), &vm.tags));
        let listed = owned::list(&scope.marks, NAME_TAG, vms);
        for vm in &listed.nameless {
            tracing::warn!(%vm, "an instance has the tags of this cluster and no name; it is left alone");
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
    session.ask(label, &query, During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
}

/// What the machine already says of its instance.
fn known(request: &MachineRequest) -> Option<Found> {
    let node = request.machine.metadata.labels.text("node").filter(|node| !node.is_empty())?;
    let provider_id = request.provider_id()?.clone();
    Some(Found { provider_id, node_name: node.into(), addresses: Vec::new() })
}

fn left_to_do(id: &str, step: &Step) -> String {
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
    DriverError::not_found(format!("AWS has no instance for the machine {:?}", request.machine_name()))
}
