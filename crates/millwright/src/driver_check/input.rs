//! The class and the Secrets, as people have them in files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::MachineClass;
use api::view::SecretData;
use serde::Deserialize;
use serde_json::Value;

/// Reads a MachineClass.
pub(super) fn class(path: &Path) -> anyhow::Result<MachineClass> {
    let value = object(path, "MachineClass")?;
    serde_json::from_value(value).with_context(|| format!("{} is no MachineClass", path.display()))
}

/// Reads Secrets; for each key the last one that has it wins.
pub(super) fn secret(paths: &[PathBuf]) -> anyhow::Result<SecretData> {
    let mut all = SecretData::default();
    for path in paths {
        let read: Secret = serde_json::from_value(object(path, "Secret")?)
            // The reason would quote what could not be read.
            .map_err(|_| anyhow::anyhow!("{} is no Secret: data holds Base64, stringData text", path.display()))?;
        let plain = read.string_data.into_iter().collect();
        all = SecretData::of_class(Some(&all), Some(&SecretData::of_class(Some(&read.data), Some(&plain))));
    }
    Ok(all)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    #[serde(default)]
    data: SecretData,
    #[serde(default)]
    string_data: BTreeMap<String, String>,
}

fn object(path: &Path, kind: &str) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    // As kubectl reads it: a namespace that is called `n` or `off` is a name.
    let as_kubectl = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(&text, as_kubectl)
        // The reason would quote the file, which may hold a secret.
        .map_err(|_| anyhow::anyhow!("{} is neither YAML nor JSON, or more than one document", path.display()))?;
    match value.get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(value),
        Some(found) => bail!("{} is a {found}, not a {kind}", path.display()),
        None => bail!("{} has no kind; a {kind} is wanted", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("object.yaml");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn a_class_is_read_from_yaml() {
        let (_folder, path) = file(
            "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: c, namespace: n}\nprovider: virtual\nproviderSpec: {region: r}\n",
        );
        let read = class(&path).unwrap();
        assert_eq!((read.provider.as_str(), read.provider_spec["region"].as_str()), ("virtual", Some("r")));
    }

    #[test]
    fn secrets_are_read_as_data_or_text_and_the_last_one_wins() {
        let (_one, first) = file("kind: Secret\ndata: {a: Zmlyc3Q=, b: Zmlyc3Q=}\n");
        let (_two, second) = file("kind: Secret\nstringData: {b: second}\n");
        let read = secret(&[first, second]).unwrap();
        assert_eq!((read.text("a"), read.text("b")), (Some("first"), Some("second")));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_its_content() {
        for text in [
            "kind: Secret\ndata: {a: not-base64!hunter2}\n",
            "kind: Secret\ndata: [hunter2]\n",
            "kind: Secret\n\thunter2: [",
        ] {
            let (_folder, path) = file(text);
            let told = format!("{:#}", secret(&[path]).unwrap_err());
            assert!(told.contains("object.yaml is n") && !told.contains("hunter2"), "{told}");
        }
        let (_folder, path) = file("kind: ConfigMap\n");
        assert!(class(&path).unwrap_err().to_string().ends_with("is a ConfigMap, not a MachineClass"));
        assert!(class(Path::new("/nowhere")).unwrap_err().to_string().contains("failed to read /nowhere"));
    }
}
