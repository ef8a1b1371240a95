//! Reads the MachineClass and the Secrets from files.

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
    serde_json::from_value(value).with_context(|| format!("{} is not a valid MachineClass", path.display()))
}

/// Reads Secrets. For each key, the last Secret that has it wins.
pub(super) fn secret(paths: &[PathBuf]) -> anyhow::Result<SecretData> {
    let mut all = SecretData::default();
    for path in paths {
        let read: Secret = serde_json::from_value(object(path, "Secret")?)
            // Do not include the error, because it quotes the value.
            .map_err(|_| {
                anyhow::anyhow!("{} is not a valid Secret: data must contain Base64, stringData text", path.display())
            })?;
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
    // kubectl parses YAML like this: a namespace called `n` or `off` is a string.
    let as_kubectl = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(&text, as_kubectl)
        // Do not include the error, because it quotes the file, which may contain a secret.
        .map_err(|_| anyhow::anyhow!("{} is neither YAML nor JSON, or more than one document", path.display()))?;
    match value.get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(value),
        Some(found) => bail!("{} is a {found}, not a {kind}", path.display()),
        None => bail!("{} has no kind; expected a {kind}", path.display()),
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
    fn machine_class_is_read_from_yaml() {
        let (_folder, path) = file(
            "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: c, namespace: n}\nprovider: virtual\nproviderSpec: {region: r}\n",
        );
        let read = class(&path).unwrap();
        assert_eq!((read.provider.as_str(), read.provider_spec["region"].as_str()), ("virtual", Some("r")));
    }

    #[test]
    fn secrets_are_merged_and_the_last_one_wins() {
        let (_one, first) = file("kind: Secret\ndata: {a: Zmlyc3Q=, b: Zmlyc3Q=}\n");
        let (_two, second) = file("kind: Secret\nstringData: {b: second}\n");
        let read = secret(&[first, second]).unwrap();
        assert_eq!((read.text("a"), read.text("b")), (Some("first"), Some("second")));
    }

    #[test]
    fn invalid_file_is_reported_without_its_content() {
        for text in [
            "kind: Secret\ndata: {a: not-base64!hunter2}\n",
            "kind: Secret\ndata: [hunter2]\n",
            "kind: Secret\n\thunter2: [",
        ] {
            let (_folder, path) = file(text);
            let error = format!("{:#}", secret(&[path]).unwrap_err());
            assert!(error.contains("object.yaml is n") && !error.contains("hunter2"), "{error}");
        }
        let (_folder, path) = file("kind: ConfigMap\n");
        assert!(class(&path).unwrap_err().to_string().ends_with("is a ConfigMap, not a MachineClass"));
        assert!(class(Path::new("/nowhere")).unwrap_err().to_string().contains("failed to read /nowhere"));
    }
}
