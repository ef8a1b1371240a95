//! Permissions of the service accounts for Secrets in kube-system: sends the cases of
//! `crates/api/tests/corpus/tokens.yaml` to the policy of `deploy/rbac/target`. All users have the role cluster-admin,
//! so every rejection comes from the policy.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, bail, ensure};
use control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::web::{Answer, Proxy};
use super::{TIMEOUT, kubectl};
use crate::workspace::root;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
}

/// One request of a user.
#[derive(Debug)]
struct Case {
    sentence: String,
    who: String,
    does: Operation,
    secret: Value,
    /// Message of the policy; `None` if the request is allowed.
    because: Option<String>,
}

fn read() -> anyhow::Result<Vec<Case>> {
    let path = root().join("crates/api/tests/corpus/tokens.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let corpus: Value = serde_saphyr::from_str(&text).context("tokens.yaml is not YAML")?;
    let (base, cases) = (corpus.get("base").context("no base")?, corpus.get("cases").and_then(Value::as_array));
    cases.context("no cases")?.iter().map(|case| read_case(base, case).with_context(|| case.to_string())).collect()
}

fn read_case(base: &Value, case: &Value) -> anyhow::Result<Case> {
    let text = |field: &str| case.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut secret = base.clone();
    json_patch::merge(&mut secret, case.get("change").context("no change")?);
    let because = match text("verdict").context("no verdict")?.as_str() {
        "allowed" => None,
        "denied" => Some(text("because").context("the field because is missing")?),
        other => bail!("unknown verdict {other}"),
    };
    let does = match text("does").context("the field does is missing")?.as_str() {
        "create" => Operation::Create,
        "delete" => Operation::Delete,
        other => bail!("unknown action {other}"),
    };
    Ok(Case { sentence: text("case").context("no name")?, who: text("who").context("no user")?, does, secret, because })
}

/// Sends all cases to the API server as dry runs.
pub(super) async fn agree(plane: &ControlPlane, proxy: &Proxy) -> anyhow::Result<()> {
    let all = read()?;
    let users: BTreeSet<&str> = all.iter().map(|case| case.who.as_str()).collect();
    let mut binding = vec!["create", "clusterrolebinding", "corpus-of-tokens", "--clusterrole=cluster-admin"];
    let users: Vec<String> = users.iter().map(|who| format!("--user={who}")).collect();
    binding.extend(users.iter().map(String::as_str));
    kubectl(plane, &binding)?;
    for case in all.iter().filter(|case| case.does == Operation::Delete) {
        let made = proxy.send("POST", &case.collection(), &case.secret).await?;
        ensure!(made.is_well() || made.status == 409, "{}: {}", made.status, made.message());
    }
    // The API server applies role bindings and policies after a delay.
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = all_agree(&all, proxy).await {
        if Instant::now() > deadline {
            return Err(error);
        }
        sleep(std::time::Duration::from_millis(500)).await;
    }
    kubectl(plane, &["delete", "clusterrolebinding", "corpus-of-tokens"])?;
    Ok(())
}

async fn all_agree(all: &[Case], proxy: &Proxy) -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for case in all {
        if let Err(error) = case.judge(proxy).await {
            complaints.push(format!("{}: {error:#}", case.sentence));
        }
    }
    ensure!(complaints.is_empty(), "{} of {}: {}", complaints.len(), all.len(), complaints.join("; "));
    Ok(())
}

impl Case {
    fn text(&self, pointer: &str) -> &str {
        self.secret.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.text("/metadata/namespace"))
    }

    async fn judge(&self, proxy: &Proxy) -> anyhow::Result<()> {
        let collection = self.collection();
        let answer = match self.does {
            Operation::Create => {
                // A Secret with this name may exist for the deletions.
                let mut secret = self.secret.clone();
                if let Some(name) = secret.pointer_mut("/metadata/name") {
                    *name = json!(format!("{}-new", self.text("/metadata/name")));
                }
                proxy.send_as(&self.who, "POST", &format!("{collection}?dryRun=All"), &secret).await?
            }
            Operation::Delete => {
                let path = format!("{collection}/{}?dryRun=All", self.text("/metadata/name"));
                proxy.send_as(&self.who, "DELETE", &path, &json!({})).await?
            }
        };
        self.compare(&answer)
    }

    fn compare(&self, answer: &Answer) -> anyhow::Result<()> {
        let message = answer.message();
        let told = || format!("the response was {} {message:?}", answer.status);
        match &self.because {
            None => ensure!(answer.is_well(), told()),
            Some(because) => {
                let end = format!("denied request: {because}");
                ensure!(answer.status == 403 && message.contains("millwright-bootstrap-tokens"), told());
                ensure!(message.ends_with(&end), told());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows DEP-9.
    #[test]
    fn the_token_corpus_has_allowed_and_denied_cases_per_action() {
        let all = read().unwrap();
        for does in [Operation::Create, Operation::Delete] {
            for denied in [true, false] {
                assert!(all.iter().any(|case| case.does == does && case.because.is_some() == denied), "{does:?}");
            }
        }
    }
}
