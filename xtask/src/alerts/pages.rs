//! Alerts that cannot fire and runbooks that nobody finds are worse than none: they are trusted. So each alert asks for metrics that the
//! code has, and each has its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use e2e::workspace::root;

fn rules() -> Vec<Value> {
    let text = fs::read_to_string(root().join("deploy/alerts/rules.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Every word of an expression that is a metric of ours, without what histograms add.
pub(crate) fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let ours = words.filter(|word| ["mcm_", "millwright_", "rest_client_"].iter().any(|start| word.starts_with(start)));
    let plain = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    ours.map(plain).collect()
}

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // What only tests name does not exist for an operator.
            if !path.ends_with("tests") {
                sources(&path, into);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Shows DEP-5.
#[test]
fn every_metric_that_an_alert_asks_for_is_in_the_code() {
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        for metric in metrics_in(expression) {
            assert!(
                code.contains(&format!("\"{metric}\"")),
                "{} queries {metric}, which is not exported",
                rule["alert"]
            );
        }
    }
}

/// Shows DEP-5.
#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut named = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let url = rule["annotations"]["runbook_url"].as_str().unwrap_or_default();
        assert_eq!(url, format!("https://millwright.invalid/docs/operations/runbooks/{name}.md"));
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        assert!(named.insert(name.to_owned()), "{name} is there twice");
    }
    let folder = root().join("docs/operations/runbooks");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let pages: BTreeSet<String> = files
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|page| page != "README")
        .collect();
    assert_eq!(pages, named);
    for page in pages {
        assert!(index.contains(&format!("]({page}.md)")), "the list of runbooks lacks {page}");
        let text = fs::read_to_string(folder.join(format!("{page}.md"))).unwrap();
        assert!(text.starts_with(&format!("# {page}: ")) && text.contains("**What it means.**"), "{page}");
    }
}

/// Shows DEP-5.
#[test]
fn every_alert_is_tried_where_it_must_fire_and_where_it_must_be_silent() {
    let text = fs::read_to_string(root().join("deploy/alerts/tests.yaml")).unwrap();
    let tests: Value = serde_saphyr::from_str(&text).unwrap();
    let tests = tests["tests"].as_array().unwrap();
    let tries: Vec<&Value> = tests.iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap()).collect();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let of_it: Vec<usize> = tries
            .iter()
            .filter(|one| one["alertname"] == *name)
            .map(|one| one["exp_alerts"].as_array().unwrap().len())
            .collect();
        assert!(of_it.contains(&0), "nothing says when {name} is silent");
        assert!(of_it.iter().any(|&fired| fired > 0), "nothing says when {name} fires");
    }
}

/// Shows DEP-5.
#[test]
fn rules_are_handed_over_plain_with_their_summaries() {
    let text = fs::read_to_string(root().join("deploy/alerts/rules.yaml")).unwrap();
    let plain = super::plain(&text).unwrap();
    let first = &plain["groups"][0]["rules"][0];
    assert_eq!(first["alert"], "MillwrightDown");
    assert_eq!(first["annotations"], serde_json::json!({ "summary": "No {{ $labels.job }} is running." }));
}

#[test]
fn metrics_are_found_in_an_expression() {
    let found = metrics_in("sum(rate(mcm_a_seconds_count[5m])) > max by (name) (millwright_b{c=\"d\"}) and up == 1");
    assert_eq!(found, ["mcm_a_seconds".to_owned(), "millwright_b".to_owned()].into());
}
