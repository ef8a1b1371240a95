//! Sends the corpus of valid and invalid objects (`crates/api/tests/corpus`) to the admission policies of
//! kube-apiserver. A unit test next to the corpus applies the controllers' validation to the same files, so the results
//! are equal.

use std::fs;

use anyhow::{Context, bail, ensure};
use json_patch::merge;
use serde_json::Value;

use super::web::{Answer, Proxy};
use crate::workspace::root;

const KINDS: [(&str, &str); 4] = [
    ("machine", "machines"),
    ("machineset", "machinesets"),
    ("machinedeployment", "machinedeployments"),
    ("machineclass", "machineclasses"),
];

/// Returns all kinds of the corpus.
pub(super) fn plurals() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(_, plural)| *plural)
}

/// How the bindings handle an invalid object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Warn,
    Deny,
}

impl Mode {
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Warn => "deploy/admission/warn",
            Self::Deny => "deploy/admission/deny",
        }
    }
}

/// Expected result for an object.
#[derive(Debug)]
enum Admission {
    Valid,
    /// Rejected by a policy with this message; `None` if the message is not checked.
    Unusable(Option<String>),
    /// Rejected by the schema of the CRD, before any policy is evaluated.
    Schema,
}

/// One object of the corpus.
#[derive(Debug)]
pub(super) struct Case {
    plural: &'static str,
    sentence: String,
    object: Value,
    verdict: Admission,
}

/// Reads the corpus.
pub(super) fn read() -> anyhow::Result<Vec<Case>> {
    let mut all = Vec::new();
    for (file, plural) in KINDS {
        let path = root().join(format!("crates/api/tests/corpus/{file}.yaml"));
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let corpus: Value = serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
        let (base, cases) = (corpus.get("base").context("no base")?, corpus.get("cases").and_then(Value::as_array));
        for case in cases.context("no cases")? {
            all.push(read_case(plural, base, case).with_context(|| format!("{file}: {case}"))?);
        }
    }
    Ok(all)
}

fn read_case(plural: &'static str, base: &Value, case: &Value) -> anyhow::Result<Case> {
    let text = |field: &str| case.get(field).and_then(Value::as_str);
    let mut object = base.clone();
    merge(&mut object, case.get("change").context("no change")?);
    let because = text("because");
    let verdict = match text("verdict").context("no verdict")? {
        "valid" => Admission::Valid,
        "schema" => Admission::Schema,
        "invalid" | "unwise" | "unreadable" => Admission::Unusable(
            Some(because.context("the field because is missing")?.to_owned()).filter(|text| text != "any"),
        ),
        other => bail!("unknown verdict {other}"),
    };
    Ok(Case { plural, sentence: text("case").context("no name")?.to_owned(), object, verdict })
}

impl Case {
    /// Returns whether a policy rejects it.
    pub(super) fn is_rejected_by_policy(&self) -> bool {
        matches!(self.verdict, Admission::Unusable(_))
    }

    /// Returns its kind.
    pub(super) fn plural(&self) -> &'static str {
        self.plural
    }

    /// Sends it to the API server as a dry run, and compares the response.
    pub(super) async fn judge(&self, proxy: &Proxy, mode: Mode) -> anyhow::Result<()> {
        let path = format!(
            "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/{}?dryRun=All&fieldValidation=Ignore",
            self.plural
        );
        let answer = proxy.send("POST", &path, &self.object).await?;
        self.compare(&answer, mode).with_context(|| format!("{}, {}", self.plural, self.sentence))
    }

    fn compare(&self, answer: &Answer, mode: Mode) -> anyhow::Result<()> {
        let (message, warnings) = (answer.message(), answer.warnings());
        let by_policy = message.contains("ValidatingAdmissionPolicy");
        let told = || format!("the response was {} {message:?} with {warnings:?}", answer.status);
        match (&self.verdict, mode) {
            (Admission::Valid, _) => ensure!(answer.is_well() && warnings.is_empty(), told()),
            (Admission::Schema, _) => ensure!(!answer.is_well() && !by_policy, told()),
            (Admission::Unusable(because), Mode::Deny) => {
                let end = format!("denied request: {}", because.as_deref().unwrap_or_default());
                ensure!(answer.status == 422 && by_policy, told());
                ensure!(because.is_none() || message.ends_with(&end), told());
            }
            (Admission::Unusable(because), Mode::Warn) => {
                let name = format!("millwright-{}", self.plural);
                let start = format!("Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': ");
                let [warning] = warnings.as_slice() else { bail!(told()) };
                let text = warning.strip_prefix(&start).with_context(told)?;
                ensure!(answer.is_well() && because.as_deref().is_none_or(|because| because == text), told());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows DEP-1.
    #[test]
    fn the_corpus_has_valid_and_invalid_objects_of_every_kind() {
        let all = read().unwrap();
        for (_, plural) in KINDS {
            let of_kind = || all.iter().filter(|case| case.plural == plural);
            assert!(of_kind().any(|case| matches!(case.verdict, Admission::Valid)), "{plural}");
            assert!(of_kind().any(Case::is_rejected_by_policy), "{plural}");
            assert!(of_kind().any(|case| matches!(case.verdict, Admission::Schema)), "{plural}");
        }
    }
}
