//! The driver contract on moto, in real time.
//!
//! All cases share one moto. Each case has its own cluster tag, so that it does not see the VMs of another case. Each
//! case also has its own proxy for quota errors and stalls, which moto does not simulate.

use std::sync::Arc;
use std::time::Duration;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use cloud_fakes::moto::{self, Moto};
use cloud_fakes::proxy::{Fault, Instead, Proxy, Rule};
use driver::Driver;
use driver::conformance::{Arranged, Bench, Case, CaseResult, Timing, try_case};
use driver_aws::AwsDriver;
use serde_json::{Value, json};

use crate::memory::{class, secret};
use crate::moto::{REGION, driver, spec};

/// The client token prevents a second VM after an interrupted create. moto does not implement client tokens; the EC2 in
/// memory does and runs this case.
const NEEDS_CLIENT_TOKENS: Case = Case::InterruptedCreateMakesOneVm;

const ROLE: &str = "kubernetes.io/role/node";

struct Environment<'a> {
    moto: &'a Moto,
    proxy: Proxy,
    driver: Arc<AwsDriver>,
    spec: Value,
    cluster: String,
}

impl<'a> Environment<'a> {
    async fn new(moto: &'a Moto, spec: &Value, at: usize) -> Self {
        let proxy = Proxy::start(moto.port()).await.unwrap();
        let cluster = format!("kubernetes.io/cluster/case-{at}");
        let mut spec = spec.clone();
        spec["tags"] = json!({ cluster.as_str(): "1", ROLE: "1" });
        Self { moto, driver: Arc::new(driver(proxy.endpoint())), proxy, spec, cluster }
    }

    async fn ec2(&self, action: &str, more: &[(&str, &str)]) -> String {
        let pairs = [&[("Action", action), ("Version", "2016-11-15")], more].concat();
        let answer = self.moto.call("ec2", REGION, &pairs).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    async fn plant(&self, tags: &[(&str, &str)]) {
        let mut pairs: Vec<(String, &str)> = vec![("ImageId".into(), "ami-03cf127a")];
        pairs.extend([("MinCount".into(), "1"), ("MaxCount".into(), "1")]);
        pairs.push(("TagSpecification.1.ResourceType".into(), "instance"));
        for (at, (key, value)) in tags.iter().enumerate() {
            pairs.push((format!("TagSpecification.1.Tag.{}.Key", at + 1), key));
            pairs.push((format!("TagSpecification.1.Tag.{}.Value", at + 1), value));
        }
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        self.ec2("RunInstances", &pairs).await;
    }
}

#[async_trait]
impl Bench for Environment<'_> {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn class(&self) -> MachineClass {
        class("small", self.spec.clone())
    }

    fn secret(&self) -> SecretData {
        secret()
    }

    fn timing(&self) -> Timing {
        Timing::real(Duration::ZERO)
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        let cluster = format!("tag:{}", self.cluster);
        let filters = [
            ("Filter.1.Name", "tag:Name"),
            ("Filter.1.Value.1", machine),
            ("Filter.2.Name", cluster.as_str()),
            ("Filter.2.Value.1", "1"),
            ("Filter.3.Name", "instance-state-name"),
            ("Filter.3.Value.1", "running"),
        ];
        Some(self.ec2("DescribeInstances", &filters).await.matches("<instanceId>").count())
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        let (cluster, role) = ((self.cluster.as_str(), "1"), (ROLE, "1"));
        self.plant(&[("kubernetes.io/cluster/theirs", "1"), role, ("Name", "their-machine")]).await;
        self.plant(&[cluster, ("Name", "of-another-role")]).await;
        self.plant(&[cluster, role]).await;
        self.plant(&[("Name", "of-no-cluster")]).await;
        Arranged::Done
    }

    async fn plant_double(&self, machine: &str) -> Arranged {
        self.plant(&[(&self.cluster, "1"), (ROLE, "1"), ("Name", machine)]).await;
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        let refused = Fault::AnsweredBefore(Instead::ec2(400, "VcpuLimitExceeded"));
        self.proxy.rule(Rule::action("RunInstances", refused).always());
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.proxy.rule(Rule::next(Fault::HangBefore, |_| true).always());
        Arranged::Done
    }
}

/// Shows AWS-14, AWS-C6.
#[tokio::test]
async fn aws_driver_passes_the_contract_on_moto() {
    let test = "aws_driver_passes_the_contract_on_moto";
    let Some(moto) = moto::for_test(test).await.unwrap() else { return };
    let spec = spec(&moto).await;
    for (at, case) in Case::ALL.into_iter().enumerate().filter(|(_, case)| *case != NEEDS_CLIENT_TOKENS) {
        let environment = Environment::new(&moto, &spec, at).await;
        assert_eq!(try_case(case, &environment).await, CaseResult::Passed, "{case:?}");
    }
    moto.stop().await.unwrap();
}
