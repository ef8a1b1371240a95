//! Resolves the credentials of a Secret to access keys.
//!
//! Access keys in a Secret are used as they are, so a changed Secret needs no restart. Temporary keys of a role are
//! cached and renewed five minutes before they expire. One call renews them while the others wait. The token file is
//! read for every renewal, because it is rotated. If a renewal fails while the old keys are valid, the old keys are
//! used.

mod imds;
mod sts;

use std::time::Duration;

use driver::{Call, Code, DriverError};
use driver_common::codes::During;
use driver_common::credential_cache::{CredentialCache, Temporary};
use driver_common::reads;
use secrecy::ExposeSecret;

use crate::ec2::{Aws, Failed, RequestContext};
use crate::endpoint::Service;
use crate::query::Query;
use crate::secret::{Keys, Source};
use crate::sign::hex;
use crate::xml::Element;

/// Temporary keys are renewed this long before they expire.
const MARGIN: Duration = Duration::from_mins(5);

/// Cache of the temporary keys of roles.
pub(crate) type Sessions = CredentialCache<Keys>;

pub(crate) fn sessions() -> Sessions {
    CredentialCache::new(MARGIN)
}

/// A call with the keys that sign its requests.
pub(crate) struct Session<'a> {
    pub(crate) aws: &'a Aws,
    pub(crate) call: &'a Call,
    pub(crate) region: &'a str,
    keys: Keys,
    /// The account and region to which AWS applies one rate limit; not secret.
    account: String,
    /// Cache key of temporary keys.
    slot: Option<String>,
}

impl Session<'_> {
    /// Sends a request to EC2. Reads are retried after a transient error; writes are sent once.
    pub(crate) async fn send(&self, label: &'static str, query: &Query, during: During) -> Result<Element, Failed> {
        let context =
            RequestContext { call: self.call, region: self.region, keys: Some(&self.keys), account: &self.account };
        let send = || self.aws.send(&context, Service::Ec2, label, query, during);
        let answer = if query.is_read() {
            reads::with_retries(self.call, || (self.aws.chance)(), Failed::transient, send).await
        } else {
            send().await
        };
        if let (Err(failed), Some(slot)) = (&answer, &self.slot)
            && failed.error.code() == Code::Unauthenticated
        {
            // The next call fetches new keys, whatever the cause.
            self.aws.sessions.forget(slot);
        }
        answer
    }
}

impl Aws {
    /// Returns a session for a call.
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
                "neither the Secret nor this process has credentials; add them to the Secret or configure a role for the process",
            ));
        };
        let slot = "the profile of this instance".to_owned();
        let keys = self.renewed(call, &slot, imds::instance_profile(self, call, url)).await?;
        Ok(Session { aws: self, call, region, keys, account: format!("{slot} {region}"), slot: Some(slot) })
    }

    /// Returns the keys of a cache slot, renewed if they are about to expire.
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
