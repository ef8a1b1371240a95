//! Cinder: volumes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, page};
use super::cloud::Cloud;
use super::request::{Request, text};
use super::settings::Settings;
use super::things::{Volume, texts};

impl Cloud {
    pub(super) fn cinder(&mut self, now: Duration, request: &Request, method: &str, path: &[&str]) -> Answer {
        let missing = |id: &str| Answer::missing(&format!("Volume {id}"));
        match (method, path) {
            ("GET", ["volumes", "detail"]) => {
                let metadata: BTreeMap<String, String> =
                    request.parameter("metadata").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                let fits = |volume: &&Volume| {
                    let named = request.parameter("name").is_none_or(|name| name == volume.name);
                    named && metadata.iter().all(|(key, value)| volume.metadata.get(key) == Some(value))
                };
                let found = self.volumes.iter().filter(fits).map(Volume::shown).collect();
                page("volumes", found, request.parameter("marker"), self.settings.page)
            }
            ("GET", ["volumes", id]) => match self.volumes.iter().find(|volume| volume.id == *id) {
                Some(volume) => Answer::ok(json!({ "volume": volume.shown() })),
                None => missing(id),
            },
            ("DELETE", ["volumes", id]) => match self.volumes.iter().find(|volume| volume.id == *id) {
                Some(volume) if !["available", "error"].contains(&volume.status) => {
                    Answer::bad("Invalid volume: Volume status must be available or error and must not be attached.")
                }
                Some(_) => {
                    self.volumes.retain(|volume| volume.id != *id);
                    Answer::empty(202)
                }
                None => missing(id),
            },
            ("POST", ["volumes"]) => self.make_volume(now, &request.body).unwrap_or_else(|refused| refused),
            _ => Answer::missing("The resource"),
        }
    }

    fn make_volume(&mut self, now: Duration, body: &Value) -> Result<Answer, Answer> {
        let asked =
            body.get("volume").ok_or_else(|| Answer::bad("Invalid input received: 'volume' is a required property"))?;
        let kind = text(asked, "volume_type");
        if kind != Settings::VOLUME_TYPE {
            return Err(Answer::missing(&format!("Volume type with name {kind}")));
        }
        if self.volumes.len() >= self.settings.volumes {
            let limit = self.settings.volumes;
            let message = format!(
                "VolumeLimitExceeded: Maximum number of volumes allowed ({limit}) exceeded for quota 'volumes'."
            );
            return Err(Answer::error(413, "overLimit", &message));
        }
        let volume = Volume {
            id: self.id("vol"),
            name: text(asked, "name").to_owned(),
            metadata: texts(asked, "metadata"),
            status: "creating",
            built: now + self.settings.volume_builds_for,
            ..Volume::default()
        };
        let shown = volume.shown();
        self.volumes.push(volume);
        Ok(Answer::new(202, json!({ "volume": shown })))
    }
}
