//! Where a case plays: a client, a namespace of its own, and plain requests with plain JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{Difference, ServerUnderTest};

/// How long a case waits for something that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a case waits before it believes that nothing will come.
const SILENCE: Duration = Duration::from_secs(2);

/// The API server, and the corner of it that belongs to one case.
#[derive(Clone)]
pub(crate) struct Fixture {
    client: kube::Client,
    namespace: String,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// The languages of patches.
#[derive(Clone, Copy)]
pub(crate) enum Patch {
    Json,
    Merge,
}

impl Fixture {
    pub(crate) async fn set(server_under_test: &ServerUnderTest, case: &str) -> Result<Self, Difference> {
        let fixture = Self { client: server_under_test.client(), namespace: place(server_under_test.run(), case) };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fixture.namespace}});
        fixture.post("/api/v1/namespaces", &namespace).await?.succeeds()?;
        Ok(fixture)
    }

    /// Takes away what would hold up whoever ends the namespace, and what is outside of it. The namespace itself goes when all
    /// cases are done: a real server needs seconds for each, and cases about just that would have to queue.
    pub(crate) async fn clear(&self) -> Result<(), Difference> {
        for path in [self.core("configmaps"), self.widget("")] {
            self.release(&path).await?;
        }
        let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}", self.group());
        self.delete(&definition, None).await?;
        Ok(())
    }

    /// The client itself, for a case that puts something of ours in front of it.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Takes the finalizers off what is left here.
    async fn release(&self, path: &str) -> Result<(), Difference> {
        let left = self.get(path).await?.body;
        for object in left["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            if let (Some(name), Some(_)) = (metadata["name"].as_str(), metadata.get("finalizers")) {
                let nobody = json!({"metadata": {"finalizers": null}});
                self.patch(&format!("{path}/{name}"), Patch::Merge, &nobody).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The path of core objects in the namespace of this case: `configmaps/a`.
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The API group of the custom kind of this case.
    pub(crate) fn group(&self) -> String {
        format!("{}.example.com", self.namespace)
    }

    /// The path of a widget, the custom kind of this case.
    pub(crate) fn widget(&self, rest: &str) -> String {
        let slash = if rest.is_empty() { "" } else { "/" };
        format!("/apis/{}/v1/namespaces/{}/widgets{slash}{rest}", self.group(), self.namespace)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Difference> {
        self.call(Method::GET, path, None, "").await
    }

    /// A read of metadata alone.
    pub(crate) async fn get_metadata(&self, path: &str, kind: &str) -> Result<Answer, Difference> {
        let accept = format!("application/json;as={kind};g=meta.k8s.io;v=v1");
        let request = Request::builder().uri(path).header("accept", accept).body(Body::empty())?;
        self.send(request).await
    }

    /// A read of everything that is served, at once.
    pub(crate) async fn get_aggregated(&self, path: &str) -> Result<Answer, Difference> {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let request = Request::builder().uri(path).header("accept", accept).body(Body::empty())?;
        self.send(request).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Difference> {
        self.call(Method::POST, path, Some(body.to_string()), "application/json").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Answer, Difference> {
        self.call(Method::PUT, path, Some(body.to_string()), "application/json").await
    }

    pub(crate) async fn patch(&self, path: &str, kind: Patch, body: &Value) -> Result<Answer, Difference> {
        let content_type = match kind {
            Patch::Json => "application/json-patch+json",
            Patch::Merge => "application/merge-patch+json",
        };
        self.call(Method::PATCH, path, Some(body.to_string()), content_type).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<&Value>) -> Result<Answer, Difference> {
        self.call(Method::DELETE, path, options.map(Value::to_string), "application/json").await
    }

    /// Any request at all, also one that no client library would send.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        content_type: &str,
    ) -> Result<Answer, Difference> {
        let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
        if body.is_some() {
            request = request.header("content-type", content_type);
        }
        self.send(request.body(Body::from(body.unwrap_or_default().into_bytes()))?).await
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, Difference> {
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer { code, body })
    }

    /// Waits until an object is as it should be, and returns it.
    pub(crate) async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Result<Value, Difference> {
        let mut last = Value::Null;
        for _ in 0..200 {
            let answer = self.get(path).await?;
            if answer.code == StatusCode::OK && is(&answer.body) {
                return Ok(answer.body);
            }
            last = answer.body;
            tokio::time::sleep(PATIENCE / 200).await;
        }
        Err(Difference::new(format!("{path} did not become what it should be: {last}")))
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, path: &str) -> Result<(), Difference> {
        let mut last = Value::Null;
        for _ in 0..200 {
            let answer = self.get(path).await?;
            if answer.code == StatusCode::NOT_FOUND {
                return Ok(());
            }
            last = answer.body;
            tokio::time::sleep(PATIENCE / 200).await;
        }
        Err(Difference::new(format!("{path} is still there: {last}")))
    }

    /// Waits for a while and finds the object untouched.
    pub(crate) async fn is_kept(&self, path: &str) -> Result<(), Difference> {
        tokio::time::sleep(SILENCE).await;
        let object = self.get(path).await?.succeeds()?;
        match object["metadata"].get("deletionTimestamp") {
            None => Ok(()),
            Some(at) => Err(Difference::new(format!("{path} was deleted at {at}"))),
        }
    }

    /// Creates a config map with these labels.
    pub(crate) async fn config_map(&self, name: &str, labels: &Value) -> Result<Value, Difference> {
        let object = config_map(name, labels);
        self.post(&self.core("configmaps"), &object).await?.succeeds()
    }

    /// Defines the custom kind of this case, with this schema for `spec` and all that goes with `status`, and waits until it
    /// is served.
    pub(crate) async fn define(&self, spec: &Value) -> Result<(), Difference> {
        let version = json!({
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": spec,
                "status": {"type": "object", "properties": {"ready": {"type": "integer"}, "phase": {"type": "string"}}},
            }}},
        });
        self.define_version(&version).await
    }

    /// Defines the custom kind of this case with this one version, and waits until it is served.
    pub(crate) async fn define_version(&self, version: &Value) -> Result<(), Difference> {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.post(definitions, &self.definition(version)).await?.succeeds()?;
        for _ in 0..200 {
            if self.get(&self.widget("")).await?.code == StatusCode::OK {
                return Ok(());
            }
            tokio::time::sleep(PATIENCE / 200).await;
        }
        Err(Difference::new("the custom kind was never served".to_owned()))
    }

    /// The definition of the custom kind of this case.
    pub(crate) fn definition(&self, version: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group())},
            "spec": {
                "group": self.group(), "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version],
            },
        })
    }

    /// A widget with this spec.
    pub(crate) fn new_widget(&self, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group()), "kind": "Widget",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        })
    }

    /// Creates a widget with this spec.
    pub(crate) async fn make_widget(&self, name: &str, spec: &Value) -> Result<Value, Difference> {
        self.post(&self.widget(""), &self.new_widget(name, spec)).await?.succeeds()
    }

    /// Opens a watch on a list's path with its query.
    pub(crate) async fn watch(&self, path: &str, query: &str) -> Result<Watch, Difference> {
        let request = Request::builder().uri(format!("{path}?watch=1&{query}")).header("accept", "application/json");
        let response = self.client.send(request.body(Body::empty())?).await?;
        if response.status() != StatusCode::OK {
            let code = response.status();
            let bytes = response.into_body().collect().await?.to_bytes();
            return Err(Difference::new(format!("the watch was refused: {code} {}", String::from_utf8_lossy(&bytes))));
        }
        Ok(Watch { body: response.into_body(), buffer: Vec::new() })
    }
}

