//! Files of manifests.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde_json::Value;

/// Returns all documents of these files. In a directory, files with the extensions of YAML and JSON are read.
pub(super) fn documents(paths: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).with_context(|| format!("failed to read {}", path.display()))?;
            let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.retain(|file| {
                file.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|one| ending == *one))
            });
            files.sort();
            all.extend(documents(&files)?);
            continue;
        }
        let text = content(path)?;
        let parsed: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
            // Keep only the position of the error: its text may quote the file, which may contain a Secret.
            let place =
                error.location().map_or(String::new(), |at| format!(" (line {}, column {})", at.line(), at.column()));
            anyhow!("{} is not valid YAML{place}", path.display())
        })?;
        all.extend(parsed.into_iter().filter(Value::is_object));
    }
    Ok(all)
}

fn content(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("failed to read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}
