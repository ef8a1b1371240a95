//! What is secret is told to nobody.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud_fakes::log::{self, Log};
use cloud_fakes::openstack::{Settings, Stack};
use cloud_fakes::proxy::{Fault, Instead, Proxy, Rule};
use driver::{Call, Driver, MeterBuffer};

use crate::memory::{known, own_spec, request, secret_with, with_secret};
use crate::target::driver;

const PASSWORD: &str = "canary-of-the-password";
const USER_DATA: &str = "#!/bin/sh canary-of-the-user-data";
/// The first token that Keystone gives out.
const TOKEN: &str = "gAAAA-token-000001";

/// Shows OST-11.
#[tokio::test]
async fn no_password_token_or_user_data_is_in_any_log_line_error_or_metric() {
    let log = Log::of_this_process().unwrap();
    let stack = Stack::start(Settings { password: PASSWORD.into(), ..Settings::default() }).await.unwrap();
    let proxy = Proxy::start(stack.port()).await.unwrap();
    let auth_url = format!("{}/identity/v3", proxy.endpoint());
    let secret = secret_with(&[("authURL", &auth_url), ("password", PASSWORD), ("userData", USER_DATA)]);
    let request = with_secret(&request(own_spec()), secret);
    let (driver, kept) = (driver(|client| Arc::new(client)), Arc::new(MeterBuffer::default()));
    let call = Call::default().metered(kept.clone());
    let made = driver.create(&call, &request).await.unwrap();
    let known = known(&request, made.provider_id.as_str());
    let mut told = vec![format!("{made:?} {request:?}")];
    told.push(format!("{:?}", driver.initialize(&call, &known).await));
    told.push(format!("{:?}", driver.status(&call, &known).await));
    told.push(format!("{:?}", driver.list(&call, &known.class_request()).await));
    told.push(format!("{:?}", driver.delete(&call, &known).await));
    // A bad day on which OpenStack repeats what it was sent.
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
    assert!(
        sent.contains(PASSWORD) && sent.contains(&encoded),
        "what is looked for was never sent, so this shows nothing"
    );
    let logged = log.text();
    assert!(logged.contains("hyper_util::client"), "the HTTP client was not heard, so this shows nothing: {logged}");
    let secrets = ["canary", TOKEN, encoded.get(4..24).unwrap()];
    for text in [logged, told.join("\n")] {
        assert_eq!(log::told(&text, &secrets), None);
    }
}
