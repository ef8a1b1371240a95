//! The audit log of an API server: who asked for what, and what was answered.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use control_plane::guard::Sweeper;
use serde_json::Value;

/// Only who, what and how it ended; no bodies.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
";

/// Programs of ours introduce themselves so; the virtual cloud's kubelets have another name.
const OURS: &str = "millwright/";

/// The log of one API server.
pub(crate) struct Audit {
    log: PathBuf,
    /// Removes the log when we are killed, too.
    _sweeper: Sweeper,
}

/// What was asked in some stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// How often, by verb and resource.
    pub(super) requests: BTreeMap<(String, String), usize>,
    /// Writes to our own kinds that were refused because somebody had written first, by verb and resource: only we write there.
    pub(super) conflicts: BTreeMap<(String, String), usize>,
    /// How many writes to other kinds were; kubelets and Kubernetes' controllers write to Nodes at any moment.
    pub(super) conflicts_with_others: usize,
}

impl Audit {
    /// Writes the policy, and tells with which flags the API server keeps to it.
    pub(crate) fn begin(folder: &Path) -> anyhow::Result<(Self, Vec<String>)> {
        let (policy, log) = (folder.join("policy.yaml"), folder.join("audit.log"));
        fs::write(&policy, POLICY).context("failed to write the audit policy")?;
        let flags = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
            "--audit-log-mode=blocking".to_owned(),
        ];
        Ok((Self { log, _sweeper: Sweeper::start(folder)? }, flags))
    }

    /// Where the log ends now.
    pub(crate) fn mark(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(&self.log).context("failed to look at the audit log")?.len())
    }

    /// What our programs have asked since.
    pub(super) fn since(&self, mark: u64) -> anyhow::Result<Asked> {
        Ok(count(&self.text_since(mark)?))
    }

    /// What was logged since, a request a line.
    pub(crate) fn text_since(&self, mark: u64) -> anyhow::Result<String> {
        let log = fs::read(&self.log).context("failed to read the audit log")?;
        let begin = usize::try_from(mark).unwrap_or(usize::MAX);
        Ok(String::from_utf8_lossy(log.get(begin..).unwrap_or_default()).into_owned())
    }
}

fn count(lines: &str) -> Asked {
    let mut asked = Asked::default();
    for entry in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let resource = text("/objectRef/resource");
        let counts = text("/userAgent").starts_with(OURS)
            && text("/verb") != "watch"
            && !resource.is_empty()
            && !matches!(resource, "leases" | "events");
        if !counts {
            continue;
        }
        let resource = match text("/objectRef/subresource") {
            "" => resource.to_owned(),
            part => format!("{resource}/{part}"),
        };
        let what = (text("/verb").to_owned(), resource);
        *asked.requests.entry(what.clone()).or_default() += 1;
        if entry.pointer("/responseStatus/code").and_then(Value::as_u64) == Some(409) {
            match text("/objectRef/apiGroup") {
                "machine.sapcloud.io" => *asked.conflicts.entry(what).or_default() += 1,
                _ => asked.conflicts_with_others += 1,
            }
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(agent: &str, verb: &str, resource: &str, code: u16) -> String {
        let group = if resource == "machines" { "machine.sapcloud.io" } else { "" };
        let about = serde_json::json!({ "apiGroup": group, "resource": resource, "subresource": "status" });
        serde_json::json!({
            "userAgent": agent, "verb": verb, "objectRef": about,
            "responseStatus": { "code": code },
        })
        .to_string()
    }

    #[test]
    fn only_our_own_requests_count_and_neither_watches_nor_leases_nor_events() {
        let log = [
            line("millwright/0.1.0 (x)", "patch", "machines", 200),
            line("millwright/0.1.0 (x)", "patch", "machines", 409),
            line("millwright/0.1.0 (x)", "patch", "nodes", 409),
            line("millwright/0.1.0 (x)", "watch", "machines", 200),
            line("millwright/0.1.0 (x)", "update", "leases", 200),
            line("millwright/0.1.0 (x)", "create", "events", 201),
            line("millwright-virtual-cloud/0.1.0", "patch", "nodes", 200),
            line("kubectl/1.36", "create", "machines", 201),
        ];
        let asked = count(&log.join("\n"));
        let patches = |of: &str| ("patch".to_owned(), format!("{of}/status"));
        assert_eq!(asked.requests, BTreeMap::from([(patches("machines"), 2), (patches("nodes"), 1)]));
        assert_eq!(asked.conflicts, BTreeMap::from([(patches("machines"), 1)]));
        assert_eq!(asked.conflicts_with_others, 1);
    }
}
