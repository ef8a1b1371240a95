//! Glance: images.

use serde_json::{Value, json};

use super::answer::Answer;
use super::cloud::Cloud;
use super::request::Request;
use super::settings::Settings;

impl Cloud {
    pub(super) fn glance(request: &Request, method: &str, path: &[&str]) -> Answer {
        if (method, path) != ("GET", &["images"][..]) {
            return Answer::missing("The resource");
        }
        // Two of the same name are no rarity: an image is replaced by uploading another.
        let images = [("img-1", Settings::IMAGE), ("img-2", "twice"), ("img-3", "twice")];
        let named = |name: &str| request.parameter("name").is_none_or(|asked| asked == name);
        let found = images.iter().filter(|(_, name)| named(name));
        let found: Vec<Value> = found.map(|(id, name)| json!({ "id": id, "name": name, "status": "active" })).collect();
        Answer::ok(json!({ "images": found }))
    }
}
