//! Services and endpoints, as they are listed.

use serde_json::{Value, json};

use super::look::{Look, NONE};

pub(super) const SERVICES: &[&str] = &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"];
pub(super) const ENDPOINTS: &[&str] = &["Name", "Endpoints", "Age"];

/// How many addresses are told before the rest is only counted.
const TOLD: usize = 3;

pub(super) fn service(service: Look<'_>) -> Vec<Value> {
    let own = service.list("/spec/clusterIPs").next().and_then(|ip| ip.value().as_str());
    vec![
        service.name(),
        json!(service.text("/spec/type")),
        json!(own.unwrap_or_else(|| service.text_or("/spec/clusterIP", NONE))),
        json!(external(service)),
        json!(ports(service)),
        service.age(),
        json!(service.labels("/spec/selector")),
    ]
}

fn external(service: Look<'_>) -> String {
    let own: Vec<&str> = service.list("/spec/externalIPs").filter_map(|ip| ip.value().as_str()).collect();
    let balanced = service.list("/status/loadBalancer/ingress");
    let balanced: Vec<&str> =
        balanced.map(|i| i.text_or("/ip", i.text("/hostname"))).filter(|i| !i.is_empty()).collect();
    match service.text("/spec/type") {
        "ExternalName" => service.text("/spec/externalName").to_owned(),
        "LoadBalancer" if balanced.is_empty() && own.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => balanced.into_iter().chain(own).collect::<Vec<_>>().join(","),
        _ if own.is_empty() => NONE.to_owned(),
        _ => own.join(","),
    }
}

fn ports(service: Look<'_>) -> String {
    let port = |port: Look<'_>| {
        let (number, protocol) = (port.number("/port"), port.text("/protocol"));
        match port.number("/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    };
    let ports: Vec<String> = service.list("/spec/ports").map(port).collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

pub(super) fn endpoints(endpoints: Look<'_>) -> Vec<Value> {
    let mut addresses = Vec::new();
    for subset in endpoints.list("/subsets") {
        for port in subset.list("/ports") {
            let with_port = |ip: Look<'_>| format!("{}:{}", ip.text("/ip"), port.number("/port"));
            addresses.extend(subset.list("/addresses").map(with_port));
        }
    }
    let told = addresses.iter().take(TOLD).cloned().collect::<Vec<_>>().join(",");
    let shown = match addresses.len().saturating_sub(TOLD) {
        0 if addresses.is_empty() => NONE.to_owned(),
        0 => told,
        more => format!("{told} + {more} more..."),
    };
    vec![endpoints.name(), json!(shown), endpoints.age()]
}
