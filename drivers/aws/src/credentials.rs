//! Keys to sign with, from wherever a Secret says they come.
//!
//! Keys in a Secret are used as they are, so a Secret that changes needs no restart. Keys of a role expire; they are kept until five
//! minutes before that and fetched again then, by one call while the others wait. The token file is read for every fetch, because
//! it is replaced under us. If a fetch fails while the old keys are good, they are used.

mod imds;
mod sts;

use std::time::Duration;

use driver::{Call, Code, DriverError};
use driver_common::codes::During;
use driver_common::reads;
use driver_common::renewed::{Renewed, Temporary};
use secrecy::ExposeSecret;

use crate::ec2::{Asker, Aws, Failed};
use crate::endpoint::Service;
use crate::query::Query;
use crate::secret::{Keys, Source};
use crate::sign::hex;
use crate::xml::Element;

/// How long before their end keys are renewed.
const MARGIN: Duration = Duration::from_mins(5);

/// The keys of roles that are at hand.
pub(crate) type Sessions = Renewed<Keys>;

pub(crate) fn sessions() -> Sessions {
    Renewed::new(MARGIN)
}

/// A call with keys to sign its requests.
pub(crate) struct Session<'a> {
    pub(crate) aws: &'a Aws,
    pub(crate) call: &'a Call,
    pub(crate) region: &'a str,
    keys: Keys,
    /// Whose requests AWS counts together; no secret.
    account: String,
    /// Where keys that expire are kept.
    slot: Option<String>,
}

impl Session<'_> {
    /// Sends a request to EC2. A read that fails for a passing reason is repeated; a write is sent once.
    pub(crate) async fn ask(&self, label: &'static str, query: &Query, during: During) -> Result<Element, Failed> {
        let asker = Asker { call: self.call, region: self.region, keys: Some(&self.keys), account: &self.account };
        let ask = || self.aws.ask(&asker, Service::Ec2, label, query, during);
        let answer = if query.is_read() {
            reads::repeated(self.call, || (self.aws.chance)(), Failed::passing, ask).await
        } else {
            ask().await
        };
        if let (Err(failed), Some(slot)) = (&answer, &self.slot)
            && failed.error.code() == Code::Unauthenticated
        {
            // Whatever was wrong with them, the next call fetches others.
            self.aws.sessions.forget(slot);
        }
        answer
    }
}

impl Aws {
    /// Keys for a call.
    pub(crate) async fn session<'a>(
        &'a self,
        call: &'a Call,
        region: &'a str,
        source: &Source,
    ) -> Result<Session<'a>, DriverError> {
        let signed_by = |keys: Keys, account: String, slot| Session { aws: self, call, region, keys, account, slot };
        match source {
            Source::Keys(keys) => Ok(signed_by(keys.clone(), format!("{} {region}", keys.id), None)),
            Source::Role { keys, role, external_id } => {
                let digest = ring::digest::digest(&ring::digest::SHA256, keys.secret.expose_secret().as_bytes());
                let slot = format!("{role} by {} {}", keys.id, hex(digest.as_ref()));
                let fetch = sts::assume_role(self, call, region, keys, role, external_id.as_deref());
                let kept = self.renewed(call, &slot, fetch).await?;
                Ok(signed_by(kept, format!("{role} {region}"), Some(slot)))
            }
            Source::WebIdentity { token_file, role } => self.by_web_identity(call, region, token_file, role).await,
            Source::Ambient => self.ambient(call, region).await,
        }
    }

    async fn by_web_identity<'a>(
        &'a self,
        call: &'a Call,
        region: &'a str,
        token_file: &str,
        role: &str,
    ) -> Result<Session<'a>, DriverError> {
        let slot = format!("{role} by {token_file}");
        let fetch = sts::assume_role_with_web_identity(self, call, region, token_file, role);
        let keys = self.renewed(call, &slot, fetch).await?;
        Ok(Session { aws: self, call, region, keys, account: format!("{role} {region}"), slot: Some(slot) })
    }

    async fn ambient<'a>(&'a self, call: &'a Call, region: &'a str) -> Result<Session<'a>, DriverError> {
        let own = &self.settings.own;
        if let Some(keys) = &own.keys {
            let (keys, account) = (keys.clone(), format!("{} {region}", keys.id));
            return Ok(Session { aws: self, call, region, keys, account, slot: None });
        }
        if let Some((token_file, role)) = &own.web_identity {
            return self.by_web_identity(call, region, token_file, role).await;
        }
        let Some(url) = &own.metadata else {
            return Err(DriverError::new(
                Code::Unauthenticated,
                "the Secret has no credentials and this process has none either; add them to the Secret, or give the process a role",
            ));
        };
        let slot = "the profile of this instance".to_owned();
        let keys = self.renewed(call, &slot, imds::instance_profile(self, call, url)).await?;
        Ok(Session { aws: self, call, region, keys, account: format!("{slot} {region}"), slot: Some(slot) })
    }

    /// The keys of a slot, fetched again if they are about to expire.
    async fn renewed(
        &self,
        call: &Call,
        slot: &str,
        fetch: impl Future<Output = Result<Temporary<Keys>, DriverError>>,
    ) -> Result<Keys, DriverError> {
        self.sessions.get(call, (self.clock)(), slot, fetch).await
    }
}

#[cfg(test)]
mod tests;
