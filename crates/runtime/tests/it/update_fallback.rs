//! Tests of patches with roles that grant `get` and `update` only, with the in-memory API server.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::view::NodeView;
use fake_apiserver::faults::{Faults, Rule, Verb};
use fake_apiserver::{Options, Server};
use kube::api::{Patch, PatchParams};
use runtime::client::Api;
use runtime::client::{ApiError, ClientSpec, ErrorClass, UserAgent, in_process};
use runtime::logs::{LogFormat, Verbosity, subscriber};
use runtime::{Clock, Metrics};
use serde_json::{Value, json};

/// Collects log lines of this thread.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn open(&self) -> tracing::subscriber::DefaultGuard {
        // With one subscriber in the process, the first thread would disable the log lines of all threads.
        static OTHER: OnceLock<tracing::Dispatch> = OnceLock::new();
        OTHER.get_or_init(|| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default()));
        let page = self.clone();
        tracing::subscriber::set_default(subscriber(LogFormat::Text, Verbosity(0), Clock::system(), move || {
            page.clone()
        }))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Page {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct UpdateFixture {
    server: Server,
    metrics: Metrics,
    nodes: Api<NodeView>,
}

impl UpdateFixture {
    fn new() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let server = Server::new(Options::new(Arc::new(move || clock.now()), 1));
        let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { "theirs": "1" } },
            "spec": { "podCIDR": "10.0.0.0/24", "providerID": "x:///1" },
            "status": { "nodeInfo": { "kubeletVersion": "v1.36.0" }, "conditions": [ready] },
        });
        server.insert(&node).unwrap();
        let metrics = Metrics::new().unwrap();
        let spec = ClientSpec::new(UserAgent::new("test", "v1", "none"));
        let client = in_process(server.service(), "default", &spec, &metrics.rest);
        Self { server, metrics, nodes: Api::all(client) }
    }

    fn faults(&self) -> &Faults {
        self.server.faults()
    }

    fn on_patch_of_nodes(&self) -> Rule {
        self.faults().on(Verb::Patch).of("nodes")
    }

    /// Returns the stored node.
    fn node(&self) -> Value {
        self.server.object("nodes", "", "n").map(|object| (*object).clone()).unwrap()
    }

    async fn label(&self, value: &str, guard: Value) -> Result<NodeView, ErrorClass> {
        let mut patch = json!({ "metadata": guard });
        patch["metadata"]["labels"] = json!({ "ours": value });
        let answer = self.nodes.patch("n", &PatchParams::default(), &Patch::Merge(&patch)).await;
        answer.map_err(|error| ApiError::of(&error).class)
    }

    /// Returns the requests since the last call, as `verb code`.
    fn asked(&self) -> Vec<String> {
        let asked = self.server.requests().iter().map(|e| format!("{} {}", e.tally.verb, e.tally.code)).collect();
        self.server.forget_requests();
        asked
    }
}

/// Shows ROL-3.
#[tokio::test(start_paused = true)]
async fn update_replaces_a_forbidden_patch_and_keeps_unknown_keys() {
    let fixture = UpdateFixture::new();
    fixture.on_patch_of_nodes().forbid();
    fixture.label("yes", json!({})).await.unwrap();
    assert_eq!(fixture.asked(), ["patch 403", "get 200", "update 200"]);
    let node = fixture.node();
    assert_eq!(node["metadata"]["labels"], json!({ "theirs": "1", "ours": "yes" }));
    assert_eq!((&node["spec"]["podCIDR"], &node["spec"]["providerID"]), (&json!("10.0.0.0/24"), &json!("x:///1")));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
}

/// Shows ROL-4.
#[tokio::test(start_paused = true)]
async fn missing_permission_is_cached_and_checked_again_later() {
    let fixture = UpdateFixture::new();
    let rule = fixture.on_patch_of_nodes().forbid();
    fixture.label("1", json!({})).await.unwrap();
    fixture.asked();
    fixture.label("2", json!({})).await.unwrap();
    assert_eq!(fixture.asked(), ["get 200", "update 200"]);
    let shown = r#"millwright_permission_missing{resource="nodes",verb="patch"} 1"#;
    assert!(fixture.metrics.encode().unwrap().contains(shown));

    tokio::time::sleep(Duration::from_mins(11)).await;
    fixture.label("3", json!({})).await.unwrap();
    assert_eq!(fixture.asked(), ["patch 403", "get 200", "update 200"]);
    fixture.faults().withdraw(rule);
    tokio::time::sleep(Duration::from_mins(11)).await;
    fixture.label("4", json!({})).await.unwrap();
    assert_eq!(fixture.asked(), ["patch 200"]);
    assert!(!fixture.metrics.encode().unwrap().contains(shown));
}

