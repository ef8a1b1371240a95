use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::alerts::metrics_in;

#[test]
fn the_dashboards_are_those_of_the_table() {
    for dashboard in DASHBOARDS {
        let stored = root().join("deploy/dashboards").join(format!("{}.json", dashboard.name));
        assert_eq!(fs::read_to_string(stored).unwrap(), text(dashboard).unwrap(), "run `cargo xtask dashboards`");
    }
}

#[test]
fn every_metric_that_a_dashboard_asks_for_is_on_the_page_of_metrics() {
    // The page is held to the code by a test of its own.
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let documented: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
    for query in DASHBOARDS.iter().flat_map(Dashboard::queries) {
        for metric in metrics_in(query) {
            assert!(documented.contains(&*metric), "{query} queries {metric}, which is not exported");
        }
    }
}

#[test]
fn every_dashboard_is_mounted_by_the_kustomization() {
    let text = fs::read_to_string(root().join("deploy/dashboards/kustomization.yaml")).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let files = kustomization["configMapGenerator"][0]["files"].as_array().unwrap();
    let named: BTreeSet<String> = files.iter().map(|file| file.as_str().unwrap().to_owned()).collect();
    assert_eq!(named, DASHBOARDS.iter().map(|dashboard| format!("{}.json", dashboard.name)).collect());
}

#[test]
fn panels_stand_side_by_side_and_cover_nothing() {
    for dashboard in DASHBOARDS {
        let json = layout::of(dashboard);
        let places: BTreeSet<String> =
            json["panels"].as_array().unwrap().iter().map(|panel| panel["gridPos"].to_string()).collect();
        assert_eq!(places.len(), dashboard.panels.len(), "{}", dashboard.name);
    }
}

#[test]
fn a_query_is_parsed_as_grafana_sends_it() {
    assert_eq!(
        without_variables("rate(a{namespace=~\"$namespace\"}[$__rate_interval])"),
        "rate(a{namespace=~\".*\"}[5m])"
    );
}
