//! What is left to do once a server runs: addresses of pods may be used on its ports.
//!
//! Neutron drops what is sent from an address that is not the port's own. The reference writes each network of pods as the only one, so
//! that of two the last wins; here the networks that are missing are added to those that are there, in one request a port.

use driver::DriverError;
use driver_common::codes::During;
use serde_json::{Value, json};

use crate::answer::{Port, text};
use crate::bodies;
use crate::catalogue::Service;
use crate::ids::pod_networks;
use crate::request::{self, Ask};
use crate::session::Session;
use crate::spec::Spec;

/// A port on which not all addresses of pods may be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) port: String,
    /// All pairs that it is to have.
    pub(crate) pairs: Vec<Value>,
    pub(crate) missing: Vec<String>,
}

/// What is left to do for the ports of a server.
pub(crate) fn steps(ports: &[Port], networks: &[String], cidrs: &[String]) -> Vec<Step> {
    let in_pod_network = ports.iter().filter(|port| networks.contains(&port.network));
    let step = |port: &Port| {
        let has = |cidr: &&String| port.pairs.iter().any(|pair| text(pair, "ip_address") == cidr.as_str());
        let missing: Vec<String> = cidrs.iter().filter(|cidr| !has(cidr)).cloned().collect();
        let added = missing.iter().map(|cidr| json!({ "ip_address": cidr }));
        let pairs = port.pairs.iter().cloned().chain(added).collect();
        (!missing.is_empty()).then_some(Step { port: port.id.clone(), pairs, missing })
    };
    in_pod_network.filter_map(step).collect()
}

/// What is left to do for a server; `None` if it has no ports, which no living server is without.
pub(crate) async fn left(session: &Session<'_>, spec: &Spec, server: &str) -> Result<Option<Vec<Step>>, DriverError> {
    let networks = pod_networks(session, spec).await?;
    if networks.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let found = session.list(&request::ports_of(server), "ports", During::Elsewhere).await?;
    let ports: Vec<Port> = found.iter().filter_map(Port::read).filter(|port| port.device == server).collect();
    Ok((!ports.is_empty()).then(|| steps(&ports, &networks, &spec.pod_cidrs)))
}

pub(crate) async fn carry_out(session: &Session<'_>, step: &Step) -> Result<(), DriverError> {
    let ask = Ask::put(Service::Neutron, &format!("/ports/{}", step.port), bodies::address_pairs(&step.pairs));
    session.ask(&ask, During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(id: &str, network: &str, pairs: &[&str]) -> Port {
        let pairs = pairs.iter().map(|ip| json!({ "ip_address": ip, "mac_address": "fa:16:3e:00:00:01" })).collect();
        Port { id: id.into(), network: network.into(), pairs, ..Port::default() }
    }

    /// Shows OST-W2.
    #[test]
    fn networks_of_pods_that_are_missing_are_added_to_those_that_are_there_in_one_request() {
        let cidrs = ["100.96.0.0/11".to_owned(), "fd00::/64".to_owned()];
        let ports = [
            port("a", "pods", &[]),
            port("b", "pods", &["192.168.0.1", "fd00::/64"]),
            port("c", "pods", &["fd00::/64", "100.96.0.0/11"]),
            port("d", "storage", &[]),
        ];
        let steps = steps(&ports, &["pods".to_owned()], &cidrs);
        assert_eq!(steps.iter().map(|step| step.port.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(steps[0].missing, cidrs);
        let kept = json!({ "ip_address": "192.168.0.1", "mac_address": "fa:16:3e:00:00:01" });
        assert_eq!((steps[1].pairs.len(), &steps[1].pairs[0], steps[1].missing.as_slice()), (3, &kept, &cidrs[..1]));
    }
}
