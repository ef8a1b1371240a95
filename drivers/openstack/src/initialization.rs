//! Initialization of a server: allowed address pairs for pod networks on its ports.
//!
//! Neutron drops packets from addresses that the port does not allow. The reference writes each pod network as the only
//! pair, so that of two networks the last remains. This driver adds the missing networks to the existing pairs, in one
//! request per port.

use driver::DriverError;
use driver_common::codes::During;
use serde_json::{Value, json};

use crate::answer::{Port, text};
use crate::bodies;
use crate::catalogue::Service;
use crate::ids::pod_networks;
use crate::request::{self, ApiRequest};
use crate::session::Session;
use crate::spec::Spec;

/// A port without some of the pod networks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) port: String,
    /// All address pairs after the update.
    pub(crate) pairs: Vec<Value>,
    pub(crate) missing: Vec<String>,
}

/// Returns the pending steps for the ports of a server.
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

/// Returns the pending steps of a server, or `None` if it has no ports: every running server has at least one.
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
    let api_request =
        ApiRequest::put(Service::Neutron, &format!("/ports/{}", step.port), bodies::address_pairs(&step.pairs));
    session.execute(&api_request, During::Elsewhere).await.map(drop).map_err(|failed| failed.error)
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
    fn missing_pod_networks_are_added_in_one_request() {
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
