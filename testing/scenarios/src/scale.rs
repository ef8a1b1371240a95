//! Scenario of a thousand Machines, hundreds of which fail.

use std::collections::BTreeMap;

use api::{Machine, MachinePhase};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fixture::{CLASS, create};
use crate::result::ensure;
use crate::{Failure, Fixture, Scenario};

/// Every scenario of many Machines. They take too long on a real server to run for every change.
pub const SCALE_SCENARIOS: &[Scenario] = &[Scenario {
    name: "thousand_machines_with_failures_do_not_block_each_other",
    run: |fixture| thousand_machines_with_failures_do_not_block_each_other(fixture).boxed(),
}];

const MACHINES: usize = 1000;
const OF_EACH_KIND: usize = 50;

/// Classes whose machines fail, and a part of the message in their status.
const FAILURES: [(&str, &str); 6] = [
    ("full", "ResourceExhausted"),
    ("odd", "InvalidArgument"),
    ("strange", "no driver serves"),
    ("missing", "missing"),
    ("keyless", "userdata field not found"),
    ("silent", "failed to join the cluster"),
];

async fn thousand_machines_with_failures_do_not_block_each_other(fixture: &Fixture) -> Result<(), Failure> {
    add_classes(fixture).await?;
    let _process = fixture.start()?;
    let created = stream::iter(0..MACHINES)
        .map(|n| fixture.create_with(n, json!({ "class": { "kind": "MachineClass", "name": class_of(n) } })));
    created.buffer_unordered(20).try_for_each(|()| async { Ok(()) }).await?;

    let begin = fixture.environment.clock.instant();
    loop {
        let all =
            fixture.machines().list(&ListParams::default()).await.map_err(Failure::api("list the Machines"))?.items;
        let count = |good: &dyn Fn(&Machine) -> bool| all.iter().filter(|machine| good(machine)).count();
        let running = count(&|machine| machine.spec.class.name == CLASS && *machine.phase() == MachinePhase::Running);
        let reported: BTreeMap<&str, usize> = FAILURES
            .iter()
            .map(|(class, text)| {
                (*class, count(&|machine| machine.spec.class.name == *class && reports(machine, text)))
            })
            .collect();
        if running == MACHINES - FAILURES.len() * OF_EACH_KIND
            && reported.values().all(|number| *number == OF_EACH_KIND)
        {
            break;
        }
        // Three times the timeout of a single machine.
        ensure(begin.elapsed() < fixture.environment.pace.timeout * 3, || {
            format!("timed out: {running} run, and these have reported their error: {reported:?}")
        })?;
        tokio::time::sleep(fixture.environment.pace.boot).await;
    }
    fixture.ensure_single_vms(MACHINES)
}

/// The classes are interleaved, so that the order of creation does not matter.
fn class_of(n: usize) -> &'static str {
    let place = n % (MACHINES / OF_EACH_KIND);
    FAILURES.get(place).map_or(CLASS, |(class, _)| class)
}

fn reports(machine: &Machine, text: &str) -> bool {
    let operation = &machine.status.last_operation;
    operation.error_code == text || operation.description.contains(text)
}

async fn add_classes(fixture: &Fixture) -> Result<(), Failure> {
    let mut spec = fixture.environment.pace.provider_spec();
    let with = |key: &str, value: Value| {
        let mut changed = spec.clone();
        if let Some(fields) = changed.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
        changed
    };
    fixture.add_class("full", "virtual", &with("quota", json!(0))).await?;
    fixture.add_class("odd", "virtual", &with("quotaa", json!(0))).await?;
    fixture.add_class("silent", "virtual", &with("join", json!("never"))).await?;
    fixture.add_class("strange", "unknown", &spec).await?;
    create(&fixture.api::<Secret>(), "create a Secret", json!({ "metadata": { "name": "empty" } })).await?;
    let keyless = json!({
        "metadata": { "name": "keyless" }, "provider": "virtual", "providerSpec": spec.take(),
        "secretRef": { "name": "empty", "namespace": fixture.namespace },
    });
    create(&fixture.api::<api::MachineClass>(), "create a MachineClass", keyless).await
}
