//! Traces of a machine in a collector: one trace from its creation until it runs, one from its deletion request until
//! it is deleted. The process is started with the arguments of `deploy/examples/traced`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::ControlPlane;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::collector::{Collector, Received};
use super::pool::{self, Form};
use super::{NAMESPACE, TIMEOUT, apply, kubectl};

const EXAMPLE: &str = "deploy/examples/traced";

/// An expected trace: name, outcome, stages in order, and driver calls with their stages.
struct ExpectedTrace {
    /// Part of the documented recipe for the trace id (docs/operations/observability.md).
    word: &'static str,
    name: &'static str,
    outcome: &'static str,
    stages: &'static [&'static str],
    calls: &'static [(&'static str, &'static str)],
}

const EXPECTED_TRACES: [ExpectedTrace; 2] = [
    ExpectedTrace {
        word: "creation",
        name: "create machine",
        outcome: "running",
        stages: &["ask", "create", "join"],
        calls: &[("GetMachineStatus", "ask"), ("CreateMachine", "create")],
    },
    ExpectedTrace {
        word: "deletion",
        name: "delete machine",
        outcome: "gone",
        stages: &["drain", "delete VM", "delete node", "remove finalizer"],
        calls: &[("DeleteMachine", "delete VM")],
    },
];

/// Runs the example with a collector, creates and deletes a pool, and checks the traces.
pub(super) async fn received(plane: &ControlPlane) -> anyhow::Result<()> {
    let collector = Collector::open()?;
    apply(plane, EXAMPLE)?;
    // As documented in deploy/tracing and deploy/tracing-ca.
    let authority = format!("--from-literal=ca.crt={}", collector.authority());
    kubectl(plane, &["create", "configmap", "collector-ca", "--namespace", NAMESPACE, &authority])?;
    let endpoint = format!("TRACING_ENDPOINT={}", collector.endpoint());
    kubectl(
        plane,
        &["set", "env", "deployment/millwright", "--namespace", NAMESPACE, "--containers=millwright", &endpoint],
    )?;
    let machines = pool::runs_with_current_manifests(plane, Form::OneProcess).await?;
    ensure!(!machines.is_empty(), "no Machine was created");
    let told = wait_for_traces(&collector, 2 * machines.len()).await?;
    ensure!(told.strange.is_empty(), "the collector received invalid requests: {:?}", told.strange);
    let ours = told.senders.iter().all(|sender| attribute(sender, "service.name").as_deref() == Some("millwright"));
    ensure!(ours, "spans without service.name millwright were received");
    let mut traces: BTreeMap<String, Vec<&Span>> = BTreeMap::new();
    for span in &told.spans {
        traces.entry(hex(&span.trace_id)).or_default().push(span);
    }
    for machine in &machines {
        for expected in &EXPECTED_TRACES {
            let id = documented_id(machine, expected)?;
            let spans = traces.remove(&id).with_context(|| format!("the trace of the {} is missing", expected.word))?;
            whole(&spans, machine, expected)
                .with_context(|| format!("the trace of the {}: {}", expected.word, tell(&spans)))?;
        }
    }
    ensure!(traces.is_empty(), "traces without a Machine were received: {:?}", traces.keys());
    nothing_secret(&told.bytes)
}

/// Waits until all traces have ended: spans are exported about a second after they end.
async fn wait_for_traces(collector: &Collector, lives: usize) -> anyhow::Result<Received> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let told = collector.received();
        let ended = told.spans.iter().filter(|span| span.parent_span_id.is_empty()).count();
        if ended >= lives {
            return Ok(told);
        }
        let names: Vec<&str> = told.spans.iter().map(|span| span.name.as_str()).collect();
        ensure!(Instant::now() < deadline, "only {ended} of {lives} traces have ended: {names:?}, {:?}", told.strange);
        sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Returns the trace id with the recipe of docs/operations/observability.md.
