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

/// A clock that the test turns, in seconds since the epoch.
fn clock() -> (Arc<AtomicI64>, driver_common::Clock) {
    let seconds = Arc::new(AtomicI64::new(1_800_000_000));
    let shown = seconds.clone();
    (seconds, Arc::new(move || Timestamp::from_second(shown.load(Ordering::SeqCst)).unwrap()))
}

/// Credentials that are good for an hour from the beginning of the clock, plus so many minutes.
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

async fn ask(aws: &Aws, source: &Source) -> Result<(), DriverError> {
    let call = Call::default();
    let session = aws.session(&call, "eu-west-1", source).await?;
    session.ask("x", &query::instances_by_id("i"), During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
}

fn signer(asked: &crate::testing::Asked) -> &str {
    let authorization = &asked.headers["authorization"];
    authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap()
}

fn keys(id: &str) -> Keys {
    Keys { id: id.into(), secret: SecretString::from("k"), session_token: None }
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn keys_of_a_secret_are_used_as_they_are() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([nothing(), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    ask(&aws, &Source::Keys(keys("old"))).await.unwrap();
    ask(&aws, &Source::Keys(keys("rotated"))).await.unwrap();
    assert_eq!(cloud.asked().iter().map(signer).collect::<Vec<_>>(), ["old", "rotated"]);
}

/// Shows AWS-9.
#[tokio::test]
async fn a_web_identity_is_exchanged_once_and_its_file_is_read_again_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let (seconds, clock) = clock();
    let action = "AssumeRoleWithWebIdentity";
    let cloud = FakeTransport::new([given(action, "A", 60), nothing(), nothing(), given(action, "B", 200), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::WebIdentity { token_file: file.to_str().unwrap().into(), role: ROLE.into() };
    ask(&aws, &source).await.unwrap();
    ask(&aws, &source).await.unwrap();
    std::fs::write(&file, "second").unwrap();
    seconds.fetch_add(56 * 60, Ordering::SeqCst);
    ask(&aws, &source).await.unwrap();
    let asked = cloud.asked();
    assert_eq!((asked[0].form["WebIdentityToken"].as_str(), asked[0].form["RoleArn"].as_str()), ("first", ROLE));
    assert_eq!(asked[0].url, "POST https://sts.eu-west-1.amazonaws.com/");
    assert!(!asked[0].headers.contains_key("authorization"), "the token is the proof");
    assert_eq!((signer(&asked[1]), signer(&asked[2])), ("A", "A"));
    assert_eq!(asked[1].headers["x-amz-security-token"], "session-token");
    assert_eq!(asked[3].form["WebIdentityToken"], "second", "five minutes before the end they are renewed");
    assert_eq!(signer(&asked[4]), "B");
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn a_role_is_taken_on_with_the_keys_of_the_secret() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: Some("x".into()) };
    ask(&aws, &source).await.unwrap();
    let asked = cloud.asked();
    assert_eq!((signer(&asked[0]), asked[0].form["ExternalId"].as_str(), signer(&asked[1])), ("K", "x", "R"));
    assert!(asked[0].headers["authorization"].contains("/eu-west-1/sts/aws4_request"));
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_once_fetch_one_set_of_keys() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing(), nothing(), nothing()]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    let (a, b, c) = tokio::join!(ask(&aws, &source), ask(&aws, &source), ask(&aws, &source));
    a.and(b).and(c).unwrap();
    assert_eq!(cloud.asked().iter().filter(|asked| asked.form["Action"] == "AssumeRole").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_used_while_they_are_good_and_new_ones_cannot_be_had() {
    let (seconds, clock) = clock();
    let cloud = FakeTransport::new([given("AssumeRole", "R", 60), nothing(), Reply::Broken, nothing(), Reply::Broken]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    ask(&aws, &source).await.unwrap();
    seconds.fetch_add(57 * 60, Ordering::SeqCst);
    ask(&aws, &source).await.unwrap();
    assert_eq!(signer(&cloud.asked()[3]), "R");
    seconds.fetch_add(4 * 60, Ordering::SeqCst);
    assert_eq!(ask(&aws, &source).await.unwrap_err().code(), Code::Unavailable);
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn keys_that_aws_refuses_are_forgotten() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([
        given("AssumeRole", "R", 60),
        refused("ExpiredToken"),
        given("AssumeRole", "S", 60),
        nothing(),
    ]);
    let aws = cloud.aws(Settings::default(), clock);
    let source = Source::Role { keys: keys("K"), role: ROLE.into(), external_id: None };
    assert_eq!(ask(&aws, &source).await.unwrap_err().code(), Code::Unauthenticated);
    ask(&aws, &source).await.unwrap();
    assert_eq!(signer(&cloud.asked()[3]), "S");
}

fn ambient(variables: &'static [(&str, &str)]) -> Settings {
    Settings::from_environment(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
}

/// Shows AWS-9.
#[tokio::test(start_paused = true)]
async fn the_profile_of_the_instance_is_asked_for_with_a_token() {
    let (_, clock) = clock();
    let told =
        r#"{"Code":"Success","AccessKeyId":"I","SecretAccessKey":"k","Token":"t","Expiration":"2030-01-01T00:00:00Z"}"#;
    let answers = ["metadata-token", "nodes\n", told].map(|text| Reply::Answer(200, text.into()));
    let cloud = FakeTransport::new(answers.into_iter().chain([nothing(), nothing()]));
    let aws = cloud.aws(ambient(&[]), clock);
    ask(&aws, &Source::Ambient).await.unwrap();
    ask(&aws, &Source::Ambient).await.unwrap();
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
async fn the_process_s_own_keys_come_before_the_profile_of_its_instance() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([nothing()]);
    let aws = cloud.aws(ambient(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "k")]), clock);
    ask(&aws, &Source::Ambient).await.unwrap();
    assert_eq!(signer(&cloud.asked()[0]), "E");
}

#[tokio::test(start_paused = true)]
async fn without_any_credentials_nobody_is_asked() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([]);
    let aws = cloud.aws(ambient(&[("AWS_EC2_METADATA_DISABLED", "true")]), clock);
    assert_eq!(ask(&aws, &Source::Ambient).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(cloud.asked().is_empty());
}

/// Shows AWS-11.
#[rstest]
#[case("InvalidIdentityToken", Code::Unauthenticated)]
#[case("AccessDenied", Code::PermissionDenied)]
#[tokio::test]
async fn what_sts_refuses_is_told_without_the_token(#[case] refusal: &str, #[case] code: Code) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "web-identity-token").unwrap();
    let (_, clock) = clock();
    let aws = FakeTransport::new([refused(refusal)]).aws(Settings::default(), clock);
    let source = Source::WebIdentity { token_file: file.to_str().unwrap().into(), role: ROLE.into() };
    let error = ask(&aws, &source).await.unwrap_err();
    assert_eq!(error.code(), code);
    assert!(!error.to_string().contains("web-identity-token"), "{error}");
}

#[tokio::test]
async fn a_token_file_that_is_not_there_is_named() {
    let (_, clock) = clock();
    let cloud = FakeTransport::new([]);
    let aws = cloud.aws(Settings::default(), clock);
    let error =
        ask(&aws, &Source::WebIdentity { token_file: "/no/such/token".into(), role: ROLE.into() }).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(error.message().contains("/no/such/token") && cloud.asked().is_empty(), "{error}");
}
