//! Nova: servers and flavors.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, page};
use super::cloud::Cloud;
use super::request::{Request, text};
use super::settings::{Names, Settings};
use super::things::{Server, texts};

const NO_HOST: &str = "No valid host was found. There are not enough hosts available.";

impl Cloud {
    pub(super) fn nova(&mut self, now: Duration, request: &Request, method: &str, path: &[&str]) -> Answer {
        match (method, path) {
            ("GET", ["flavors"]) => {
                let flavors = [("f-1", Settings::FLAVOR), ("f-2", Settings::HUGE_FLAVOR)];
                Answer::ok(json!({ "flavors": flavors.map(|(id, name)| json!({ "id": id, "name": name })) }))
            }
            ("GET", ["servers", "detail"]) => {
                let named = |server: &&Server| {
                    request.parameter("name").is_none_or(|name| self.settings.names.find(name, &server.name))
                };
                // Lists do not say why a server failed.
                let without_fault = |server: &Server| {
                    let mut shown = server.shown(now, &self.ports);
                    shown.as_object_mut().map(|shown| shown.remove("fault"));
                    shown
                };
                let found = self.servers.iter().filter(named).map(without_fault).collect();
                page("servers", found, request.parameter("marker"), self.settings.page)
            }
            ("GET", ["servers", id]) => match self.servers.iter().find(|server| server.id == *id) {
                Some(server) => Answer::ok(json!({ "server": server.shown(now, &self.ports) })),
                None => Answer::missing(&format!("Instance {id}")),
            },
            ("DELETE", ["servers", id]) => {
                let gone = now + self.settings.deletes_for;
                match self.servers.iter_mut().find(|server| server.id == *id) {
                    Some(server) => {
                        server.gone.get_or_insert(gone);
                        Answer::empty(204)
                    }
                    None => Answer::missing(&format!("Instance {id}")),
                }
            }
            ("POST", ["servers"]) => self.make_server(now, &request.body).unwrap_or_else(|refused| refused),
            _ => Answer::missing("The resource"),
        }
    }

    fn make_server(&mut self, now: Duration, body: &Value) -> Result<Answer, Answer> {
        let asked = body.get("server").ok_or_else(|| Answer::bad("Invalid input: 'server' is a required property"))?;
        let flavor = text(asked, "flavorRef");
        if !["f-1", "f-2"].contains(&flavor) {
            return Err(Answer::bad(&format!("Flavor {flavor} could not be found.")));
        }
        if text(asked, "availability_zone") != Settings::ZONE {
            return Err(Answer::bad("The requested availability zone is not available"));
        }
        if text(asked, "key_name") != Settings::KEY {
            return Err(Answer::bad("Invalid key_name provided."));
        }
        let (used, limit) = (self.servers.len(), self.settings.servers);
        if used >= limit {
            let message =
                format!("Quota exceeded for instances: Requested 1, but already used {used} of {limit} instances");
            return Err(Answer::error(403, "forbidden", &message));
        }
        for port in named(asked, "networks", "port") {
            match self.ports.iter().find(|one| one.id == port) {
                None => return Err(Answer::bad(&format!("Port {port} could not be found."))),
                Some(one) if !one.device.is_empty() => {
                    return Err(Answer::error(409, "conflictingRequest", &format!("Port {port} is still in use.")));
                }
                Some(_) => {}
            }
        }
        self.check_disk(asked)?;
        let id = self.id("s");
        let room = self.servers.iter().filter(|server| server.fault.is_none()).count() < self.settings.room;
        let fault = (flavor == "f-2" || !room).then(|| NO_HOST.to_owned());
        if fault.is_none() {
            for port in named(asked, "networks", "port") {
                self.ports.iter_mut().filter(|one| one.id == port).for_each(|one| one.device.clone_from(&id));
            }
        }
        let of_volume = |disk: &&Value| text(disk, "source_type") == "volume";
        for disk in list(asked, "block_device_mapping_v2").iter().filter(of_volume) {
            for volume in self.volumes.iter_mut().filter(|volume| volume.id == text(disk, "uuid")) {
                (volume.server, volume.status) = (id.clone(), "reserved");
                volume.ends_with_server = disk.get("delete_on_termination") == Some(&Value::Bool(true));
            }
        }
        self.servers.push(Server {
            id: id.clone(),
            name: text(asked, "name").to_owned(),
            metadata: texts(asked, "metadata"),
            asked: body.clone(),
            made: now,
            built: now + self.settings.builds_for,
            fault,
            gone: None,
            plugged: false,
        });
        Ok(Answer::new(202, json!({ "server": { "id": id } })))
    }

    fn check_disk(&self, asked: &Value) -> Result<(), Answer> {
        for disk in list(asked, "block_device_mapping_v2").iter().filter(|disk| text(disk, "source_type") == "volume") {
            let id = text(disk, "uuid");
            let usable = self.volumes.iter().any(|volume| volume.id == id && volume.status == "available");
            if !usable {
                return Err(Answer::bad(&format!("Block Device Mapping is Invalid: failed to get volume {id}.")));
            }
        }
        Ok(())
    }
}

/// The networks in which Nova makes a port.
pub(super) fn networks(body: &Value) -> Vec<String> {
    body.get("server").map(|asked| named(asked, "networks", "uuid")).unwrap_or_default()
}

fn named(asked: &Value, key: &str, what: &str) -> Vec<String> {
    list(asked, key).iter().map(|item| text(item, what).to_owned()).filter(|id| !id.is_empty()).collect()
}

fn list<'a>(asked: &'a Value, key: &str) -> &'a [Value] {
    asked.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl Names {
    /// Whether a server of this name is found.
    fn find(self, asked: &str, name: &str) -> bool {
        match self {
            Self::Pattern => matches(asked, name),
            Self::Letters => name.contains(asked),
            Self::Never => false,
        }
    }
}

/// Nova takes a name for a pattern: without anchors it matches in the middle, and a dot matches anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some(inner) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) else {
        return name.contains(pattern);
    };
    inner.chars().count() == name.chars().count() && inner.chars().zip(name.chars()).all(|(p, n)| p == '.' || p == n)
}
