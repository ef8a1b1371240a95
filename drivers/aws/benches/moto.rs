//! Benchmark `cargo xtask bench aws`: requests to EC2 and duration for 500 machines with 50 concurrent calls.
//!
//! EC2 is moto on loopback, so request latency says nothing about AWS. The benchmark measures the number of requests
//! against budgets, and the time that a call takes beyond its requests.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and panics on unexpected errors"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use cloud_fakes::moto::{self, Moto};
use driver::{Call, Driver, MachineRequest, MeterBuffer};
use driver_aws::{AwsDriver, PROVIDER, Settings};
use driver_common::http::Client;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

const MACHINES: usize = 500;
const AT_ONCE: usize = 50;
/// Several regions, because moto scans every instance of a region for every request.
const REGIONS: [&str; 5] = ["eu-west-1", "eu-west-2", "eu-central-1", "us-east-1", "us-west-2"];

/// Maximum number of requests per call.
const BUDGETS: [(&str, usize); 4] = [("create", 4), ("create again", 1), ("list", 1), ("delete", 2)];

/// Cost of one call.
#[derive(Clone, Copy, Debug)]
struct Took {
    requests: usize,
    call: Duration,
    cloud: Duration,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(moto) = moto::for_test("bench aws").await.unwrap() else { return };
        println!("{MACHINES} machines, {AT_ONCE} concurrent calls; p99 of the call, of its requests and of the remaining time, in ms\n");
        println!("{:<14} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7}", "", "requests", "most", "budget", "p99", "of moto", "driver");
        let broken = measure(&moto).await;
        moto.stop().await.unwrap();
        assert!(broken.is_empty(), "more requests than the budget allows: {}", broken.join(", "));
    });
}

async fn measure(moto: &Moto) -> Vec<&'static str> {
    let profile = [("Action", "CreateInstanceProfile"), ("Version", "2010-05-08"), ("InstanceProfileName", "nodes")];
    assert_eq!(moto.call("iam", "us-east-1", &profile).await.unwrap().status, 200);
    let mut specs = Vec::new();
    for region in REGIONS {
        specs.push(spec(moto, region).await);
    }
    let mut settings = Settings::default();
    settings.endpoints.ec2 = Some(moto.endpoint());
    let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
    let driver = Arc::new(AwsDriver::new(Arc::new(Client::new().unwrap()), settings, clock, Arc::new(|| 0.0)));
    let requests: Arc<Vec<MachineRequest>> =
        Arc::new((0..MACHINES).zip(specs.iter().cycle()).map(|(at, spec)| request(at, spec)).collect());
    let mut broken = Vec::new();
    for (what, budget) in BUDGETS {
        let calls = if what == "list" { REGIONS.len() } else { MACHINES };
        let took = all(&driver, &requests, what, calls).await;
        if !report(what, budget, &took) {
            broken.push(what);
        }
    }
    broken
}

/// Makes all calls of a kind.
async fn all(
    driver: &Arc<AwsDriver>,
    requests: &Arc<Vec<MachineRequest>>,
    what: &'static str,
    calls: usize,
) -> Vec<Took> {
    let (next, mut workers) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..AT_ONCE {
        let (driver, requests, next) = (driver.clone(), requests.clone(), next.clone());
        workers.spawn(async move {
            let mut took = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= calls {
                    return took;
                }
                took.push(one(&driver, requests.get(at).unwrap(), what).await);
            }
        });
    }
    workers.join_all().await.concat()
}

async fn one(driver: &AwsDriver, request: &MachineRequest, what: &str) -> Took {
    let (kept, begun) = (Arc::new(MeterBuffer::default()), Instant::now());
    let call = Call::default().metered(kept.clone());
    match what {
        "list" => {
            let listed = driver.list(&call, &request.class_request()).await.unwrap();
            assert_eq!(listed.len(), MACHINES / REGIONS.len());
        }
        "delete" => drop(driver.delete(&call, request).await.unwrap()),
        _ => drop(driver.create(&call, request).await.unwrap()),
    }
    let (call, asked) = (begun.elapsed(), kept.take());
    Took { requests: asked.len(), call, cloud: asked.iter().map(|asked| asked.took).sum() }
}

/// Prints a line and returns whether the budget was kept.
fn report(what: &str, budget: usize, took: &[Took]) -> bool {
    let all: usize = took.iter().map(|took| took.requests).sum();
    let most = took.iter().map(|took| took.requests).max().unwrap_or_default();
    let p99 = |of: fn(&Took) -> Duration| {
        let mut times: Vec<Duration> = took.iter().map(of).collect();
        times.sort_unstable();
        times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    #[allow(clippy::cast_precision_loss, reason = "hundreds")]
    let mean = all as f64 / took.len() as f64;
    let (call, cloud, ours) =
        (p99(|took| took.call), p99(|took| took.cloud), p99(|took| took.call.saturating_sub(took.cloud)));
    println!("{what:<14} {mean:>9.2} {most:>7} {budget:>7} {call:>9.1} {cloud:>9.1} {ours:>7.1}");
    most <= budget
}

async fn spec(moto: &Moto, region: &str) -> Value {
    let subnets = moto.call("ec2", region, &[("Action", "DescribeSubnets"), ("Version", "2016-11-15")]).await.unwrap();
    let subnet = subnets.body.split("<subnetId>").nth(1).unwrap().split('<').next().unwrap();
    json!({
        "ami": "ami-03cf127a", "region": region, "machineType": "m5.large", "iam": { "name": "nodes" },
        "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3" } }],
        "networkInterfaces": [{ "subnetID": subnet, "securityGroupIDs": ["sg-1"] }],
        "tags": { "kubernetes.io/cluster/bench": "1", "kubernetes.io/role/node": "1" },
    })
}

fn request(at: usize, spec: &Value) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name = format!("bench-{at}");
    machine.metadata.namespace = "bench".into();
    machine.metadata.uid = format!("0b2bbe8b-47a1-4d9c-8d5e-{at:012}").into();
    let mut class = MachineClass { provider: PROVIDER.into(), provider_spec: spec.clone(), ..MachineClass::default() };
    class.metadata.name = "small".into();
    class.metadata.namespace = "bench".into();
    let secret: SecretData =
        [("accessKeyID", "AKIA1"), ("secretAccessKey", "k"), ("userData", "#!/bin/sh")].into_iter().collect();
    MachineRequest { machine: Arc::new(machine), class: Arc::new(class), secret: Arc::new(secret) }
}
