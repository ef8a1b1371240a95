//! Fetches temporary keys of a role from STS.

use driver::{Call, Code, DriverError};
use driver_common::codes::During;
use secrecy::SecretString;

use super::Temporary;
use crate::ec2::{Aws, RequestContext};
use crate::endpoint::Service;
use crate::query::Query;
use crate::secret::Keys;
use crate::xml::Element;

/// Name of the sessions in AWS CloudTrail.
const SESSION: &str = "millwright";

/// Exchanges the web identity token in this file for keys of a role.
pub(super) async fn assume_role_with_web_identity(
    aws: &Aws,
    call: &Call,
    region: &str,
    token_file: &str,
    role: &str,
) -> Result<Temporary<Keys>, DriverError> {
    let token = call.bound(async { Ok(tokio::fs::read_to_string(token_file).await) }).await?;
    let token = token.map_err(|error| {
        let message = format!("failed to read the web identity token {token_file}: {}", error.kind());
        DriverError::new(Code::Unauthenticated, message)
    })?;
    let token = token.trim();
    if token.is_empty() {
        return Err(DriverError::new(Code::Unauthenticated, format!("the web identity token {token_file} is empty")));
    }
    let mut query = Query::sts("AssumeRoleWithWebIdentity");
    query.set("RoleArn", role);
    query.set("RoleSessionName", SESSION);
    query.set("WebIdentityToken", token);
    let context = RequestContext { call, region, keys: None, account: role };
    let label = "sts_assume_role_with_web_identity";
    let answer =
        aws.send(&context, Service::Sts, label, &query, During::Elsewhere).await.map_err(|failed| failed.error)?;
    credentials(&answer, "AssumeRoleWithWebIdentityResult")
}

/// Assumes a role with these keys.
pub(super) async fn assume_role(
    aws: &Aws,
    call: &Call,
    region: &str,
    keys: &Keys,
    role: &str,
    external_id: Option<&str>,
) -> Result<Temporary<Keys>, DriverError> {
    let mut query = Query::sts("AssumeRole");
    query.set("RoleArn", role);
    query.set("RoleSessionName", SESSION);
    query.set_some("ExternalId", external_id);
    let context = RequestContext { call, region, keys: Some(keys), account: role };
    let answer = aws.send(&context, Service::Sts, "sts_assume_role", &query, During::Elsewhere).await;
    credentials(&answer.map_err(|failed| failed.error)?, "AssumeRoleResult")
}

fn credentials(answer: &Element, result: &str) -> Result<Temporary<Keys>, DriverError> {
    let incomplete = || DriverError::new(Code::Unavailable, "STS returned no credentials");
    let given = answer.at(&[result, "Credentials"]).ok_or_else(incomplete)?;
    let text = |name: &str| Some(given.text(name)).filter(|text| !text.is_empty()).ok_or_else(incomplete);
    Ok(Temporary {
        value: Keys {
            id: text("AccessKeyId")?.to_owned(),
            secret: SecretString::from(text("SecretAccessKey")?),
            session_token: Some(SecretString::from(text("SessionToken")?)),
        },
        expires: text("Expiration")?.parse().map_err(|_| incomplete())?,
    })
}
