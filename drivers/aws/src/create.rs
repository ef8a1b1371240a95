//! Making an instance, once.
//!
//! A machine has one instance, whatever happens between the request and the record of its answer. Two things see to it. Before it asks,
//! a create looks for an instance of the machine's name. And the request carries a token that follows from the machine's uid:
//! if the instance is there but not visible yet, EC2 answers with it instead of making another.
//!
//! A token that belongs to an instance that is gone is used up, and the next one is tried. One that EC2 knows with other
//! parameters (the class or the user data has changed since) is not: what the earlier request made is looked for by the token, for
//! a while, and only if nothing comes to light the next token is tried.
//!
//! EC2 returns the id of an instance before DescribeInstances shows the instance. A create returns only after EC2 shows it, so that the
//! calls that follow find it.

use std::collections::BTreeMap;
use std::time::Duration;

use backoff::Exponential;
use driver::{Code, Created, DriverError, MachineRequest, RetryClass};
use driver_common::codes::{During, Meaning};
use driver_common::poll::{Poll, Waited};
use driver_common::pressure::Place;
use driver_common::provider_spec::Scope;
use parking_lot::Mutex;

use crate::answer::{self, Instance};
use crate::codes;
use crate::credentials::Session;
use crate::find::{self, created};
use crate::identity::client_token;
use crate::launch::{Launch, run_instances};
use crate::query;
use crate::spec::{Placement, Spec};

/// How long EC2 may take to show an instance and its name, as long as the reference waits.
const SHOWN: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(15)),
    patience: Duration::from_mins(5),
};

/// How long what an earlier request made may take to come to light.
const COMES_TO_LIGHT: Poll = Poll {
    pauses: Exponential::new(Duration::from_secs(1), Duration::from_secs(10)),
    patience: Duration::from_secs(30),
};

/// More instances than that do not die before a machine has one.
const MOST_TOKENS: u32 = 8;

/// How images name their root device. That never changes, so it is asked for once.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<(String, String), String>>);

const MOST_IMAGES: usize = 1000;

/// A create with all that it needs.
pub(crate) struct Creation<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) request: &'a MachineRequest,
    pub(crate) spec: &'a Spec,
    pub(crate) scope: &'a Scope,
    pub(crate) user_data: &'a [u8],
    pub(crate) placement: Option<&'a Placement>,
    pub(crate) images: &'a Images,
}

