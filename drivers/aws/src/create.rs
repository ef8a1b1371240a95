//! Creates the instance of a machine exactly once.
//!
//! A machine has one instance, even if the controller restarts before it records the response. A create first looks for
//! an instance with the machine's name. The RunInstances request carries a client token derived from the machine's uid:
//! if the instance exists but is not visible yet, EC2 returns it instead of launching another one.
//!
//! A token whose instance is gone is used up, and the next token is tried. If EC2 knows the token with other parameters
//! because the class or the user data changed, the driver looks for the instance of the earlier request by the token
//! for a while. If none appears, the next token is tried.
//!
//! EC2 returns the id of an instance before DescribeInstances shows the instance. A create returns only after EC2 shows
//! it, so that the following calls find it.

use std::collections::BTreeMap;
use std::time::Duration;

use backoff::Exponential;
use driver::{Code, Created, DriverError, MachineRequest, RetryClass};
use driver_common::codes::{During, Meaning};
use driver_common::poll::{Poll, Waited};
use driver_common::pressure::ClassInZone;
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

/// Wait until EC2 shows an instance and its private DNS name. The reference waits equally long.
const SHOWN: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(15)),
    timeout: Duration::from_mins(5),
};

/// Wait until the instance of an earlier request appears.
const EARLIER_LAUNCH: Poll = Poll {
    pauses: Exponential::new(Duration::from_secs(1), Duration::from_secs(10)),
    timeout: Duration::from_secs(30),
};

/// Maximum number of tokens that are tried for one machine.
const MAX_TOKENS: u32 = 8;

/// Root device names by region and image. They never change, so each is requested once.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<(String, String), String>>);

const MAX_IMAGES: usize = 1000;

/// The inputs of a create.
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
    /// Returns the machine's instance: the existing one or a new one.
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
        if let Some(held) = self.session.aws.rate_limiter.blocked(&place) {
            return Err(DriverError::new(Code::ResourceExhausted, held.reason));
        }
        let root_device = self.root_device().await?;
        let uid = self.request.machine.metadata.uid.as_str();
        for attempt in 0..MAX_TOKENS {
            let token = client_token(uid, &self.scope.cluster_tags.cluster, self.request.machine_name(), attempt);
            if let Some(instance) = self.launch_with(&token, &root_device).await? {
                self.session.aws.rate_limiter.unblock(&place);
                return Ok(instance);
            }
        }
        let message = format!("the last {MAX_TOKENS} instances of this machine were terminated before they were ready");
        Err(DriverError::new(Code::Internal, message))
    }

    /// Launches an instance. Returns `None` if the token is used up.
    async fn launch_with(&self, token: &str, root_device: &str) -> Result<Option<Instance>, DriverError> {
        let launch = Launch {
            spec: self.spec,
            machine: self.request.machine_name(),
            token,
            user_data: self.user_data,
            root_device,
            placement: self.placement,
        };
        match self.session.send("instance_create", &run_instances(&launch)?, During::Create).await {
            Ok(answer) => match answer::launched(&answer).into_iter().next() {
                Some(instance) => Ok(Some(instance).filter(Instance::is_alive)),
                None => Err(DriverError::new(Code::Internal, "RunInstances answered without an instance")),
            },
            Err(failed) if failed.is("IdempotentInstanceTerminated") => Ok(None),
            Err(failed) if failed.is("IdempotentParameterMismatch") => self.earlier_launch(token).await,
            Err(failed) => {
                let cloud = failed.cloud.as_deref().unwrap_or_default();
                if codes::meaning(cloud) == Meaning::NoCapacity {
                    self.session.aws.rate_limiter.block(self.session.call, self.place(), failed.error.message());
                }
                Err(failed.error)
            }
        }
    }

    /// Returns the instance that an earlier request with this token launched. Returns `None` if it is gone or never
    /// existed.
    async fn earlier_launch(&self, token: &str) -> Result<Option<Instance>, DriverError> {
        let query = query::instances_by_client_token(token);
        let chance = || (self.session.aws.chance)();
        let waited = EARLIER_LAUNCH
            .until(self.session.call, chance, || async {
                let answer = self.session.send("instance_get_by_machine", &query, During::Create).await?;
                let found = answer::described(&answer);
                let living = found.iter().find(|instance| instance.is_alive()).cloned();
                Ok(if found.is_empty() { None } else { Some(living) })
            })
            .await?;
        match waited {
            Waited::Done(living) => Ok(living),
            Waited::TimedOut => Ok(None),
        }
    }

    /// Waits until EC2 shows the instance and its private DNS name, under which the kubelet registers, unless `known`
    /// already has the name. Transient errors are retried, because the instance already exists and incurs cost.
    async fn shown(&self, known: Instance) -> Result<Instance, DriverError> {
        let (chance, id) = (|| (self.session.aws.chance)(), known.id.as_str());
        let waited = SHOWN
            .until(self.session.call, chance, || async {
                match find::shown(self.session, id, "instance_get_by_id", During::Elsewhere).await {
                    Ok(Some(shown)) if !shown.private_dns.is_empty() => Ok(Some(shown)),
                    Ok(Some(_)) if !known.private_dns.is_empty() => Ok(Some(known.clone())),
                    Ok(Some(shown)) if !shown.is_alive() => {
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
            Waited::TimedOut => {
                let timeout = SHOWN.timeout.as_secs() / 60;
                let message = format!(
                    "instance {id} was created, but EC2 did not show it with a private DNS name within {timeout} minutes"
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
        let answer = self.session.send("image_get_by_id", &query::images(&self.spec.ami), During::Create).await?;
        let Some(root_device) = answer::root_device(&answer) else {
            return Err(DriverError::not_found(format!("image {:?} does not exist in {}", key.1, key.0)));
        };
        let mut images = self.images.0.lock();
        if images.len() >= MAX_IMAGES {
            images.clear();
        }
        images.insert(key, root_device.to_owned());
        Ok(root_device.to_owned())
    }

    /// Returns what NoCapacity blocks: this class in the zone of its first subnet.
    fn place(&self) -> ClassInZone {
        let metadata = &self.request.class.metadata;
        let subnet = self.spec.network_interfaces.first().map(|nic| nic.subnet_id.clone());
        ClassInZone { class: format!("{}/{}", metadata.namespace, metadata.name), zone: subnet.unwrap_or_default() }
    }
}
