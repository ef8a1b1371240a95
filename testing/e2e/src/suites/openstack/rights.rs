//! Permissions of a driver: a reader is not sufficient. The shipped access rules for its application credential are
//! sufficient, and each of them is needed.

use std::path::Path;

use anyhow::{Context, ensure};
use lab_openstack::{READER, TENANT};
use serde_json::{Value, json};

use super::Setting;
use super::cloud::{Counted, FLAVOR};
use super::objects::Place;
use crate::suites::clouds::kill_table::{CLASS, machine};
use crate::suites::clouds::setting::phase;
use crate::suites::report::Report;
use crate::test_bed::Process;
use crate::workspace::root;

const NAME: &str = "rights";
const RULES: &str = "deploy/openstack-driver/access-rules.json";
/// The rule that the first credential lacks.
const MISSING_RULE: (&str, &str) = ("POST", "/v2.1/servers");
/// Includes a scan for orphan VMs.
const FLAGS: [&str; 2] = ["--machine-safety-orphan-vms-period=10s", "--machine-safety-orphan-vms-min-interval=10s"];

/// Runs the cases.
pub(super) async fn play(
    setting: &Setting<'_>,
    auth_url: &str,
    target: &Value,
    report: &mut Report,
) -> anyhow::Result<()> {
    let place = Place { namespace: NAME, auth_url, target };
    let rules: Vec<Value> = serde_json::from_slice(&std::fs::read(root().join(RULES))?).context("bad access rules")?;
    let text = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_lacking = |rule: &&Value| (text(rule, "method").as_str(), text(rule, "path").as_str()) == MISSING_RULE;
    let fewer: Vec<Value> = rules.iter().filter(|rule| !is_lacking(rule)).cloned().collect();
    ensure!(fewer.len() + 1 == rules.len(), "{RULES} does not name {MISSING_RULE:?}");
    let reader = json!({
        "username": READER.name, "password": READER.password, "tenantName": READER.project, "domainName": "Default",
    });
    let objects = [place.class(CLASS, FLAVOR), machine(NAME)];
    setting.test_bed.apply(NAME, &place.with_secret(place.secret_of(&reader), objects))?;
    let controller = start_with(setting, &place, "rights-reader", &reader)?;
    let sentence = "a reader creates nothing, and the Machine reports it";
    report.case(sentence, refused(setting, "PermissionDenied")).await;
    controller.terminate()?;
    let lacking = credential(setting, "lacking", &fewer).await?;
    let controller = start_with(setting, &place, "rights-lacking", &lacking)?;
    let sentence = "a credential without server creation is reported";
    report.case(sentence, refused(setting, "Unauthenticated")).await;
    controller.terminate()?;
    let enough = credential(setting, "enough", &rules).await?;
    let controller = start_with(setting, &place, "rights-enough", &enough)?;
    let sentence = "a credential with the shipped rules is sufficient";
    report.case(sentence, lived(setting)).await;
    controller.terminate()
}

/// Creates an application credential of the tenant for these requests only, and returns its keys in the Secret.
async fn credential(setting: &Setting<'_>, name: &str, rules: &[Value]) -> anyhow::Result<Value> {
    let lab = setting.cloud.0;
    let file = format!("{name}-rules.json");
    std::fs::write(lab.home().join("shared").join(&file), json!(rules).to_string())?;
    let inside = Path::new("/stack/shared").join(&file).display().to_string();
    // A credential has only the named roles, and none of those that they imply.
    let both = ["--role", "member", "--role", "reader"];
    let words = [&["application", "credential", "create", "--access-rules", &inside], &both[..], &[name]].concat();
    let made = lab.client(TENANT).json(&words).await?;
    let said = |key: &str| made.get(key).and_then(Value::as_str).map(str::to_owned);
    let (id, secret) =
        said("id").or(said("ID")).zip(said("secret").or(said("Secret"))).context("no credential was created")?;
    Ok(json!({ "applicationCredentialID": id, "applicationCredentialSecret": secret }))
}

/// Starts a controller with these credentials and none of the earlier ones, because a password would be used in
/// addition.
fn start_with(setting: &Setting<'_>, place: &Place<'_>, log: &str, credentials: &Value) -> anyhow::Result<Process> {
    let mut secret = place.secret_of(credentials);
    if let Some(data) = secret.pointer_mut("/stringData").and_then(Value::as_object_mut) {
        for key in ["username", "password", "tenantName", "domainName"] {
            data.entry(key).or_insert_with(|| json!(""));
        }
    }
    setting.test_bed.apply("rights-secret", &secret)?;
    setting.start_with_driver(log, NAME, "", &FLAGS)
}

async fn refused(setting: &Setting<'_>, expected: &str) -> anyhow::Result<()> {
    let code = "/status/lastOperation/errorCode";
    setting
        .until("the Machine reports the error", async || {
            let machines = setting.machines(NAME)?;
            let code = machines.first().and_then(|machine| machine.pointer(code)?.as_str()).unwrap_or_default();
            Ok(if code.contains(expected) { Ok(()) } else { Err(format!("the error code is {code:?}")) })
        })
        .await?;
    let servers = setting.cloud.of(NAME).await?.servers;
    ensure!(servers.is_empty(), "servers were created: {servers:?}");
    Ok(())
}

async fn lived(setting: &Setting<'_>) -> anyhow::Result<()> {
    let now = |machines: &[Value]| machines.first().map(|machine| phase(machine).to_owned());
    setting
        .until("the machine is running", async || {
            let phase = now(&setting.machines(NAME)?);
            Ok(if phase.as_deref() == Some("Running") { Ok(()) } else { Err(format!("the phase is {phase:?}")) })
        })
        .await?;
    let Counted { servers, ports, volumes, .. } = setting.cloud.of(NAME).await?;
    let counts = [servers.len(), ports.len(), volumes.len()];
    ensure!(counts == [1; 3], "OpenStack has {counts:?} servers, ports and volumes of the machine");
    setting.kubectl(NAME, &["delete", "machine", NAME, "--wait=false"])?;
    setting
        .until("the machine is deleted", async || {
            let phase = now(&setting.machines(NAME)?);
            Ok(if phase.is_none() { Ok(()) } else { Err(format!("the phase is {phase:?}")) })
        })
        .await?;
    let left = setting.cloud.of(NAME).await?;
    ensure!(left.is_nothing(), "resources still exist: {left:?}");
    Ok(())
}