fn documented_id(machine: &Value, expected: &ExpectedTrace) -> anyhow::Result<String> {
    let uid = machine.pointer("/metadata/uid").and_then(Value::as_str).context("the Machine has no UID")?;
    let recipe = "printf %s \"$0/$1\" | sha256sum | cut -c-32";
    let made = Command::new("sh").args(["-c", recipe, uid, expected.word]).output().context("failed to start sh")?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

/// Checks one root span, gapless stages below it, and driver calls below their stages.
fn whole(spans: &[&Span], machine: &Value, expected: &ExpectedTrace) -> anyhow::Result<()> {
    let roots: Vec<&&Span> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    let [root] = roots.as_slice() else { anyhow::bail!("the trace has {} root spans", roots.len()) };
    ensure!(root.name == expected.name, "the root span is named {:?}", root.name);
    let known = [
        ("millwright.outcome", Some(expected.outcome)),
        ("millwright.machine", machine.pointer("/metadata/name").and_then(Value::as_str)),
        ("millwright.machine.uid", machine.pointer("/metadata/uid").and_then(Value::as_str)),
        ("millwright.provider_id", machine.pointer("/spec/providerID").and_then(Value::as_str)),
        ("millwright.class", Some("small")),
        ("millwright.deployment", Some("pool")),
        ("k8s.namespace.name", Some(NAMESPACE)),
    ];
    for (key, value) in known {
        let found = attribute(&root.attributes, key);
        ensure!(value.is_some() && found.as_deref() == value, "{key} is {found:?} instead of {value:?}");
    }
    let mut stages: Vec<&&Span> = spans.iter().filter(|span| span.parent_span_id == root.span_id).collect();
    stages.sort_by_key(|stage| stage.start_time_unix_nano);
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    ensure!(names == expected.stages, "the stages are {names:?}");
    let (first, last) = (stages.first().context("no stage")?, stages.last().context("no stage")?);
    ensure!(
        first.start_time_unix_nano == root.start_time_unix_nano,
        "the first stage does not start with the root span"
    );
    ensure!(last.end_time_unix_nano == root.end_time_unix_nano, "the last stage does not end with the root span");
    let gapless = stages.windows(2).all(|pair| match pair {
        [before, after] => before.end_time_unix_nano == after.start_time_unix_nano,
        _ => true,
    });
    ensure!(gapless, "the stages have gaps");
    let stage = |id: &[u8]| stages.iter().find(|stage| stage.span_id == id).map(|stage| stage.name.as_str());
    let calls = spans.iter().filter(|span| !span.parent_span_id.is_empty() && span.parent_span_id != root.span_id);
    let mut seen = BTreeSet::new();
    for call in calls {
        let of = stage(&call.parent_span_id).with_context(|| format!("{} has no stage as its parent", call.name))?;
        ensure!(attribute(&call.attributes, "millwright.code").is_some(), "{} has no code", call.name);
        ensure!(call.start_time_unix_nano <= call.end_time_unix_nano, "{} ended before it started", call.name);
        seen.insert((call.name.as_str(), of));
    }
    let lacking: Vec<_> = expected.calls.iter().filter(|call| !seen.contains(call)).collect();
    ensure!(lacking.is_empty(), "driver calls {lacking:?} are missing in {seen:?}");
    Ok(())
}

/// Checks that neither the Secret of the class nor a bootstrap token is in the traces.
fn nothing_secret(bytes: &[u8]) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(bytes);
    for needle in pool::SECRETS {
        ensure!(!text.contains(needle), "{needle} is in a trace");
    }
    ensure!(bootstrap_token(&text).is_none(), "a trace contains a bootstrap token: {:?}", bootstrap_token(&text));
    Ok(())
}