impl Creation<'_> {
    /// The machine's instance: the one that is there, or a new one.
    pub(crate) async fn run(&self) -> Result<Created, DriverError> {
        let (machine, region) = (self.request.machine_name(), &self.scope.region);
        let label = "instance_get_by_machine";
        let there = find::by_tags(self.session, self.scope, Some(machine), label, During::Create).await?;
        let instance = match find::only(there, machine)? {
            Some(instance) if !instance.private_dns.is_empty() => instance,
            Some(instance) => self.shown(instance).await?,
            None => self.shown(self.launch().await?).await?,
        };
        Ok(created(region, &instance))
    }

    async fn launch(&self) -> Result<Instance, DriverError> {
        let place = self.place();
        if let Some(held) = self.session.aws.turns.held(&place) {
            return Err(DriverError::new(Code::ResourceExhausted, held.reason));
        }
        let root_device = self.root_device().await?;
        let uid = self.request.machine.metadata.uid.as_str();
        for attempt in 0..MOST_TOKENS {
            let token = client_token(uid, &self.scope.marks.cluster, self.request.machine_name(), attempt);
            if let Some(instance) = self.launch_with(&token, &root_device).await? {
                self.session.aws.turns.made(&place);
                return Ok(instance);
            }
        }
        let message =
            format!("the last {MOST_TOKENS} instances of this machine were terminated before it could use them");
        Err(DriverError::new(Code::Internal, message))
    }

    /// Asks for an instance; `None` if the token is used up.
    async fn launch_with(&self, token: &str, root_device: &str) -> Result<Option<Instance>, DriverError> {
        let launch = Launch {
            spec: self.spec,
            machine: self.request.machine_name(),
            token,
            user_data: self.user_data,
            root_device,
            placement: self.placement,
        };
        match self.session.ask("instance_create", &run_instances(&launch)?, During::Create).await {
            Ok(answer) => match answer::launched(&answer).into_iter().next() {
                Some(instance) => Ok(Some(instance).filter(Instance::lives)),
                None => Err(DriverError::new(Code::Internal, "RunInstances answered without an instance")),
            },
            Err(failed) if failed.is("IdempotentInstanceTerminated") => Ok(None),
            Err(failed) if failed.is("IdempotentParameterMismatch") => self.made_before(token).await,
            Err(failed) => {
                let cloud = failed.cloud.as_deref().unwrap_or_default();
                if codes::meaning(cloud) == Meaning::NoCapacity {
                    self.session.aws.turns.refused(self.session.call, self.place(), failed.error.message());
                }
                Err(failed.error)
            }
        }
    }

    /// What an earlier request with this token made; `None` if that is gone, or nothing.
    async fn made_before(&self, token: &str) -> Result<Option<Instance>, DriverError> {
        let query = query::instances_by_client_token(token);
        let chance = || (self.session.aws.chance)();
        let waited = COMES_TO_LIGHT
            .until(self.session.call, chance, || async {
                let answer = self.session.ask("instance_get_by_machine", &query, During::Create).await?;
                let found = answer::described(&answer);
                let living = found.iter().find(|instance| instance.lives()).cloned();
                Ok(if found.is_empty() { None } else { Some(living) })
            })
            .await?;
        match waited {
            Waited::Done(living) => Ok(living),
            Waited::InVain => Ok(None),
        }
    }

    /// Waits until EC2 shows the instance, and with it the name under which its kubelet registers, unless `known` has the name already.
    /// A cloud that fails for a moment is asked again: the instance is there and paid for.
    async fn shown(&self, known: Instance) -> Result<Instance, DriverError> {
        let (chance, id) = (|| (self.session.aws.chance)(), known.id.as_str());
        let waited = SHOWN
            .until(self.session.call, chance, || async {
                match find::shown(self.session, id, "instance_get_by_id", During::Elsewhere).await {
                    Ok(Some(shown)) if !shown.private_dns.is_empty() => Ok(Some(shown)),
                    Ok(Some(_)) if !known.private_dns.is_empty() => Ok(Some(known.clone())),
                    Ok(Some(shown)) if !shown.lives() => {
                        let message = format!("instance {id} was terminated before it had a private DNS name");
                        Err(DriverError::new(Code::Internal, message))
                    }
                    Ok(_) => Ok(None),
                    Err(error)
                        if error.retry_class() == RetryClass::Transient && error.code() != Code::DeadlineExceeded =>
                    {
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            })
            .await?;
        match waited {
            Waited::Done(instance) => Ok(instance),
            Waited::InVain => {
                let patience = SHOWN.patience.as_secs() / 60;
                let message = format!(
                    "instance {id} was created, but EC2 did not show it with a private DNS name within {patience} minutes"
                );
                Err(DriverError::new(Code::Internal, message))
            }
        }
    }

    async fn root_device(&self) -> Result<String, DriverError> {
        let key = (self.scope.region.clone(), self.spec.ami.clone());
        if let Some(known) = self.images.0.lock().get(&key) {
            return Ok(known.clone());
        }
        let answer = self.session.ask("image_get_by_id", &query::images(&self.spec.ami), During::Create).await?;
        let Some(root_device) = answer::root_device(&answer) else {
            return Err(DriverError::not_found(format!("image {:?} does not exist in {}", key.1, key.0)));
        };
        let mut images = self.images.0.lock();
        if images.len() >= MOST_IMAGES {
            images.clear();
        }
        images.insert(key, root_device.to_owned());
        Ok(root_device.to_owned())
    }

    /// What a zone without capacity holds back: this class, in the zone of its first subnet.
    fn place(&self) -> Place {
        let metadata = &self.request.class.metadata;
        let subnet = self.spec.network_interfaces.first().map(|nic| nic.subnet_id.clone());
        Place { class: format!("{}/{}", metadata.namespace, metadata.name), zone: subnet.unwrap_or_default() }
    }
}
