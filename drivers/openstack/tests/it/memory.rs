//! OpenStack in memory and a driver that reaches it without a network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use async_trait::async_trait;
use bytes::Bytes;
use cloud_fakes::openstack::{Cloud, Request, Settings};
use cloud_fakes::proxy::{Asked, Fault, Instead, Rule};
use driver::{Call, ClassRequest, Created, Driver, DriverError, MachineRequest};
use driver_common::http::{HttpError, Transport};
use driver_openstack::{OpenStackDriver, PROVIDER};
use http::{Request as HttpRequest, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const MACHINE: &str = "pool-a-7d9fc-x2x5q";
pub(crate) const UID: &str = "0b2bbe8b-47a1-4d9c-8d5e-1e5e6e3c5a11";
pub(crate) const CLUSTER: (&str, &str) = ("kubernetes.io-cluster-shoot", "1");
pub(crate) const ROLE: (&str, &str) = ("kubernetes.io-role-node", "1");

/// A cloud with delayed responses. The effect of a request is immediate.
#[derive(Clone)]
pub(crate) struct Memory {
    cloud: Arc<Mutex<Cloud>>,
    rules: Arc<Mutex<Vec<Rule>>>,
    asked: Arc<Mutex<Vec<String>>>,
    begun: Instant,
}

/// Number of resources by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) servers: usize,
    pub(crate) ports: usize,
    pub(crate) volumes: usize,
}

pub(crate) const NOTHING: Count = Count { servers: 0, ports: 0, volumes: 0 };
pub(crate) const ONE_EACH: Count = Count { servers: 1, ports: 1, volumes: 1 };

impl Memory {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            cloud: Arc::new(Mutex::new(Cloud::new(settings))),
            rules: Arc::default(),
            asked: Arc::default(),
            begun: Instant::now(),
        }
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Cloud, Duration) -> T) -> T {
        look(&mut self.cloud.lock(), self.begun.elapsed())
    }

    /// Returns a driver without cached state, as after a restart.
    pub(crate) fn driver(&self) -> OpenStackDriver {
        let transport: Arc<dyn Transport> = Arc::new(self.clone());
        let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
        OpenStackDriver::new(Arc::new(move |_| Ok(transport.clone())), clock, Arc::new(|| 0.0))
    }

    pub(crate) fn rule(&self, rule: Rule) {
        self.rules.lock().push(rule);
    }

    pub(crate) fn clear_rules(&self) {
        self.rules.lock().clear();
    }

    pub(crate) fn count(&self) -> Count {
        self.with(|cloud, now| {
            cloud.advance(now);
            Count { servers: cloud.servers.len(), ports: cloud.ports.len(), volumes: cloud.volumes.len() }
        })
    }

    /// Returns the requests since the last call: method, service and path without ids.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// Returns a rule for the next request with this method and path suffix, without its query.
pub(crate) fn on(method: &'static str, path: &'static str, fault: Fault) -> Rule {
    Rule::next(fault, move |asked| {
        asked.method == method && asked.path.split('?').next().is_some_and(|asked| asked.ends_with(path))
    })
}

/// Returns the path with `*` for each id.
fn shape(path: &str) -> String {
    let is_id = |part: &&str| part.split_once('-').is_some_and(|(_, rest)| rest.chars().all(|c| c.is_ascii_digit()));
    let parts: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').collect();
    parts.iter().map(|part| if is_id(part) { "*" } else { part }).collect::<Vec<_>>().join("/")
}

#[async_trait]
impl Transport for Memory {
    async fn send(&self, call: &Call, request: HttpRequest<Bytes>) -> Result<Response<Bytes>, HttpError> {
        call.check().map_err(HttpError::Ended)?;
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let (method, uri) = (request.method().as_str(), request.uri());
        let path = uri.path_and_query().unwrap().to_string();
        let host = uri.authority().unwrap().to_string();
        let asked = Request::read(method, &path, header("x-auth-token"), &host, request.body());
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let number = self.asked.lock().len();
        let seen = Asked { method: method.to_owned(), path: path.clone(), body, number };
        self.asked.lock().push(format!("{method} {}", shape(&path)));
        let fault = self.rules.lock().iter_mut().find_map(|rule| rule.strikes(&seen));
        let answered = async {
            let broken = || HttpError::Broken { host: host.clone(), reason: "by rule".into() };
            let does = || self.with(|cloud, now| cloud.answer(now, &asked));
            let answer = match fault {
                Some(Fault::ResetBefore) => return Ok(Err(broken())),
                Some(Fault::ResetAfter) => {
                    does();
                    return Ok(Err(broken()));
                }
                Some(Fault::HangBefore) => return std::future::pending().await,
                Some(Fault::HangAfter) => {
                    does();
                    return std::future::pending().await;
                }
                Some(Fault::AnsweredBefore(instead)) => return Ok(Ok(response(instead))),
                Some(Fault::AnsweredAfter(instead)) => {
                    does();
                    return Ok(Ok(response(instead)));
                }
                Some(Fault::Delay(delay)) => {
                    tokio::time::sleep(delay).await;
                    does()
                }
                Some(Fault::CutShort) | None => does(),
            };
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut builder = Response::builder().status(answer.status);
            if let Some(token) = &answer.subject {
                builder = builder.header("x-subject-token", token);
            }
            Ok(Ok(builder.body(Bytes::from(answer.text())).unwrap()))
        };
        call.bound(answered).await.map_err(HttpError::Ended)?
    }
}

