//! Encodes requests, decodes responses, and computes names for secrets that do not reveal them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use driver::{Code, DriverError};
use driver_common::http::{Servers, Tls};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::keystone::{self, Token};
use crate::secret::Credentials;

/// Builds a request with a JSON body, or without a body.
pub(crate) fn json_request(
    method: Method,
    url: &str,
    token: Option<&Token>,
    body: Option<&Value>,
) -> Result<Request<Bytes>, DriverError> {
    let unusable = |_| DriverError::new(Code::Internal, "failed to build the request: invalid URL or token");
    let mut request = Request::builder().method(method).uri(url).header(ACCEPT, "application/json");
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(token.id.expose_secret()).map_err(|_| {
            DriverError::new(
                Code::Internal,
                "failed to build the request: the token of Keystone is not a valid header value",
            )
        })?;
        value.set_sensitive(true);
        request = request.header("x-auth-token", value);
    }
    let body = match body {
        Some(body) => {
            request = request.header(CONTENT_TYPE, "application/json");
            Bytes::from(body.to_string())
        }
        None => Bytes::new(),
    };
    request.body(body).map_err(unusable)
}

/// Decodes the JSON of a response; `null` if it has no body.
pub(crate) fn read(body: &Bytes) -> Result<Value, DriverError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body).map_err(|_| {
        DriverError::new(
            Code::Unavailable,
            "OpenStack returned invalid JSON; whether the request took effect is unknown",
        )
    })
}

pub(crate) fn unusable_keystone(url: &str) -> DriverError {
    DriverError::invalid(format!("secretRef.authURL: Invalid value: {url:?}: no Keystone v3 at this URL"))
}

/// Returns a name for credentials that does not reveal them. Changed credentials have another name and another token.
pub(crate) fn fingerprint(credentials: &Credentials) -> String {
    let mut parts = vec![credentials.auth_url.clone(), keystone::body(&credentials.who).to_string()];
    parts.push(credentials.interface.clone());
    parts.extend(tls_parts(&credentials.tls));
    digest(&parts)
}

pub(crate) fn tls_parts(tls: &Tls) -> Vec<String> {
    let (certificate, key) = match &tls.identity {
        Some((certificate, key)) => (certificate.as_str(), key.expose_secret()),
        None => ("", ""),
    };
    let servers = if tls.servers == Servers::Unverified { "unverified" } else { "verified" };
    let parts = [tls.ca_certificates.as_deref().unwrap_or_default(), certificate, key, servers];
    parts.map(str::to_owned).into()
}

/// Returns a name for these parts that does not reveal them.
pub(crate) fn digest(parts: &[String]) -> String {
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, parts.join("\0").as_bytes()))
}
