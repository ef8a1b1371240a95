//! Secrets never appear in logs, errors or metrics.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud_fakes::log::{self, Log};
use cloud_fakes::openstack::{Settings, Stack};
use cloud_fakes::proxy::{Fault, Instead, Proxy, Rule};
use driver::{Call, Driver, MeterBuffer};

use crate::memory::{known, request, secret_with, spec_with_port_and_volume, with_secret};
use crate::target::driver;

const PASSWORD: &str = "canary-of-the-password";
const USER_DATA: &str = "#!/bin/sh canary-of-the-user-data";
/// The first token that the fake Keystone issues.
const TOKEN: &str = "gAAAA-token-000001";

/// Shows OST-11.
#[tokio::test]
async fn logs_errors_and_metrics_contain_no_openstack_secret() {
    let log = Log::of_this_process().unwrap();
    let stack = Stack::start(Settings { password: PASSWORD.into(), ..Settings::default() }).await.unwrap();
    let proxy = Proxy::start(stack.port()).await.unwrap();
    let auth_url = format!("{}/identity/v3", proxy.endpoint());
    let secret = secret_with(&[("authURL", &auth_url), ("password", PASSWORD), ("userData", USER_DATA)]);
    let request = with_secret(&request(spec_with_port_and_volume()), secret);
    let (driver, kept) = (driver(|client| Arc::new(client)), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    let made = driver.create(&call, &request).await.unwrap();
    let known = known(&request, made.provider_id.as_str());
    let mut told = vec![format!("{made:?} {request:?}")];
    told.push(format!("{:?}", driver.initialize(&call, &known).await));
    told.push(format!("{:?}", driver.status(&call, &known).await));
    told.push(format!("{:?}", driver.list(&call, &known.class_request()).await));
    told.push(format!("{:?}", driver.delete(&call, &known).await));
    // Errors in which OpenStack repeats its input.
    for status in [400, 403, 429, 500] {
        let echo = Instead::openstack(status, &format!("you said {PASSWORD} {TOKEN}"));
        proxy.rule(Rule::next(Fault::AnsweredBefore(echo), |asked| !asked.path.ends_with("/tokens")).times(3));
        let error = driver.create(&call, &request).await.unwrap_err();
        told.push(format!("{error} {error:?} {}", error.message()));
        proxy.clear();
    }
    told.push(format!("{:?} {:?}", kept.take(), kept.take_pressure()));
    let sent: String = proxy.asked().iter().map(|asked| asked.body.as_str()).collect();
    let encoded = STANDARD.encode(USER_DATA);
    assert!(sent.contains(PASSWORD) && sent.contains(&encoded), "the secrets were never sent, so the test is void");
    let logged = log.text();
    assert!(logged.contains("hyper_util::client"), "the HTTP client logged nothing, so the test is void: {logged}");
    let secrets = ["canary", TOKEN, encoded.get(4..24).unwrap()];
    for text in [logged, told.join("\n")] {
        assert_eq!(log::told(&text, &secrets), None);
    }
}