/// Returns the first bootstrap token: six letters or digits, a dot, and sixteen more.
fn bootstrap_token(text: &str) -> Option<&str> {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let words = text.split(|letter: char| !(plain(letter) || letter == '.'));
    words.into_iter().find(|word| {
        let parts = word.split_once('.');
        parts.is_some_and(|(id, secret)| id.len() == 6 && secret.len() == 16 && secret.chars().all(plain))
    })
}

fn attribute(all: &[KeyValue], key: &str) -> Option<String> {
    match all.iter().find(|pair| pair.key == key)?.value.clone()?.value? {
        Any::StringValue(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn tell(spans: &[&Span]) -> String {
    let one = |span: &&Span| format!("{} {}<{}", span.name, hex(&span.span_id), hex(&span.parent_span_id));
    spans.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use serde_json::json;

    use super::*;

    fn machine() -> Value {
        json!({ "metadata": { "name": "m", "uid": "u" }, "spec": { "providerID": "virtual:///m" } })
    }

    fn span(name: &str, [id, parent]: [u8; 2], [start, end]: [u64; 2]) -> Span {
        let known = [
            ("millwright.outcome", "gone"),
            ("millwright.machine", "m"),
            ("millwright.machine.uid", "u"),
            ("millwright.provider_id", "virtual:///m"),
            ("millwright.class", "small"),
            ("millwright.deployment", "pool"),
            ("k8s.namespace.name", NAMESPACE),
            ("millwright.code", "OK"),
        ];
        let attribute = |(key, text): (&str, &str)| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(Any::StringValue(text.to_owned())) }),
            ..KeyValue::default()
        };
        Span {
            name: name.to_owned(),
            span_id: vec![id],
            parent_span_id: if parent == 0 { Vec::new() } else { vec![parent] },
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            attributes: known.map(attribute).to_vec(),
            ..Span::default()
        }
    }

    fn deletion() -> Vec<Span> {
        vec![
            span("drain", [2, 1], [10, 20]),
            span("DeleteMachine", [6, 3], [21, 29]),
            span("delete VM", [3, 1], [20, 30]),
            span("delete node", [4, 1], [30, 40]),
            span("remove finalizer", [5, 1], [40, 50]),
            span("delete machine", [1, 0], [10, 50]),
        ]
    }

    /// An invalid change of a trace.
    type Change = fn(&mut [Span]);

    fn judge(spans: &[Span]) -> Result<(), String> {
        let [_, expected] = &EXPECTED_TRACES;
        whole(&spans.iter().collect::<Vec<_>>(), &machine(), expected).map_err(|error| error.to_string())
    }

    /// Shows TRC-9.
    #[test]
    fn a_trace_is_complete_only_with_all_spans_in_place() {
        assert_eq!(judge(&deletion()), Ok(()));
        for left_out in 0..deletion().len() {
            let mut spans = deletion();
            let gone = spans.remove(left_out);
            assert!(judge(&spans).is_err(), "the missing span {} was not detected", gone.name);
        }
        let changes: [(&str, Change); 5] = [
            ("root spans", |spans| spans[0].parent_span_id.clear()),
            ("has no stage", |spans| spans[1].parent_span_id = vec![9]),
            ("are missing", |spans| spans[1].parent_span_id = vec![2]),
            ("have gaps", |spans| spans[2].start_time_unix_nano += 1),
            ("millwright.provider_id", |spans| spans[5].attributes.retain(|pair| pair.key != "millwright.provider_id")),
        ];
        for (words, change) in changes {
            let mut spans = deletion();
            change(&mut spans);
            let said = judge(&spans).unwrap_err();
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn a_bootstrap_token_is_detected_by_its_format() {
        assert_eq!(bootstrap_token("join with abc123.0123456789abcdef!"), Some("abc123.0123456789abcdef"));
        for other in ["abc123.short", "collector.observability", "abcdefg.0123456789abcdef", "abc123.0123456789abcdeX"]
        {
            assert_eq!(bootstrap_token(other), None, "{other}");
        }
    }
}