/// Shows ROL-4.
#[tokio::test(start_paused = true)]
async fn missing_permission_is_logged_once_per_kind() {
    let (fixture, page) = (UpdateFixture::new(), Page::default());
    let _log = page.open();
    let rule = fixture.on_patch_of_nodes().forbid();
    let refuse_status = fixture.faults().on([Verb::Patch, Verb::Update]).of("nodes").subresource("status").forbid();
    let capacity = json!({ "status": { "capacity": { "gpu": "1" } } });
    let said = |what: &str| page.text().matches(what).count();
    for n in 0..4 {
        fixture.label(&n.to_string(), json!({})).await.unwrap();
        let written = fixture.nodes.patch_status("n", &PatchParams::default(), &Patch::Merge(&capacity)).await;
        assert_eq!(ApiError::of(&written.unwrap_err()).class, ErrorClass::Forbidden);
        // The permission is checked again after this time.
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!((said("may not patch nodes;"), said("may neither patch nodes/status")), (1, 1), "{}", page.text());
    }
    fixture.faults().withdraw(rule);
    fixture.faults().withdraw(refuse_status);
    fixture.label("granted", json!({})).await.unwrap();
    fixture.on_patch_of_nodes().forbid();
    fixture.label("taken", json!({})).await.unwrap();
    assert_eq!(said("may not patch nodes;"), 2);
}

/// Shows ROL-3.
#[tokio::test(start_paused = true)]
async fn a_status_is_replaced_alone_and_the_conditions_of_others_stay() {
    let fixture = UpdateFixture::new();
    fixture.on_patch_of_nodes().subresource("status").forbid();
    let ours = json!({ "type": "Ours", "status": "True", "reason": null, "lastHeartbeatTime": null, "lastTransitionTime": null });
    let patch = json!({ "status": { "conditions": [ours], "capacity": { "gpu": "1" } } });
    fixture.nodes.patch_status("n", &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
    assert_eq!(fixture.asked(), ["patch 403", "get 200", "update 200"]);
    let node = fixture.node();
    let kinds: Vec<_> = node["status"]["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
    assert_eq!(kinds, ["Ready", "Ours"]);
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
    // Patches of the object itself are still allowed.
    fixture.label("1", json!({})).await.unwrap();
    assert_eq!(fixture.asked(), ["patch 200"]);
}

/// Shows ROL-3.
#[tokio::test(start_paused = true)]
async fn conflict_is_retried_unless_the_patch_has_a_version() {
    let fixture = UpdateFixture::new();
    fixture.on_patch_of_nodes().forbid();
    fixture.faults().on(Verb::Update).of("nodes").times(2).conflict();
    fixture.label("1", json!({})).await.unwrap();
    assert_eq!(
        fixture.asked(),
        ["patch 403", "get 200", "update 409", "get 200", "update 409", "get 200", "update 200"]
    );

    fixture.faults().on(Verb::Update).of("nodes").conflict();
    assert_eq!(fixture.label("2", json!({})).await.unwrap_err(), ErrorClass::Conflict);
    assert_eq!(fixture.asked().len(), 10, "limited to five attempts");
    let version = fixture.node()["metadata"]["resourceVersion"].clone();
    assert_eq!(fixture.label("2", json!({ "resourceVersion": version })).await.unwrap_err(), ErrorClass::Conflict);
    assert_eq!(fixture.asked(), ["get 200", "update 409"]);
}

/// Shows ROL-3.
#[tokio::test(start_paused = true)]
async fn guards_hold_on_the_long_way_round_too() {
    let fixture = UpdateFixture::new();
    fixture.on_patch_of_nodes().forbid();
    let before = fixture.node();
    let old = fixture.label("1", json!({ "resourceVersion": "1" })).await;
    let other = fixture.label("1", json!({ "uid": "another" })).await;
    assert_eq!((old.unwrap_err(), other.unwrap_err()), (ErrorClass::Conflict, ErrorClass::Conflict));
    assert_eq!(fixture.node(), before);
    let metadata = &before["metadata"];
    let right = json!({ "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] });
    fixture.label("1", right).await.unwrap();
    let gone = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let gone = fixture.nodes.patch("nobody", &PatchParams::default(), &gone).await.unwrap_err();
    assert_eq!(ApiError::of(&gone).class, ErrorClass::NotFound);
}

/// Shows ROL-4.
#[tokio::test(start_paused = true)]
async fn missing_patch_and_update_fail_with_forbidden() {
    let fixture = UpdateFixture::new();
    fixture.faults().on([Verb::Patch, Verb::Update]).of("nodes").forbid();
    assert_eq!(fixture.label("1", json!({})).await.unwrap_err(), ErrorClass::Forbidden);
    assert_eq!(fixture.asked(), ["patch 403", "get 200", "update 403"]);
    assert_eq!(fixture.label("1", json!({})).await.unwrap_err(), ErrorClass::Forbidden);
    assert_eq!(fixture.asked(), ["patch 403"]);
}
