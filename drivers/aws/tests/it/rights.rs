//! The IAM policy in the documentation is sufficient and minimal: with it every call works on moto with IAM checks, and
//! without any one action a call fails.
//!
//! moto checks only the action of each request: no resources, no conditions and no implied actions. `ec2:CreateTags`
//! and `iam:PassRole` therefore follow from the parameters of RunInstances.

use std::collections::BTreeSet;

use api::view::SecretData;
use cloud_fakes::moto::{self, Moto};
use cloud_fakes::proxy::Proxy;
use driver::{Call, Driver, DriverError, MachineRequest};
use serde_json::{Value, json};

use crate::memory::{known, request, with_secret};
use crate::moto::{REGION, driver, spec};

const PAGE: &str = include_str!("../../../../docs/reference/drivers/aws.md");

/// No request uses these actions by name, so moto does not require them.
const IMPLIED: [&str; 2] = ["ec2:CreateTags", "iam:PassRole"];

/// The documented policy with an account id filled in.
fn policy() -> Value {
    let json = PAGE.split("```json").nth(1).unwrap().split("```").next().unwrap();
    let json = json.replace("<account>", "123456789012").replace("<role of the instance profile>", "nodes");
    serde_json::from_str(&json).unwrap()
}

fn actions_of(statement: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match &statement["Action"] {
        Value::Array(several) => several.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

fn actions(policy: &Value) -> BTreeSet<String> {
    policy["Statement"].as_array().unwrap().iter().flat_map(actions_of).collect()
}

fn without(policy: &Value, action: &str) -> Value {
    let mut less = policy.clone();
    for statement in less["Statement"].as_array_mut().unwrap() {
        statement["Action"] = actions_of(statement).into_iter().filter(|kept| kept != action).collect();
    }
    less
}

/// A user of this account, and the moto that manages the user while IAM checks are off.
struct User {
    moto: Moto,
    secret: SecretData,
}

impl User {
    async fn new(moto: Moto) -> Self {
        iam(&moto, "CreateUser", &[]).await;
        let keys = iam(&moto, "CreateAccessKey", &[]).await;
        let element = |name: &str| {
            let (_, rest) = keys.split_once(&format!("<{name}>")).unwrap();
            rest.split_once('<').unwrap().0.to_owned()
        };
        let secret = [
            ("accessKeyID", element("AccessKeyId")),
            ("secretAccessKey", element("SecretAccessKey")),
            ("userData", "#!/bin/sh".to_owned()),
        ];
        Self { moto, secret: secret.into_iter().collect() }
    }

    /// Replaces the permissions of the user.
    async fn may(&self, policy: &Value) {
        self.moto.check_authority_after(1_000_000).await.unwrap();
        let document = policy.to_string();
        iam(&self.moto, "PutUserPolicy", &[("PolicyName", "machines"), ("PolicyDocument", &document)]).await;
        self.moto.check_authority_after(0).await.unwrap();
    }
}

async fn iam(moto: &Moto, action: &str, more: &[(&str, &str)]) -> String {
    let pairs = [&[("Action", action), ("Version", "2010-05-08"), ("UserName", "millwright")], more].concat();
    let answer = moto.call("iam", REGION, &pairs).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// Runs every call of a new driver until the first failure.
async fn every_call(endpoint: String, request: &MachineRequest) -> Result<(), DriverError> {
    let (driver, call) = (driver(endpoint), Call::default());
    let made = driver.create(&call, request).await?;
    let known = known(request, made.provider_id.as_str());
    driver.initialize(&call, &known).await?;
    driver.list(&call, &known.class_request()).await?;
    driver.delete(&call, &known).await.map(drop)
}

/// Shows AWS-28.
#[tokio::test]
async fn documented_policy_is_sufficient_and_minimal() {
    let test = "documented_policy_is_sufficient_and_minimal";
    let Some(moto) = moto::for_test(test).await.unwrap() else { return };
    let mut spec = spec(&moto).await;
    spec["networkInterfaces"][0]["ipv6PrefixCount"] = json!(1);
    let (proxy, policy) = (Proxy::start(moto.port()).await.unwrap(), policy());
    let user = User::new(moto).await;
    let request = with_secret(&request(spec), user.secret.clone());

    user.may(&policy).await;
    every_call(proxy.endpoint(), &request).await.unwrap();
    let asked: BTreeSet<String> = proxy.asked().iter().map(|asked| format!("ec2:{}", asked.action())).collect();
    let implied: BTreeSet<String> = IMPLIED.map(str::to_owned).into();
    assert_eq!(actions(&policy), asked.union(&implied).cloned().collect(), "requested and implied actions");
    let launch = proxy.asked().into_iter().find(|asked| asked.action() == "RunInstances").unwrap().parameters();
    assert!(launch.get("TagSpecification.1.Tag.1.Key").is_some(), "hence ec2:CreateTags");
    assert!(launch.get("IamInstanceProfile.Name").is_some(), "hence iam:PassRole");

    for action in &asked {
        user.may(&without(&policy, action)).await;
        let error = every_call(proxy.endpoint(), &request).await.expect_err(action);
        // An error during initialization is reported as Uninitialized with its cause.
        assert!(error.message().contains("AccessDenied") && error.message().contains("check the policies"), "{error}");
        user.may(&policy).await;
        every_call(proxy.endpoint(), &request).await.unwrap();
    }
    user.moto.stop().await.unwrap();
}
