//! Network errors over real sockets: errors advise what to check and never contain secrets.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud_fakes::ec2::{Befalls, Ec2, Refusal, Script, Settings as Cloud};
use cloud_fakes::log::{self, Log};
use driver::{Call, Code, Driver, DriverError, MachineRequest, MeterBuffer};
use driver_aws::{AwsDriver, Settings};
use driver_common::http::Client;
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::memory::{known, request, spec, spec_with, with_secret};

fn driver(endpoint: &str) -> AwsDriver {
    let settings = Settings::from_environment(|name| (name == "AWS_ENDPOINT_URL").then(|| endpoint.to_owned()));
    let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
    AwsDriver::new(Arc::new(Client::without_ca_certificates()), settings, clock, Arc::new(|| 0.0))
}

async fn refused(endpoint: &str) -> DriverError {
    let error = driver(endpoint).create(&Call::default(), &request(spec())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    error
}

/// Shows AWS-24.
#[tokio::test]
async fn refused_connection_is_unavailable_with_advice() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = refused(&format!("http://{free}")).await;
    assert!(error.message().contains(&free.to_string()), "{error}");
    assert!(error.message().contains("check the endpoint, name resolution and egress rules"), "{error}");
}

/// Shows AWS-24.
#[tokio::test]
async fn failed_tls_handshake_is_unavailable_with_advice() {
    let ec2 = Ec2::start(Cloud::default()).await.unwrap();
    let error = refused(&ec2.endpoint().replace("http://", "https://")).await;
    assert!(error.message().contains("check the endpoint and the CA certificates"), "{error}");
    assert_eq!(ec2.with(|cloud, _| cloud.calls().len()), 0);
}

const KEY: &str = "canary-of-the-secret-access-key";
const SESSION: &str = "canary-of-the-session-token";
const IDENTITY: &str = "header.canary-of-the-web-identity.signature";
const USER_DATA: &str = "#!/bin/sh canary-of-the-user-data";

/// Runs the life cycle of a machine and then errors in which EC2 repeats its input. Returns all texts.
async fn told_of(ec2: &Ec2, request: &MachineRequest, sent: &str) -> String {
    let (driver, kept) = (driver(&ec2.endpoint()), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    let made = driver.create(&call, request).await.unwrap();
    let known = known(request, made.provider_id.as_str());
    let mut told = vec![format!("{made:?} {request:?}")];
    told.push(format!("{:?}", driver.status(&call, &known).await));
    told.push(format!("{:?}", driver.initialize(&call, &known).await));
    told.push(format!("{:?}", driver.list(&call, &known.class_request()).await));
    told.push(format!("{:?}", driver.delete(&call, &known).await));
    let echo = format!("{sent}. The Canonical String for this request was x-amz-security-token:{SESSION}");
    for code in ["AuthFailure", "RequestLimitExceeded", "SomethingUnknown"] {
        let refusal = Refusal::new(code, &echo);
        ec2.with(|cloud, _| cloud.script(Script::everything(Befalls::Refused(refusal))));
        let error = driver.create(&call, request).await.unwrap_err();
        ec2.with(|cloud, _| cloud.clear_scripts());
        told.push(format!("{error} {error:?} {}", error.message()));
    }
    told.push(format!("{:?} {:?}", kept.take(), kept.take_pressure()));
    told.join("\n")
}

/// Shows AWS-11.
#[tokio::test]
async fn logs_errors_and_metrics_contain_no_secret() {
    let log = Log::of_this_process().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, IDENTITY).unwrap();
    let role = "arn:aws:iam::123456789012:role/millwright";
    let keys = [("accessKeyID", "AKIA1"), ("secretAccessKey", KEY), ("userData", USER_DATA)];
    let path = file.to_string_lossy().into_owned();
    let mut told = String::new();
    let keys_sent = format!("{KEY} {SESSION}");
    for (more, sent) in [
        (vec![("sessionToken", SESSION)], keys_sent.as_str()),
        (vec![("roleARN", role), ("externalID", "x")], "no"),
        (vec![("workloadIdentityTokenFile", path.as_str()), ("roleARN", role)], "no"),
    ] {
        let ec2 = Ec2::start(Cloud::default()).await.unwrap();
        let secret = keys.iter().copied().chain(more).collect();
        let spec = spec_with(&serde_json::json!({ "srcAndDstChecksEnabled": false }));
        told.push_str(&told_of(&ec2, &with_secret(&request(spec), secret), sent).await);
        assert!(ec2.with(|cloud, _| cloud.count("RunInstances")) >= 1);
    }
    let logged = log.text();
    assert!(logged.contains("signing"), "the signing crate logged nothing, so the test is void: {logged}");
    let encoded = STANDARD.encode(USER_DATA);
    let secrets = [KEY, SESSION, IDENTITY, "canary", "Signature=", encoded.get(4..24).unwrap()];
    for text in [logged, told] {
        assert_eq!(log::told(&text, &secrets), None);
    }
}
