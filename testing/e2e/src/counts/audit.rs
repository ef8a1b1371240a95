//! Audit log of an API server: requests and responses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use control_plane::guard::Sweeper;
use serde_json::Value;

/// Audit policy: metadata only, without request and response bodies.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
";

/// User agent prefix of the programs of this project. The kubelets of the virtual cloud use another one.
const OURS: &str = "millwright/";

/// Audit log of one API server.
pub(crate) struct Audit {
    log: PathBuf,
    /// Removes the log, even if this process is killed.
    _sweeper: Sweeper,
}

/// Requests in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Number of requests by verb and resource.
    pub(super) requests: BTreeMap<(String, String), usize>,
    /// Conflicts in writes to the Machine API, by verb and resource. Only this program writes these objects.
    pub(super) conflicts: BTreeMap<(String, String), usize>,
    /// Number of conflicts in writes to other objects. Kubelets and the controllers of Kubernetes may write to Nodes at
    /// any time.
    pub(super) conflicts_with_others: usize,
}

impl Audit {
    /// Writes the policy, and returns the flags for the API server.
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

    /// Returns the current end of the log.
    pub(crate) fn mark(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(&self.log).context("failed to get the size of the audit log")?.len())
    }

    /// Returns the requests of this program since the mark.
    pub(super) fn since(&self, mark: u64) -> anyhow::Result<Asked> {
        Ok(count(&self.text_since(mark)?))
    }

    /// Returns the log since the mark, one request per line.
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
    fn watches_leases_events_and_other_clients_are_not_counted() {
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
