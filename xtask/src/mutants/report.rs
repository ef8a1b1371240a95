//! What `cargo mutants` wrote down.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// How the mutants of a run fared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// How many there were to try.
    pub(super) all: usize,
    /// How many made a test fail, or run for ever.
    pub(super) caught: usize,
    /// How many do not compile, and so show nothing.
    pub(super) unviable: usize,
    /// Those on which all tests passed.
    pub(super) missed: Vec<String>,
}

impl Report {
    /// Reads the folder `mutants.out`, which is not made when nothing is left to try.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        if !folder.exists() {
            return Ok(Self { all: 0, caught: 0, unviable: 0, missed: Vec::new() });
        }
        let text = |file: &str| {
            let path = folder.join(file);
            std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
        };
        let lines = |file: &str| text(file).map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let all: Vec<Value> = serde_json::from_str(&text("mutants.json")?).context("mutants.json is no list")?;
        Ok(Self {
            all: all.len(),
            caught: lines("caught.txt")?.len() + lines("timeout.txt")?.len(),
            unviable: lines("unviable.txt")?.len(),
            missed: lines("missed.txt")?,
        })
    }

    /// How many there was no time for.
    pub(super) fn untried(&self) -> usize {
        self.all.saturating_sub(self.caught + self.unviable + self.missed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_was_no_time_for_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        write("mutants.json", "[{}, {}, {}, {}, {}, {}]");
        write("caught.txt", "a\nb\n");
        write("timeout.txt", "c\n");
        write("unviable.txt", "");
        write("missed.txt", "d\n");
        let report = Report::read(folder.path()).unwrap();
        assert_eq!(Report::read(&folder.path().join("nowhere")).unwrap().all, 0);
        assert_eq!((report.caught, report.missed.as_slice(), report.untried()), (3, ["d".to_owned()].as_slice(), 2));
    }
}
