//! An OCI archive, taken apart by hand: what a container runtime would make of it, and nothing that whoever built it knew besides.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

/// An image, unpacked.
#[derive(Debug)]
pub(super) struct Image {
    /// Its files.
    pub(super) root: PathBuf,
    pub(super) entrypoint: Vec<String>,
    pub(super) folder: String,
    /// As numbers, because there is no file that could know names.
    pub(super) user: String,
}

impl Image {
    /// Reads the only image of an archive.
    pub(super) fn unpack(archive: &Path, into: &Path) -> anyhow::Result<Self> {
        let _ = fs::remove_dir_all(into);
        let (layout, files) = (into.join("layout"), into.join("root"));
        fs::create_dir_all(&layout).and_then(|()| fs::create_dir_all(&files))?;
        untar(archive, &layout)?;
        let index = read(&layout.join("index.json"))?;
        let manifest = read(&blob(&layout, index.pointer("/manifests/0/digest"))?)?;
        let layers = manifest.pointer("/layers").and_then(Value::as_array).context("the image has no layers")?;
        for layer in layers {
            untar(&blob(&layout, layer.get("digest"))?, &files)?;
        }
        let config = read(&blob(&layout, manifest.pointer("/config/digest"))?)?;
        let text = |path: &str| config.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let entrypoint = config.pointer("/config/Entrypoint").and_then(Value::as_array).into_iter().flatten();
        let user = text("/config/User").context("the image names no user")?;
        let plain = user.chars().all(|letter| letter.is_ascii_digit() || letter == ':');
        ensure!(plain && !user.starts_with('0'), "{user} is not a numeric user id other than root");
        Ok(Self {
            root: files,
            entrypoint: entrypoint.filter_map(Value::as_str).map(str::to_owned).collect(),
            folder: text("/config/WorkingDir").unwrap_or_default(),
            user,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

fn blob(layout: &Path, digest: Option<&Value>) -> anyhow::Result<PathBuf> {
    let (kind, sum) =
        digest.and_then(Value::as_str).and_then(|it| it.split_once(':')).context("a digest is missing")?;
    Ok(layout.join("blobs").join(kind).join(sum))
}

fn untar(archive: &Path, into: &Path) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(into);
    let ended = tar.output().context("failed to start tar")?;
    ensure!(ended.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&ended.stderr).trim());
    Ok(())
}
