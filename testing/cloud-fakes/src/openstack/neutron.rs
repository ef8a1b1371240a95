//! Neutron: ports, networks and security groups.

use serde_json::{Value, json};

use super::answer::{Answer, page};
use super::cloud::Cloud;
use super::request::{Request, text};
use super::settings::Settings;
use super::things::Port;

impl Cloud {
    pub(super) fn neutron(&mut self, request: &Request, method: &str, path: &[&str]) -> Answer {
        let of_port = |id: &str| Answer::neutron(404, "PortNotFound", &format!("Port {id} could not be found."));
        match (method, path) {
            ("GET", ["networks"]) => known(request, "networks", Settings::NETWORK),
            ("GET", ["security-groups"]) => known(request, "security_groups", Settings::SECURITY_GROUP),
            ("GET", ["ports"]) => {
                let asked = ["name", "device_id", "network_id"];
                let fits = |port: &&Port| {
                    let has = [&port.name, &port.device, &port.network];
                    asked.iter().zip(has).all(|(key, has)| request.parameter(key).is_none_or(|value| value == has))
                };
                let found = self.ports.iter().filter(fits).map(Port::shown).collect();
                page("ports", found, request.parameter("marker"), self.settings.page)
            }
            ("POST", ["ports"]) => self.make_port(&request.body).unwrap_or_else(|refused| refused),
            ("GET", ["ports", id]) => match self.ports.iter().find(|port| port.id == *id) {
                Some(port) => Answer::ok(json!({ "port": port.shown() })),
                None => of_port(id),
            },
            ("DELETE", ["ports", id]) => {
                let before = self.ports.len();
                self.ports.retain(|port| port.id != *id);
                if self.ports.len() < before { Answer::empty(204) } else { of_port(id) }
            }
            ("PUT", ["ports", id, rest @ ..]) => match self.ports.iter_mut().find(|port| port.id == *id) {
                Some(port) => change(port, rest, &request.body),
                None => of_port(id),
            },
            _ => Answer::missing("The resource"),
        }
    }

    fn make_port(&mut self, body: &Value) -> Result<Answer, Answer> {
        let asked = body.get("port").ok_or_else(|| Answer::neutron(400, "HTTPBadRequest", "Unable to find 'port'"))?;
        let network = text(asked, "network_id");
        if network != Settings::NETWORK.1 {
            let message = format!("Network {network} could not be found.");
            return Err(Answer::neutron(404, "NetworkNotFound", &message));
        }
        let subnets = asked.get("fixed_ips").and_then(Value::as_array).into_iter().flatten();
        if let Some(subnet) = subnets.map(|ip| text(ip, "subnet_id")).find(|subnet| *subnet != Settings::SUBNET) {
            let message = format!("Invalid input for operation: Subnet {subnet} could not be found.");
            return Err(Answer::neutron(400, "InvalidInput", &message));
        }
        if self.ports.len() >= self.settings.ports {
            return Err(Answer::neutron(409, "OverQuota", "Quota exceeded for resources: ['port']."));
        }
        let port = Port {
            id: self.id("port"),
            name: text(asked, "name").to_owned(),
            network: network.to_owned(),
            description: text(asked, "description").to_owned(),
            pairs: pairs(asked),
            address: self.address(),
            ..Port::default()
        };
        let shown = port.shown();
        self.ports.push(port);
        Ok(Answer::new(201, json!({ "port": shown })))
    }
}

fn change(port: &mut Port, path: &[&str], body: &Value) -> Answer {
    if path == ["tags"] {
        let tags = body.get("tags").and_then(Value::as_array).into_iter().flatten();
        port.tags = tags.filter_map(Value::as_str).map(str::to_owned).collect();
        return Answer::ok(json!({ "tags": port.tags }));
    }
    if let Some(asked) = body.get("port").filter(|asked| asked.get("allowed_address_pairs").is_some()) {
        port.pairs = pairs(asked);
    }
    Answer::ok(json!({ "port": port.shown() }))
}

/// Each pair is given the MAC address of the port.
fn pairs(asked: &Value) -> Vec<Value> {
    let asked = asked.get("allowed_address_pairs").and_then(Value::as_array).into_iter().flatten();
    asked.map(|pair| json!({ "ip_address": text(pair, "ip_address"), "mac_address": "fa:16:3e:00:00:01" })).collect()
}

/// The only thing of its kind, if its name is asked for.
fn known(request: &Request, collection: &str, (name, id): (&str, &str)) -> Answer {
    let fits = request.parameter("name").is_none_or(|asked| asked == name);
    let found: Vec<Value> = fits.then(|| json!({ "id": id, "name": name })).into_iter().collect();
    Answer::ok(json!({ collection: found }))
}
