//! Tests of the driver on moto, over a real connection.

use std::sync::Arc;

use cloud_fakes::moto::{self, Moto};
use cloud_fakes::proxy::{Fault, Proxy, Rule};
use driver::{Call, Code, Driver};
use driver_aws::{AwsDriver, Settings};
use driver_common::http::Client;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::memory::{known, listed, request, spec_with, with_spec};

pub(crate) const REGION: &str = "eu-west-1";

pub(crate) fn driver(endpoint: String) -> AwsDriver {
    let mut settings = Settings::default();
    settings.endpoints.ec2 = Some(endpoint);
    let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
    AwsDriver::new(Arc::new(Client::new().unwrap()), settings, clock, Arc::new(|| 0.0))
}

/// Returns a spec with the subnet and the instance profile of this moto.
pub(crate) async fn spec(moto: &Moto) -> Value {
    let profile = [("Action", "CreateInstanceProfile"), ("Version", "2010-05-08"), ("InstanceProfileName", "nodes")];
    assert_eq!(moto.call("iam", REGION, &profile).await.unwrap().status, 200);
    let subnets = moto.call("ec2", REGION, &[("Action", "DescribeSubnets"), ("Version", "2016-11-15")]).await.unwrap();
    let subnet = subnets.body.split("<subnetId>").nth(1).unwrap().split('<').next().unwrap();
    let nic = json!({ "subnetID": subnet, "securityGroupIDs": ["sg-1"] });
    spec_with(&json!({ "networkInterfaces": [nic], "srcAndDstChecksEnabled": false }))
}

/// Shows AWS-14, AWS-C2.
#[tokio::test]
async fn machine_life_cycle_succeeds_on_moto() {
    let Some(moto) = moto::for_test("machine_life_cycle_succeeds_on_moto").await.unwrap() else { return };
    let (driver, call, fresh) = (driver(moto.endpoint()), Call::default(), request(spec(&moto).await));
    assert_eq!(driver.status(&call, &fresh).await.unwrap_err().code(), Code::NotFound);
    let made = driver.create(&call, &fresh).await.unwrap();
    assert!(made.node_name.as_str().ends_with(".compute.internal"), "{made:?}");
    assert_eq!(driver.create(&call, &fresh).await.unwrap().provider_id, made.provider_id);
    let known = known(&fresh, made.provider_id.as_str());
    assert_eq!(driver.status(&call, &known).await.unwrap_err().code(), Code::Uninitialized);
    driver.initialize(&call, &known).await.unwrap();
    assert_eq!(driver.status(&call, &known).await.unwrap().node_name, made.node_name);
    assert_eq!(listed(&driver).await, [crate::memory::MACHINE]);
    driver.delete(&call, &known).await.unwrap();
    driver.delete(&call, &known).await.unwrap();
    assert_eq!(driver.status(&call, &known).await.unwrap_err().code(), Code::NotFound);
    assert!(listed(&driver).await.is_empty());
    let mut odd = fresh.class.provider_spec.clone();
    odd["ami"] = json!("ami-00000000");
    assert_eq!(driver.create(&call, &with_spec(&fresh, odd)).await.unwrap_err().code(), Code::InvalidArgument);
    moto.stop().await.unwrap();
}

/// Shows AWS-14.
#[tokio::test]
async fn lost_response_from_moto_leaves_one_instance() {
    let test = "lost_response_from_moto_leaves_one_instance";
    let Some(moto) = moto::for_test(test).await.unwrap() else { return };
    let proxy = Proxy::start(moto.port()).await.unwrap();
    let (driver, call, request) = (driver(proxy.endpoint()), Call::default(), request(spec(&moto).await));
    proxy.rule(Rule::action("RunInstances", Fault::ResetAfter));
    let error = driver.create(&call, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("unknown"), "{error}");
    driver.create(&call, &request).await.unwrap();
    assert_eq!(proxy.count("RunInstances"), 1, "the second create found the instance of the first");
    assert_eq!(listed(&driver).await.len(), 1);
    moto.stop().await.unwrap();
}
