use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use rstest::rstest;
use secrecy::SecretString;

use super::*;
use crate::query;
use crate::settings::Settings;
use crate::testing::{FakeTransport, Reply};

const ROLE: &str = "arn:aws:iam::1:role/r";

/// A clock that the test advances, in seconds since the epoch.
fn clock() -> (Arc<AtomicI64>, driver_common::Clock) {
    let seconds = Arc::new(AtomicI64::new(1_800_000_000));
    let shown = seconds.clone();
    (seconds, Arc::new(move || Timestamp::from_second(shown.load(Ordering::SeqCst)).unwrap()))
}

/// Credentials that expire so many minutes after the start of the clock.
fn given(action: &str, id: &str, minutes: i64) -> Reply {
    let expires = Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap();
    Reply::Answer(
        200,
        format!(
            "<{action}Response><{action}Result><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>hunter2</SecretAccessKey>\
             <SessionToken>session-token</SessionToken><Expiration>{expires}</Expiration></Credentials></{action}Result></{action}Response>"
        ),
    )
}

fn nothing() -> Reply {
    Reply::Answer(200, "<DescribeInstancesResponse/>".into())
}

fn refused(code: &str) -> Reply {
    Reply::Answer(
        400,
        format!("<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"),
    )
}

async fn send(aws: &Aws, source: &Source) -> Result<(), DriverError> {
    let call = Call::default();
    let session = aws.session(&call, "eu-west-1", source).await?;
    session.send("x", &query::instances_by_id("i"), During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
}

fn signer(asked: &crate::testing::SentRequest) -> &str {
    let authorization = &asked.headers["authorization"];
    authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap()
}

fn keys(id: &str) -> Keys {
    Keys { id: id.into(), secret: SecretString::from("k"), session_token: None }
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn secret_keys_are_used_without_caching() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([nothing(), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    send(&aws, &Source::Keys(keys("old"))).await.unwrap();
    send(&aws, &Source::Keys(keys("rotated"))).await.unwrap();
    assert_eq!(cloud.asked().iter().map(signer).collect::<Vec<_>>(), ["old", "rotated"]);
}

/// Shows AWS-9.
#[tokio::test]
async fn web_identity_is_exchanged_once_and_token_file_is_reread() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let (seconds, clock) = clock();
    let action = "AssumeRoleWithWebIdentity";
    let cloud = FakeTransport::new([given(action, "A", 60), nothing(), nothing(), given(action, "B", 200), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::WebIdentity { token_file: file.to_str().unwrap().into(), role: ROLE.into() };
    send(&aws, &source).await.unwrap();
    send(&aws, &source).await.unwrap();
    std::fs::write(&file, "second").unwrap();
    seconds.fetch_add(56 * 60, Ordering::SeqCst);
    send(&aws, &source).await.unwrap();
    let asked = cloud.asked();
    assert_eq!((asked[0].form["WebIdentityToken"].as_str(), asked[0].form["RoleArn"].as_str()), ("first", ROLE));
    assert_eq!(asked[0].url, "POST https://sts.eu-west-1.amazonaws.com/");
    assert!(!asked[0].headers.contains_key("authorization"), "the token authenticates the request");
    assert_eq!((signer(&asked[1]), signer(&asked[2])), ("A", "A"));
    assert_eq!(asked[1].headers["x-amz-security-token"], "session-token");
    assert_eq!(asked[3].form["WebIdentityToken"], "second", "keys are renewed five minutes before they expire");
    assert_eq!(signer(&asked[4]), "B");
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn role_is_assumed_with_the_keys_of_the_secret() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: Some("x".into()) };
    send(&aws, &source).await.unwrap();
    let asked = cloud.asked();
    assert_eq!((signer(&asked[0]), asked[0].form["ExternalId"].as_str(), signer(&asked[1])), ("K", "x", "R"));
    assert!(asked[0].headers["authorization"].contains("/eu-west-1/sts/aws4_request"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_fetch_temporary_keys_once() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing(), nothing(), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    let (a, b, c) = tokio::join!(send(&aws, &source), send(&aws, &source), send(&aws, &source));
    a.and(b).and(c).unwrap();
    assert_eq!(cloud.asked().iter().filter(|asked| asked.form["Action"] == "AssumeRole").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_used_until_expiry_if_renewal_fails() {
    let (seconds, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing(), Reply::Broken, nothing(), Reply::Broken]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    send(&aws, &source).await.unwrap();
    seconds.fetch_add(57 * 60, Ordering::SeqCst);
    send(&aws, &source).await.unwrap();
    assert_eq!(signer(&cloud.asked()[3]), "R");
    seconds.fetch_add(4 * 60, Ordering::SeqCst);
    assert_eq!(send(&aws, &source).await.unwrap_err().code(), Code::Unavailable);
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn rejected_keys_are_dropped_from_the_cache() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([
        given("AssumeRole", "R", 60),
        refused("ExpiredToken"),
        given("AssumeRole", "S", 60),
        nothing(),
    ]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    assert_eq!(send(&aws, &source).await.unwrap_err().code(), Code::Unauthenticated);
    send(&aws, &source).await.unwrap();
    assert_eq!(signer(&cloud.asked()[3]), "S");
}

fn ambient(variables: &'static [(&str, &str)]) -> Settings {
    Settings::from_environment(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn instance_profile_is_fetched_with_an_imds_token() {
    let (_, clock) = clock();
    let told =
        r#"{"Code":"Success","AccessKeyId":"I","SecretAccessKey":"k","Token":"t","Expiration":"2030-01-01T00:00:00Z"}"#;
    let answers = ["metadata-token", "nodes\n", told].map(|text| Reply::Answer(200, text.into()));
    let cloud = FakeTransport::new(answers.into_iter().chain([nothing(), nothing()]));
    let aws = cloud.aws(ambient(&[]), clock);
    send(&aws, &Source::Ambient).await.unwrap();
    send(&aws, &Source::Ambient).await.unwrap();
    let asked = cloud.asked();
    let urls: Vec<_> = asked.iter().map(|asked| asked.url.as_str()).collect();
    assert_eq!(
        urls[..3],
        [
            "PUT http://169.254.169.254/latest/api/token",
            "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/",
            "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/nodes",
        ]
    );
    assert_eq!(asked[2].headers["x-aws-ec2-metadata-token"], "metadata-token");
    assert_eq!((signer(&asked[3]), signer(&asked[4])), ("I", "I"));
}

#[tokio::test(start_paused = true)]
async fn process_keys_take_precedence_over_the_instance_profile() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([nothing()]);
    let aws = cloud.aws(ambient(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "k")]), clock);
    send(&aws, &Source::Ambient).await.unwrap();
    assert_eq!(signer(&cloud.asked()[0]), "E");
}

#[tokio::test(start_paused = true)]
async fn missing_credentials_cause_no_request() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([]);
    let aws = cloud.aws(ambient(&[("AWS_EC2_METADATA_DISABLED", "true")]), clock);
    assert_eq!(send(&aws, &Source::Ambient).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(cloud.asked().is_empty());
}

/// Shows AWS-11.
#[rstest]
#[case("InvalidIdentityToken", Code::Unauthenticated)]
#[case("AccessDenied", Code::PermissionDenied)]
#[tokio::test]
async fn sts_error_does_not_contain_the_web_identity_token(#[case] refusal: &str, #[case] code: Code) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "web-identity-token").unwrap();
    let (_, clock) = clock();
    let aws = FakeTransport::new([refused(refusal)]).aws(Settings::default(), clock);
    let source = Source::WebIdentity { token_file: file.to_str().unwrap().into(), role: ROLE.into() };
    let error = send(&aws, &source).await.unwrap_err();
    assert_eq!(error.code(), code);
    assert!(!error.to_string().contains("web-identity-token"), "{error}");
}

#[tokio::test]
async fn missing_token_file_is_named_in_the_error() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([]);
    let aws = cloud.aws(Settings::default(), clock);
    let error =
        send(&aws, &Source::WebIdentity { token_file: "/no/such/token".into(), role: ROLE.into() }).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(error.message().contains("/no/such/token") && cloud.asked().is_empty(), "{error}");
}
