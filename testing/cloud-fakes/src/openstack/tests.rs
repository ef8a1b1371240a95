//! What the cloud does is what a real one was seen to do.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

const NOW: Duration = Duration::from_secs(1);

struct Asker {
    cloud: Cloud,
    token: String,
}

impl Asker {
    fn new(settings: Settings) -> Self {
        let mut cloud = Cloud::new(settings);
        let user = json!({ "name": "mcm", "password": "mcm-secret", "domain": { "name": "Default" } });
        let auth = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": { "name": "shoot", "domain": { "name": "Default" } } },
        } });
        let asked = Request::read("POST", "/identity/v3/auth/tokens", None, "127.0.0.1:1", auth.to_string().as_bytes());
        let answer = cloud.answer(NOW, &asked);
        assert_eq!(answer.status, 201);
        Self { cloud, token: answer.subject.unwrap() }
    }

    fn ask(&mut self, now: Duration, method: &str, path: &str, body: &Value) -> Answer {
        let asked = Request::read(method, path, Some(&self.token), "127.0.0.1:1", body.to_string().as_bytes());
        self.cloud.answer(now, &asked)
    }

    fn make(&mut self, changes: &Value) -> Answer {
        let mut server = json!({
            "name": "m", "flavorRef": "f-1", "availability_zone": "nova", "key_name": "k", "networks": [{ "uuid": "net-1" }],
        });
        server.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        self.ask(NOW, "POST", "/compute/v2.1/servers", &json!({ "server": server }))
    }
}

#[test]
fn same_name_makes_two_servers_with_a_port_each() {
    let mut asker = Asker::new(Settings::default());
    for _ in 0..2 {
        assert_eq!(asker.make(&json!({})).status, 202);
    }
    let found = asker.ask(NOW, "GET", "/compute/v2.1/servers/detail?name=%5Em%24", &Value::Null).body;
    assert_eq!(found["servers"].as_array().unwrap().len(), 2);
    assert_eq!(asker.cloud.ports.len(), 2);
    let id = found["servers"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(asker.ask(NOW, "DELETE", &format!("/compute/v2.1/servers/{id}"), &Value::Null).status, 204);
    assert_eq!((asker.cloud.servers.len(), asker.cloud.ports.len()), (1, 1));
    assert_eq!(asker.ask(NOW, "GET", &format!("/compute/v2.1/servers/{id}"), &Value::Null).status, 404);
}

#[test]
fn a_port_that_was_made_beforehand_outlives_its_server() {
    let mut asker = Asker::new(Settings::default());
    let port = json!({ "port": { "name": "m", "network_id": "net-1", "fixed_ips": [{ "subnet_id": "sub-1" }] } });
    let made = asker.ask(NOW, "POST", "/network/v2.0/ports", &port);
    let id = made.body["port"]["id"].as_str().unwrap().to_owned();
    assert_eq!((made.status, asker.make(&json!({ "networks": [{ "port": id }] })).status), (201, 202));
    assert_eq!(asker.make(&json!({ "networks": [{ "port": id }] })).status, 409, "it is in use");
    let server = asker.cloud.ports[0].device.clone();
    asker.ask(NOW, "DELETE", &format!("/compute/v2.1/servers/{server}"), &Value::Null);
    assert_eq!((asker.cloud.ports.len(), asker.cloud.ports[0].device.as_str()), (1, ""));
}

#[test]
fn quota_errors_differ_by_service_and_no_valid_host_is_late() {
    let mut asker = Asker::new(Settings { servers: 1, ports: 0, volumes: 0, ..Settings::default() });
    assert_eq!(asker.make(&json!({ "flavorRef": "f-2" })).status, 202);
    let list = asker.ask(NOW, "GET", "/compute/v2.1/servers/detail", &Value::Null).body;
    assert_eq!((&list["servers"][0]["status"], list["servers"][0].get("fault")), (&json!("ERROR"), None));
    let path = format!("/compute/v2.1/servers/{}", list["servers"][0]["id"].as_str().unwrap());
    let fault = asker.ask(NOW, "GET", &path, &Value::Null).body["server"]["fault"]["message"].clone();
    assert!(fault.as_str().unwrap().starts_with("No valid host was found"));
    let quota = asker.make(&json!({}));
    assert_eq!(quota.status, 403);
    assert!(quota.text().contains("Quota exceeded for instances"));
    let port = json!({ "port": { "network_id": "net-1" } });
    assert_eq!(asker.ask(NOW, "POST", "/network/v2.0/ports", &port).status, 409);
    let volume = json!({ "volume": { "volume_type": "fake", "size": 1 } });
    assert_eq!(asker.ask(NOW, "POST", "/volume/v3/p-1/volumes", &volume).status, 413);
    assert_eq!(asker.make(&json!({ "availability_zone": "mars" })).status, 400);
    assert_eq!(asker.make(&json!({ "flavorRef": "nope" })).status, 400);
}

#[test]
fn a_token_that_was_revoked_or_has_ended_is_refused() {
    let mut asker = Asker::new(Settings::default());
    assert_eq!(asker.ask(NOW + Duration::from_hours(2), "GET", "/compute/v2.1/flavors", &Value::Null).status, 401);
    asker.cloud.revoke_tokens();
    assert_eq!(asker.ask(NOW, "GET", "/compute/v2.1/flavors", &Value::Null).status, 401);
}

#[test]
fn pages_of_a_list_follow_each_other() {
    let mut asker = Asker::new(Settings { page: 2, ..Settings::default() });
    for _ in 0..3 {
        asker.make(&json!({}));
    }
    let first = asker.ask(NOW, "GET", "/compute/v2.1/servers/detail", &Value::Null).body;
    assert_eq!((first["servers"].as_array().unwrap().len(), &first["servers_links"][0]["rel"]), (2, &json!("next")));
    let last = first["servers"][1]["id"].as_str().unwrap().to_owned();
    let second = asker.ask(NOW, "GET", &format!("/compute/v2.1/servers/detail?marker={last}"), &Value::Null).body;
    assert_eq!((second["servers"].as_array().unwrap().len(), second.get("servers_links")), (1, None));
}
