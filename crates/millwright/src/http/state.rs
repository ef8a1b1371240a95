//! `/debug/state`: the state of the process at one moment.
//!
//! The state is built once as data and printed in two formats, so that both contain the same. It contains names,
//! numbers, times and reasons of decisions. It contains no content of objects, and so no secrets.

use std::fmt::Write;

use controllers::state::ClusterState;
use runtime::{Clock, Watchdog};
use serde_json::{Map, Value, json};

use super::controller_state::ControllerState;
use super::readiness::leader;

/// Returns the state.
pub(super) fn of(controller_state: &ControllerState, watchdog: &Watchdog, clock: &Clock) -> Value {
    let mut state = Map::new();
    state.insert("at".to_owned(), json!(clock.now()));
    let stuck: Vec<String> = watchdog.stuck().iter().map(ToString::to_string).collect();
    state.insert("stuck".to_owned(), json!(stuck));
    let Some(view) = controller_state.view() else {
        state.insert("controllers".to_owned(), json!("not started"));
        return Value::Object(state);
    };
    state.insert("leader".to_owned(), json!(leader(&view.leadership)));
    match serde_json::to_value(ClusterState::of(&view.cluster)) {
        Ok(Value::Object(cluster)) => state.extend(cluster),
        Ok(_) => {}
        Err(error) => drop(state.insert("error".to_owned(), json!(error.to_string()))),
    }
    state.insert("objects".to_owned(), json!(controller_state.last_decisions().shown()));
    Value::Object(state)
}

/// Formats the state as text: an indented line for every value, and none for empty values.
pub(super) fn readable(state: &Value) -> String {
    let mut text = String::new();
    let _ = write(&mut text, state, 0);
    text
}

fn write(text: &mut String, value: &Value, depth: usize) -> std::fmt::Result {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
                entry(text, &format!("{name}:"), value, depth)?;
            }
        }
        Value::Array(all) => {
            for value in all {
                entry(text, "-", value, depth)?;
            }
        }
        word => writeln!(text, "{}", inline(word).unwrap_or_default())?,
    }
    Ok(())
}

/// Writes a value on the line of its name if it fits there, otherwise below it.
fn entry(text: &mut String, name: &str, value: &Value, depth: usize) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    if let Some(line) = inline(value) {
        return writeln!(text, "{indent}{name} {line}");
    }
    writeln!(text, "{indent}{name}")?;
    write(text, value, depth + 1)
}

/// Returns the value as one line, if it is a scalar or an object of scalars.
fn inline(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("-".to_owned()),
        Value::Bool(is) => Some(if *is { "yes" } else { "no" }.to_owned()),
        Value::Number(number) => {
            Some(number.as_f64().filter(|_| number.is_f64()).map_or_else(|| number.to_string(), |n| format!("{n:.1}")))
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(_) => None,
        Value::Object(fields) => {
            let mut words = Vec::new();
            for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
                match value {
                    Value::Array(_) | Value::Object(_) => return None,
                    word => words.push(format!("{name} {}", inline(word)?)),
                }
            }
            Some(words.join(", "))
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HTT-6.
    #[test]
    fn readable_state_has_no_lines_for_empty_values() {
        let state = json!({
            "leader": "yes",
            "stuck": [],
            "queues": [{ "name": "machine", "ready": [], "waiting": [{ "key": "a/m-1", "dueInSeconds": 12.25 }] }],
            "objects": { "machine": { "a/m-1": { "because": "the VM is booting", "awaits": "its Node" } } },
        });
        let expected = "leader: yes\n\
                        objects:\n  machine:\n    a/m-1: awaits its Node, because the VM is booting\n\
                        queues:\n  -\n    name: machine\n    waiting:\n      - dueInSeconds 12.2, key a/m-1\n";
        assert_eq!(readable(&state), expected);
    }
}
