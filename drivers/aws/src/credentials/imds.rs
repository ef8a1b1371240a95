//! Fetches keys from the metadata service of the instance that this process runs on (IMDSv2: a token first).

use bytes::Bytes;
use driver::{Call, Code, DriverError};
use http::{Method, Request};
use secrecy::SecretString;
use serde_json::Value;

use super::Temporary;
use crate::ec2::Aws;
use crate::secret::Keys;

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Fetches the keys of the instance profile.
pub(super) async fn instance_profile(aws: &Aws, call: &Call, url: &str) -> Result<Temporary<Keys>, DriverError> {
    let url = url.trim_end_matches('/');
    let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", "300");
    let token = get(aws, call, Method::PUT, format!("{url}/latest/api/token"), lifetime).await?;
    let token = ("x-aws-ec2-metadata-token", token.trim());
    let roles = get(aws, call, Method::GET, format!("{url}{ROLES}"), token).await?;
    let role = roles.lines().map(str::trim).find(|role| !role.is_empty() && !role.contains(['/', ' ']));
    let role = role.ok_or_else(|| unusable("returned no role; start the instance with an instance profile"))?;
    let told = get(aws, call, Method::GET, format!("{url}{ROLES}{role}"), token).await?;
    let told: Value = serde_json::from_str(&told).map_err(|_| unusable("returned invalid JSON"))?;
    let text = |name: &str| told.get(name).and_then(Value::as_str).ok_or_else(|| unusable("returned no credentials"));
    Ok(Temporary {
        value: Keys {
            id: text("AccessKeyId")?.to_owned(),
            secret: SecretString::from(text("SecretAccessKey")?),
            session_token: Some(SecretString::from(text("Token")?)),
        },
        expires: text("Expiration")?
            .parse()
            .map_err(|_| unusable("returned credentials without an expiration time"))?,
    })
}

async fn get(aws: &Aws, call: &Call, method: Method, url: String, header: (&str, &str)) -> Result<String, DriverError> {
    let request = Request::builder().method(method).uri(url).header(header.0, header.1).body(Bytes::new());
    let request = request.map_err(|_| unusable("has an invalid URL"))?;
    let answer = call.measure("instance_metadata", async {
        let answer = aws.transport.send(call, request).await.map_err(DriverError::from)?;
        if answer.status().is_success() { Ok(answer) } else { Err(unusable("returned an error")) }
    });
    String::from_utf8(answer.await?.into_body().to_vec()).map_err(|_| unusable("returned invalid UTF-8"))
}

fn unusable(how: &str) -> DriverError {
    DriverError::new(Code::Unauthenticated, format!("the metadata service of this instance {how}"))
}