/// A config map with these labels.
pub(crate) fn config_map(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

/// The namespace of a case: short enough for any server, and told from those of other cases and other runs.
pub(crate) fn place(run: &str, case: &str) -> String {
    let short: String = case.replace('_', "-").chars().take(50).collect();
    format!("c-{run}-{}", short.trim_end_matches('-'))
}

impl Answer {
    /// The object, if the request was granted.
    pub(crate) fn succeeds(self) -> Result<Value, Difference> {
        match self.code {
            200..300 => Ok(self.body),
            _ => Err(Difference::new(format!("refused with {}: {}", self.code, self.body))),
        }
    }

    /// The `Status`, if the request was refused like this.
    pub(crate) fn fails(self, code: u16, reason: &str) -> Result<Value, Difference> {
        if self.code == code && self.body["reason"] == reason && self.body["code"] == code {
            Ok(self.body)
        } else {
            Err(Difference::new(format!("expected {code} {reason}, got {}: {}", self.code, self.body)))
        }
    }

    /// The `Status`, if the request was refused like this and with this message.
    pub(crate) fn fails_saying(self, code: u16, reason: &str, message: &str) -> Result<Value, Difference> {
        let status = self.fails(code, reason)?;
        same("message", &status["message"], &Value::from(message))?;
        Ok(status)
    }
}

/// A difference unless both are equal.
pub(crate) fn same(what: &str, got: &Value, wanted: &Value) -> Result<(), Difference> {
    if got == wanted { Ok(()) } else { Err(Difference::new(format!("{what}: got {got}, expected {wanted}"))) }
}

/// A difference unless the text holds this part.
pub(crate) fn says(text: &Value, part: &str) -> Result<(), Difference> {
    if text.as_str().is_some_and(|text| text.contains(part)) {
        Ok(())
    } else {
        Err(Difference::new(format!("{text} does not say {part:?}")))
    }
}

/// The names of the objects of a list.
pub(crate) fn names(list: &Value) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["metadata"]["name"].clone()).collect()
}

/// The causes of a `Status`, by field.
pub(crate) fn causes(status: &Value) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    causes.map(|cause| (text(&cause["field"]), (text(&cause["reason"]), text(&cause["message"])))).collect()
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event, bookmarks included; none if the server ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Difference> {
        let read = tokio::time::timeout(PATIENCE, self.line());
        read.await.map_err(|_| Difference::new("no event came".to_owned()))?
    }

    /// Type and name of the next event that is no bookmark.
    pub(crate) async fn change(&mut self) -> Result<(String, Value), Difference> {
        loop {
            let event = self.next().await?.ok_or_else(|| Difference::new("the watch ended".to_owned()))?;
            if event["type"] != "BOOKMARK" {
                return Ok((event["type"].as_str().unwrap_or_default().to_owned(), event["object"].clone()));
            }
        }
    }

    /// A difference unless the next changes are these, each with the name of its object.
    pub(crate) async fn shows(&mut self, expected: &[(&str, &str)]) -> Result<(), Difference> {
        for (kind, name) in expected {
            let (got, object) = self.change().await?;
            let got = json!([got, object["metadata"]["name"]]);
            same("event", &got, &json!([kind, name]))?;
        }
        Ok(())
    }

    /// A difference if another change comes.
    pub(crate) async fn is_silent(&mut self) -> Result<(), Difference> {
        match tokio::time::timeout(SILENCE, self.change()).await {
            Err(_) => Ok(()),
            Ok(Ok((kind, object))) => {
                Err(Difference::new(format!("unexpected event {kind} {}", object["metadata"]["name"])))
            }
            Ok(Err(difference)) => Err(difference),
        }
    }

    async fn line(&mut self) -> Result<Option<Value>, Difference> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => self.buffer.extend(frame?.into_data().unwrap_or_default()),
            }
        }
    }
}
