//! Telling what a server said from what it made up.
//!
//! Two servers that behave alike still choose other uids and count other versions. A translation gives each of these a number in
//! the order in which they were first seen, so that answers of different servers can be compared, and turns the numbers back into
//! what this server means by them, so that a request can name them.

use serde_json::{Map, Value};

/// What one server calls the things that each server names for itself.
pub(super) struct Translation {
    namespace: String,
    uids: Vec<String>,
    versions: Vec<String>,
    continuations: Vec<String>,
}

/// What a refusal says in front of a version.
const BEFORE_VERSIONS: [&str; 2] = ["ResourceVersion in precondition: ", "ResourceVersion in object meta: "];

impl Translation {
    /// For what happens in this namespace.
    pub(super) fn of(namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { namespace, uids: Vec::new(), versions: Vec::new(), continuations: Vec::new() }
    }

    /// An answer in words that every server shares.
    pub(super) fn shared(&mut self, answer: &Value) -> Value {
        let mut shared = self.shared_value(answer);
        if shared["kind"] == "Status" {
            put_complaints_in_order(&mut shared);
        }
        shared
    }

    fn shared_value(&mut self, answer: &Value) -> Value {
        match answer {
            Value::Object(fields) => Value::Object(self.shared_fields(fields)),
            Value::Array(items) => items.iter().map(|item| self.shared_value(item)).collect(),
            Value::String(text) => Value::from(self.shared_text(text)),
            other => other.clone(),
        }
    }

    fn shared_fields(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let list = fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        let mut shared = Map::new();
        for (field, value) in fields {
            let value = match (field.as_str(), value) {
                ("managedFields", _) => continue,
                ("metadata", Value::Object(metadata)) if list => Value::Object(self.shared_list(metadata)),
                ("uid", Value::String(uid)) if !uid.is_empty() => Value::from(numbered(&mut self.uids, "uid", uid)),
                ("resourceVersion", Value::String(version)) => {
                    Value::from(numbered(&mut self.versions, "version", version))
                }
                ("creationTimestamp" | "deletionTimestamp", Value::String(_)) => Value::from("<time>"),
                (_, value) => self.shared_value(value),
            };
            shared.insert(field.clone(), value);
        }
        shared
    }

    /// A list is as new as the whole server, which others write to as well.
    fn shared_list(&mut self, metadata: &Map<String, Value>) -> Map<String, Value> {
        let mut shared = metadata.clone();
        shared.insert("resourceVersion".to_owned(), Value::from("<now>"));
        if let Some(Value::String(token)) = metadata.get("continue").filter(|token| **token != "") {
            let token = numbered(&mut self.continuations, "continuation", token);
            shared.insert("continue".to_owned(), Value::from(token));
        }
        shared
    }

    fn shared_text(&self, text: &str) -> String {
        let mut shared = text.replace(&self.namespace, "<namespace>");
        for (number, uid) in self.uids.iter().enumerate() {
            shared = shared.replace(uid, &placeholder("uid", number));
        }
        for before in BEFORE_VERSIONS {
            if let Some((head, tail)) = shared.split_once(before) {
                let digits = tail.chars().take_while(char::is_ascii_digit).count();
                let (version, rest) = tail.split_at(digits);
                if let Some(number) = self.versions.iter().position(|known| known == version) {
                    shared = format!("{head}{before}{}{rest}", placeholder("version", number));
                }
            }
        }
        shared
    }

    /// A request in this server's own words.
    pub(super) fn own(&self, request: &str) -> String {
        let mut own = request.replace("<namespace>", &self.namespace);
        let known = [("uid", &self.uids), ("version", &self.versions), ("continuation", &self.continuations)];
        for (sort, names) in known {
            for (number, name) in names.iter().enumerate() {
                own = own.replace(&placeholder(sort, number), name);
            }
        }
        own
    }
}

/// What the reference says in an order of its own, several times, or in words that are those of its JSON library.
fn put_complaints_in_order(answer: &mut Value) {
    if let Some(causes) = answer.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        for cause in causes.iter_mut().filter(|cause| cause["field"] == "patch") {
            // Here the reference repeats the whole object, which may be a secret; ours does not.
            cause["message"] = Value::from("<the patched object>");
        }
        causes.sort_by_key(Value::to_string);
        causes.dedup();
        end_message(answer, " is invalid: ", "<the causes>");
    }
    for sort in ["ConfigMap", "Secret"] {
        end_message(answer, &format!(" cannot be handled as a {sort}: json: "), "<why>");
        end_message(answer, &format!(" cannot be handled as a {sort}: illegal base64 data"), "");
    }
}

/// Replaces what a message says after these words.
fn end_message(answer: &mut Value, after: &str, end: &str) {
    if let Some((head, _)) = answer["message"].as_str().and_then(|said| said.split_once(after)) {
        answer["message"] = Value::from(format!("{head}{after}{end}"));
    }
}

fn numbered(names: &mut Vec<String>, sort: &str, name: &str) -> String {
    let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    placeholder(sort, number)
}

fn placeholder(sort: &str, number: usize) -> String {
    format!("<{sort} {number}>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, version: &str) -> Value {
        json!({"metadata": {"namespace": "c-1", "uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}})
    }

    /// Shows TWO-2.
    #[test]
    fn servers_that_behave_alike_say_the_same() {
        let (mut ours, mut theirs) = (Translation::of("c-1"), Translation::of("c-22"));
        let mut other = object("u-9", "4711");
        other["metadata"]["namespace"] = json!("c-22");
        assert_eq!(ours.shared(&object("u-1", "3")), theirs.shared(&other));
        assert_ne!(ours.shared(&object("u-1", "4")), theirs.shared(&other), "a write that only one of them made");
    }

    #[test]
    fn a_request_names_what_this_server_gave_out() {
        let mut translation = Translation::of("c-1");
        translation.shared(&object("u-1", "3"));
        translation.shared(&object("u-1", "8"));
        assert_eq!(translation.own("/<namespace>/a?v=<version 1>&u=<uid 0>"), "/c-1/a?v=8&u=u-1");
    }

    /// Shows TWO-2.
    #[test]
    fn names_in_messages_are_translated_too_and_other_numbers_are_not() {
        let mut translation = Translation::of("c-1");
        translation.shared(&object("u-1", "3"));
        translation.shared(&object("u-1", "7"));
        let said = "ResourceVersion in precondition: 3, ResourceVersion in object meta: 7, UID: u-1, at most 7";
        let shared = "ResourceVersion in precondition: <version 0>, ResourceVersion in object meta: <version 1>, UID: <uid 0>, at most 7";
        assert_eq!(translation.shared(&json!(said)), json!(shared));
    }

    /// Shows TWO-2.
    #[test]
    fn complaints_in_another_order_are_the_same() {
        let refusal = |first: &str, second: &str| {
            let causes = json!([{"message": first}, {"message": second}]);
            json!({"kind": "Status", "message": format!("Widget \"a\" is invalid: [{first}, {second}]"), "details": {"causes": causes}})
        };
        let mut translation = Translation::of("c-1");
        assert_eq!(translation.shared(&refusal("x", "y")), translation.shared(&refusal("y", "x")));
        assert_ne!(translation.shared(&refusal("x", "y")), translation.shared(&refusal("y", "z")));
    }

    #[test]
    fn a_list_is_as_new_as_the_whole_server() {
        let list = |version: &str| json!({"kind": "SecretList", "metadata": {"resourceVersion": version}, "items": []});
        assert_eq!(Translation::of("c-1").shared(&list("1")), Translation::of("c-1").shared(&list("99")));
    }
}
