//! The three calls of STS.

use super::answer::Refusal;
use super::calls::Request;
use super::cloud::Cloud;
use super::xml::{Element, node, text};

impl Cloud {
    /// Keys for a role. Those of a web identity need a token and no signature.
    pub(super) fn assume(&mut self, request: &Request) -> Result<Vec<Element>, Refusal> {
        let action = request.action().to_owned();
        let get = |key: &str| request.parameters.get(key).unwrap_or_default();
        let arn = get("RoleArn").to_owned();
        let Some((_, role)) = arn.split_once(":role/").filter(|_| arn.starts_with("arn:")) else {
            return Err(Refusal::new("ValidationError", format!("{arn} is invalid")));
        };
        if action == "AssumeRoleWithWebIdentity" && get("WebIdentityToken").split('.').count() != 3 {
            return Err(Refusal::new("InvalidIdentityToken", "The web identity token is no JWT"));
        }
        let number = self.next();
        let (key, session) = (format!("ASIA{number:016}"), get("RoleSessionName").to_owned());
        self.session_keys.insert(key.clone());
        let user = format!("arn:aws:sts::{}:assumed-role/{role}/{session}", self.settings.account);
        let credentials = vec![
            text("AccessKeyId", &key),
            text("SecretAccessKey", format!("secret-of-{key}")),
            text("SessionToken", format!("session-of-{key}")),
            text("Expiration", &self.settings.session_ends),
        ];
        let who = vec![text("AssumedRoleId", format!("AROA{number:017}:{session}")), text("Arn", user)];
        Ok(vec![node(&format!("{action}Result"), vec![node("Credentials", credentials), node("AssumedRoleUser", who)])])
    }

    pub(super) fn caller_identity(&self) -> Vec<Element> {
        let account = &self.settings.account;
        let who = vec![
            text("Arn", format!("arn:aws:iam::{account}:user/tester")),
            text("UserId", "AIDA0000000000000000"),
            text("Account", account),
        ];
        vec![node("GetCallerIdentityResult", who)]
    }
}
