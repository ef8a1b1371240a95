//! Alerts that cannot fire and runbooks that nobody finds are worse than none: they are trusted. So each alert asks for metrics that the
//! code has, and each has its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::workspace::root;

fn rules() -> Vec<Value> {
    let text = fs::read_to_string(root().join("deploy/alerts/rules.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Every word of an expression that is a metric of ours, without what histograms add.
fn metrics_in(expression: &str) -> BTreeSet<String> {
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

#[test]
fn every_metric_that_an_alert_asks_for_is_in_the_code() {
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        for metric in metrics_in(expression) {
            assert!(
                code.contains(&format!("\"{metric}\"")),
                "{} asks for {metric}, which nobody exports",
                rule["alert"]
            );
        }
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut named = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        assert_eq!(rule["annotations"]["runbook"], format!("docs/runbooks/{name}.md"));
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        assert!(named.insert(name.to_owned()), "{name} is there twice");
    }
    let folder = root().join("docs/runbooks");
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

#[test]
fn metrics_are_found_in_an_expression() {
    let found = metrics_in("sum(rate(mcm_a_seconds_count[5m])) > max by (name) (millwright_b{c=\"d\"}) and up == 1");
    assert_eq!(found, ["mcm_a_seconds".to_owned(), "millwright_b".to_owned()].into());
}
