//! The numbers of fields on the wire.
//!
//! kubectl sends what it makes itself (`kubectl create`, the evictions of a drain) in protobuf, where fields have numbers and no
//! names. The OpenAPI documents do not tell them; the `generated.proto` files of the Go modules do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use e2e::workspace::root;

/// Where the files are, by module.
const FILES: &[(&str, &[&str])] = &[
    (
        "k8s.io/api",
        &[
            "apps/v1",
            "authentication/v1",
            "authorization/v1",
            "autoscaling/v1",
            "batch/v1",
            "coordination/v1",
            "core/v1",
            "events/v1",
            "policy/v1",
            "scheduling/v1",
            "storage/v1",
        ],
    ),
    ("k8s.io/apimachinery", &["pkg/apis/meta/v1"]),
    ("k8s.io/apiextensions-apiserver", &["pkg/apis/apiextensions/v1"]),
];

/// The messages by the names that OpenAPI has for them.
#[derive(Default)]
pub(super) struct Messages(BTreeMap<String, Vec<Entry>>);

struct Entry {
    name: String,
    number: u32,
    message: String,
}

impl Messages {
    /// Reads them from the modules that the control plane is built from.
    pub(super) fn of_modules() -> anyhow::Result<Self> {
        let mut messages = Self::default();
        for (module, folders) in FILES {
            let output = Command::new("go")
                .args(["list", "-m", "-f", "{{.Dir}}", module])
                .current_dir(root().join("hack/control-plane"))
                .output()
                .context("failed to start go")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            for inner in *folders {
                let path = Path::new(&folder).join(inner).join("generated.proto");
                let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
                messages.read(&text);
            }
        }
        Ok(messages)
    }

    fn read(&mut self, text: &str) {
        let (mut package, mut current) = ("", None);
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
            match words.as_slice() {
                ["package", name] => package = name,
                ["message", name, "{"] => current = Some(open_api(&format!("{package}.{name}"))),
                ["optional" | "repeated", of, name, "=", number] => {
                    let of = of.trim_start_matches('.');
                    let message = if of.contains('.') { open_api(of) } else { open_api(&format!("{package}.{of}")) };
                    self.add(current.as_ref(), name, number, message);
                }
                [key, _, name, "=", number] if key.starts_with("map<") => {
                    self.add(current.as_ref(), name, number, String::new());
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, current: Option<&String>, name: &str, number: &str, message: String) {
        if let (Some(current), Ok(number)) = (current, number.parse()) {
            self.0.entry(current.clone()).or_default().push(Entry { name: name.to_owned(), number, message });
        }
    }

    /// The way to a field: its number, or more of them where Go puts a struct into another and JSON does not show it.
    pub(super) fn way(&self, of: &str, field: &str) -> Option<String> {
        let entries = self.0.get(of)?;
        if let Some(entry) = entries.iter().find(|entry| same(&entry.name, field)) {
            return Some(entry.number.to_string());
        }
        entries.iter().find_map(|entry| {
            let inner = self.0.get(&entry.message)?.iter().find(|inner| same(&inner.name, field))?;
            Some(format!("{}.{}", entry.number, inner.number))
        })
    }
}

/// Names that are no identifiers are spelled otherwise: `$ref`, `x-kubernetes-list-type`.
fn same(proto: &str, json: &str) -> bool {
    let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    proto == json || letters(proto) == letters(json)
}

fn open_api(proto: &str) -> String {
    proto.replacen("k8s.io.", "io.k8s.", 1).replace("apiextensions_apiserver", "apiextensions-apiserver")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_number_also_in_a_struct_that_json_does_not_show() {
        let mut messages = Messages::default();
        messages.read(
            "package k8s.io.api.core.v1;\nmessage Volume {\n  // words\n  optional string name = 1;\n  optional VolumeSource volumeSource = 2;\n}\nmessage VolumeSource {\n  optional .k8s.io.api.core.v1.HostPath hostPath = 3;\n  map<string, bytes> data = 4;\n}\n",
        );
        let way = |field| messages.way("io.k8s.api.core.v1.Volume", field);
        assert_eq!(way("name").as_deref(), Some("1"));
        assert_eq!(way("hostPath").as_deref(), Some("2.3"));
        assert_eq!(way("data").as_deref(), Some("2.4"));
        assert_eq!(way("other"), None);
    }
}
