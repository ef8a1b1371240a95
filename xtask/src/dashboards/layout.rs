//! What surrounds the queries: Grafana's JSON.

use serde_json::{Value, json};

use super::panels::{Dashboard, Panel, Unit};

/// Panels in a row; Grafana's grid is 24 wide.
const IN_A_ROW: usize = 2;
const WIDTH: usize = 24 / IN_A_ROW;
const HEIGHT: usize = 8;

/// The dashboard as Grafana imports it.
pub(super) fn of(dashboard: &Dashboard) -> Value {
    let panels: Vec<Value> = dashboard.panels.iter().enumerate().map(|(number, panel)| placed(number, panel)).collect();
    json!({
        "uid": format!("millwright-{}", dashboard.name),
        "title": format!("Millwright / {}", dashboard.title),
        "description": dashboard.about,
        "tags": ["millwright"],
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": { "from": "now-6h", "to": "now" },
        "timezone": "browser",
        "links": [{
            "type": "dashboards", "title": "Millwright", "tags": ["millwright"], "asDropdown": true, "includeVars": true, "keepTime": true,
        }],
        "templating": { "list": [data_source(), namespace()] },
        "panels": panels,
    })
}

fn data_source() -> Value {
    json!({ "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus" })
}

fn namespace() -> Value {
    let query = "label_values(millwright_leading, namespace)";
    json!({
        "name": "namespace", "label": "Namespace", "type": "query", "datasource": source(), "definition": query,
        "query": { "query": query, "refId": "namespace" },
        "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1, "current": { "text": "All", "value": "$__all" },
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn placed(number: usize, panel: &Panel) -> Value {
    let targets = panel.queries.iter().enumerate().map(|(place, (query, legend))| {
        let letter = char::from(b'A' + u8::try_from(place).unwrap_or_default());
        json!({ "refId": letter.to_string(), "datasource": source(), "expr": query, "legendFormat": legend, "range": true })
    });
    json!({
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source(),
        "gridPos": { "h": HEIGHT, "w": WIDTH, "x": number % IN_A_ROW * WIDTH, "y": number / IN_A_ROW * HEIGHT },
        "fieldConfig": {
            "defaults": {
                "unit": unit(panel.unit),
                "min": 0,
                "custom": { "drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "never" },
            },
            "overrides": [],
        },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi", "sort": "desc" } },
        "targets": targets.collect::<Vec<_>>(),
    })
}

/// Grafana's names of units.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "short",
        Unit::PerSecond => "ops",
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Cores => "none",
    }
}
