//! Keystone: tokens, and the catalogue.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;
use super::cloud::Cloud;
use super::request::{Request, text};
use super::settings::Settings;

impl Cloud {
    pub(super) fn keystone(&mut self, now: Duration, request: &Request, method: &str, path: &[&str]) -> Answer {
        if (method, path) != ("POST", &["v3", "auth", "tokens"][..]) {
            return Answer::missing("The resource");
        }
        let auth = request.body.get("auth").unwrap_or(&Value::Null);
        let identity = auth.get("identity").unwrap_or(&Value::Null);
        if !self.is_user(now, identity) || !has_project(auth, identity) {
            return Answer::unauthorized();
        }
        let id = format!("gAAAA-{}", self.id("token"));
        let until = now + self.settings.token_lives;
        self.tokens.insert(id.clone(), until);
        let host = &request.host;
        let services = [
            ("compute", format!("http://{host}/compute/v2.1")),
            ("network", format!("http://{host}/network")),
            ("image", format!("http://{host}/image")),
            ("volumev3", format!("http://{host}/volume/v3/{}", Settings::PROJECT_ID)),
        ];
        let catalog: Vec<Value> =
            services.iter().map(|(kind, url)| json!({ "type": kind, "endpoints": [endpoint(url)] })).collect();
        let mut answer =
            Answer::new(201, json!({ "token": { "expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog } }));
        answer.subject = Some(id);
        answer
    }

    fn is_user(&self, now: Duration, identity: &Value) -> bool {
        let at = |path: &[&str]| path.iter().try_fold(identity, |at, key| at.get(*key)).unwrap_or(&Value::Null).clone();
        let (user, credential) = (at(&["password", "user"]), at(&["application_credential"]));
        let domain = |of: &Value| {
            of.get("domain")
                .is_some_and(|domain| text(domain, "name") == Settings::DOMAIN || text(domain, "id") == "default")
        };
        let by_password =
            text(&user, "name") == Settings::USER && text(&user, "password") == self.settings.password && domain(&user);
        let owner = credential.get("user").unwrap_or(&Value::Null);
        let named = text(&credential, "id") == Settings::CREDENTIAL
            || (text(&credential, "name") == "ac" && text(owner, "name") == Settings::USER && domain(owner));
        let by_credential = named && text(&credential, "secret") == self.settings.password;
        let token = at(&["token"]);
        let by_token = self.tokens.get(text(&token, "id")).is_some_and(|until| now < *until);
        by_password || by_credential || by_token
    }
}

/// An application credential has a project; other methods must name one.
fn has_project(auth: &Value, identity: &Value) -> bool {
    if identity.get("application_credential").is_some() {
        return auth.get("scope").is_none();
    }
    let project = auth.get("scope").and_then(|scope| scope.get("project")).unwrap_or(&Value::Null);
    text(project, "id") == Settings::PROJECT_ID || text(project, "name") == Settings::PROJECT
}

fn endpoint(url: &str) -> Value {
    json!({ "interface": "public", "region": Settings::REGION, "region_id": Settings::REGION, "url": url })
}