fn response(instead: Instead) -> Response<Bytes> {
    let mut builder = Response::builder().status(instead.status);
    if let Some(seconds) = instead.retry_after {
        builder = builder.header("retry-after", seconds);
    }
    builder.body(Bytes::from(instead.body)).unwrap()
}

/// Returns the fields of a class with a port and a disk created by Nova.
pub(crate) fn fields() -> Value {
    json!({
        "imageName": Settings::IMAGE,
        "region": Settings::REGION,
        "availabilityZone": Settings::ZONE,
        "flavorName": Settings::FLAVOR,
        "keyName": Settings::KEY,
        "securityGroups": [Settings::SECURITY_GROUP.0],
        "networkID": Settings::NETWORK.1,
        "podNetworkCIDRs": ["100.96.0.0/11", "fd00::/64"],
        "tags": { CLUSTER.0: CLUSTER.1, ROLE.0: ROLE.1 },
    })
}

pub(crate) fn wrapped(fields: &Value) -> Value {
    json!({ "apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig", "spec": fields })
}

/// Returns the spec with some fields replaced.
pub(crate) fn spec_with(changes: &Value) -> Value {
    let mut fields = fields();
    fields.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    wrapped(&fields)
}

pub(crate) fn spec() -> Value {
    spec_with(&json!({}))
}

/// Returns a class whose port and root disk are created by the driver.
pub(crate) fn spec_with_port_and_volume() -> Value {
    spec_with(&json!({ "subnetIDs": [Settings::SUBNET], "rootDiskSize": 50, "rootDiskType": Settings::VOLUME_TYPE }))
}

pub(crate) fn class(name: &str, provider_spec: Value) -> MachineClass {
    let mut class = MachineClass { provider: PROVIDER.into(), provider_spec, ..MachineClass::default() };
    class.metadata.name = name.into();
    class.metadata.namespace = "shoot".into();
    class
}

pub(crate) fn secret() -> SecretData {
    secret_with(&[])
}

pub(crate) fn secret_with(changes: &[(&'static str, &str)]) -> SecretData {
    let mut data: BTreeMap<&'static str, String> = [
        ("authURL", "http://openstack.test/identity/v3"),
        ("username", Settings::USER),
        ("password", "mcm-secret"),
        ("domainName", Settings::DOMAIN),
        ("tenantName", Settings::PROJECT),
        ("userData", "#!/bin/sh token"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .into();
    data.extend(changes.iter().map(|(key, value)| (*key, (*value).to_owned())));
    data.into_iter().collect()
}

/// Returns a request for a machine with a uid, as the controller sends it.
pub(crate) fn request(spec: Value) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name = MACHINE.into();
    machine.metadata.namespace = "shoot".into();
    machine.metadata.uid = UID.into();
    MachineRequest { machine: Arc::new(machine), class: Arc::new(class("small", spec)), secret: Arc::new(secret()) }
}

/// Returns the request with a provider id.
pub(crate) fn known(request: &MachineRequest, provider_id: &str) -> MachineRequest {
    let mut machine = (*request.machine).clone();
    machine.spec.provider_id = provider_id.into();
    MachineRequest { machine: Arc::new(machine), ..request.clone() }
}

/// Returns the request of the orphan deletion: name, namespace and provider id.
pub(crate) fn stub(request: &MachineRequest, provider_id: &str) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name.clone_from(&request.machine.metadata.name);
    machine.metadata.namespace.clone_from(&request.machine.metadata.namespace);
    machine.spec.provider_id = provider_id.into();
    MachineRequest { machine: Arc::new(machine), ..request.clone() }
}

pub(crate) fn with_secret(request: &MachineRequest, secret: SecretData) -> MachineRequest {
    MachineRequest { secret: Arc::new(secret), ..request.clone() }
}

/// Creates and initializes a machine, as the controller does.
pub(crate) async fn create_and_initialize(
    driver: &OpenStackDriver,
    request: &MachineRequest,
) -> Result<Created, DriverError> {
    let made = driver.create(&Call::default(), request).await?;
    driver.initialize(&Call::default(), &known(request, made.provider_id.as_str())).await?;
    Ok(made)
}

/// Returns provider ids and machines as listed by a new driver.
pub(crate) async fn listed(memory: &Memory, request: &MachineRequest) -> Vec<(String, String)> {
    let request = ClassRequest { class: request.class.clone(), secret: request.secret.clone() };
    let owners = memory.driver().list(&Call::default(), &request).await.unwrap();
    owners.iter().map(|(id, name)| (id.as_str().to_owned(), name.as_str().to_owned())).collect()
}
