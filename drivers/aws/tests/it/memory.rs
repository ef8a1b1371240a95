//! EC2 in memory and a driver that reaches it without a network.

use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use async_trait::async_trait;
use bytes::Bytes;
use cloud_fakes::ec2::{Cloud, Request};
use driver::{Call, ClassRequest, Driver, DriverError, MachineRequest};
use driver_aws::{AwsDriver, PROVIDER, Settings};
use driver_common::http::{HttpError, Transport};
use http::{Request as HttpRequest, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const MACHINE: &str = "pool-a-7d9fc-x2x5q";

/// A cloud with delayed responses. The effect of a request is immediate.
#[derive(Clone)]
pub(crate) struct Memory {
    cloud: Arc<Mutex<Cloud>>,
    begun: Instant,
}

impl Memory {
    pub(crate) fn new(settings: cloud_fakes::ec2::Settings) -> Self {
        Self { cloud: Arc::new(Mutex::new(Cloud::new(settings))), begun: Instant::now() }
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Cloud, Duration) -> T) -> T {
        look(&mut self.cloud.lock(), self.begun.elapsed())
    }

    /// Returns a driver without cached state, as after a restart.
    pub(crate) fn driver(&self) -> AwsDriver {
        let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
        AwsDriver::new(Arc::new(self.clone()), Settings::default(), clock, Arc::new(|| 0.0))
    }

    pub(crate) fn alive(&self) -> usize {
        self.with(|cloud, _| cloud.alive(MACHINE).len())
    }

    /// Returns the actions requested since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.with(|cloud, _| {
            let asked = cloud.calls().iter().map(|call| call.request.action().to_owned()).collect();
            cloud.forget_calls();
            asked
        })
    }
}

#[async_trait]
impl Transport for Memory {
    async fn send(&self, call: &Call, request: HttpRequest<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let form = String::from_utf8_lossy(request.body());
        let asked = Request::read(&form, header("authorization"), header("x-amz-security-token"));
        let answer =
            call.check().map(|()| self.with(|cloud, now| cloud.answer(now, asked))).map_err(HttpError::Ended)?;
        let arriving = async {
            let Some(answer) = answer else { return std::future::pending().await };
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(Response::builder().status(answer.status).body(Bytes::from(answer.body)).unwrap())
        };
        call.bound(arriving).await.map_err(HttpError::Ended)
    }
}

pub(crate) fn spec() -> Value {
    json!({
        "ami": "ami-03cf127a",
        "region": "eu-west-1",
        "machineType": "m5.large",
        "iam": { "name": "nodes" },
        "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3" } }],
        "networkInterfaces": [{ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"] }],
        "tags": { "kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1" },
    })
}

/// Returns the spec with some fields replaced.
pub(crate) fn spec_with(changes: &Value) -> Value {
    let mut spec = spec();
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    spec
}

pub(crate) fn class(name: &str, provider_spec: Value) -> MachineClass {
    let mut class = MachineClass { provider: PROVIDER.into(), provider_spec, ..MachineClass::default() };
    class.metadata.name = name.into();
    class.metadata.namespace = "shoot".into();
    class
}

pub(crate) fn secret() -> SecretData {
    [("accessKeyID", "AKIA1"), ("secretAccessKey", "hunter2"), ("userData", "#!/bin/sh token")].into_iter().collect()
}

/// Returns a request for a machine with a uid, as the controller sends it.
pub(crate) fn request(spec: Value) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name = MACHINE.into();
    machine.metadata.namespace = "shoot".into();
    machine.metadata.uid = "0b2bbe8b-47a1-4d9c-8d5e-1e5e6e3c5a11".into();
    MachineRequest { machine: Arc::new(machine), class: Arc::new(class("small", spec)), secret: Arc::new(secret()) }
}

/// Returns the request with a provider id.
pub(crate) fn known(request: &MachineRequest, provider_id: &str) -> MachineRequest {
    let mut machine = (*request.machine).clone();
    machine.spec.provider_id = provider_id.into();
    MachineRequest { machine: Arc::new(machine), ..request.clone() }
}

pub(crate) fn with_secret(request: &MachineRequest, secret: SecretData) -> MachineRequest {
    MachineRequest { secret: Arc::new(secret), ..request.clone() }
}

pub(crate) fn with_spec(request: &MachineRequest, spec: Value) -> MachineRequest {
    MachineRequest { class: Arc::new(class("small", spec)), ..request.clone() }
}

pub(crate) async fn listed(driver: &AwsDriver) -> Vec<String> {
    let request = ClassRequest { class: Arc::new(class("small", spec())), secret: Arc::new(secret()) };
    let owners = driver.list(&Call::default(), &request).await.unwrap();
    owners.values().map(|name| name.as_str().to_owned()).collect()
}

/// Returns the error of each call for an invalid request.
pub(crate) async fn every_call(memory: &Memory, request: &MachineRequest) -> Vec<DriverError> {
    let (driver, call) = (memory.driver(), Call::default());
    let list = ClassRequest { class: request.class.clone(), secret: request.secret.clone() };
    [
        driver.create(&call, request).await.map(drop),
        driver.status(&call, request).await.map(drop),
        driver.initialize(&call, request).await.map(drop),
        driver.delete(&call, request).await.map(drop),
        driver.list(&call, &list).await.map(drop),
    ]
    .into_iter()
    .map(Result::unwrap_err)
    .collect()
}
