//! Builds form-encoded requests and signs them with Signature Version 4.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use driver::{Code, DriverError};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Uri};
use secrecy::ExposeSecret;

use crate::query::Query;
use crate::secret::Keys;

/// Inputs of a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signing<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) region: &'a str,
    pub(crate) service: &'static str,
    pub(crate) now: SystemTime,
}

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");

/// Returns the request without a signature, for example for a web identity token.
pub(crate) fn unsigned(url: &str, query: &Query) -> Result<Request<Bytes>, DriverError> {
    let uri: Uri = format!("{url}/").parse().map_err(|_| unusable(url))?;
    let host =
        uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()).ok_or_else(|| unusable(url))?;
    let request = Request::post(uri).header(HOST, host).header(CONTENT_TYPE, FORM);
    request.body(Bytes::from(query.encode())).map_err(|_| unusable(url))
}

/// Returns the signed request.
pub(crate) fn signed(url: &str, query: &Query, signing: Signing<'_>) -> Result<Request<Bytes>, DriverError> {
    let mut request = unsigned(url, query)?;
    let failed = || DriverError::new(Code::Internal, "failed to sign a request to AWS");
    let keys = signing.keys;
    let token = keys.session_token.as_ref().map(|token| token.expose_secret().to_owned());
    let identity = Credentials::new(&keys.id, keys.secret.expose_secret(), token, None, "millwright").into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(signing.region)
        .name(signing.service)
        .time(signing.now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed().because(error))?
        .into();
    // Use the digest instead of the body: the signing crate logs its input at level `trace`, and an environment
    // variable includes bodies there.
    let digest = ring::digest::digest(&ring::digest::SHA256, request.body());
    let body = SignableBody::Precomputed(hex(digest.as_ref()));
    let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signable = SignableRequest::new("POST", request.uri().to_string(), headers, body)
        .map_err(|error| failed().because(error))?;
    let (instructions, _) = sign(signable, &parameters).map_err(|error| failed().because(error))?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    Ok(request)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _cannot_fail = write!(text, "{byte:02x}");
        text
    })
}

fn unusable(url: &str) -> DriverError {
    DriverError::invalid(format!("the endpoint {url:?} is not a URL; expected http(s)://<host>[:<port>]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;
    use std::time::Duration;

    fn keys(session_token: Option<&str>) -> Keys {
        Keys {
            id: "AKIDEXAMPLE".into(),
            secret: SecretString::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: session_token.map(SecretString::from),
        }
    }

    fn signing(keys: &Keys) -> Signing<'_> {
        // 2015-08-30T12:36:00Z, the time of AWS's examples.
        let now = SystemTime::UNIX_EPOCH + Duration::from_mins(24_015_636);
        Signing { keys, region: "us-east-1", service: "ec2", now }
    }

    fn header<'a>(request: &'a Request<Bytes>, name: &str) -> &'a str {
        request.headers().get(name).unwrap().to_str().unwrap()
    }

    #[test]
    fn signed_request_carries_scope_time_and_signature() {
        let request =
            signed("https://ec2.us-east-1.amazonaws.com", &Query::ec2("DescribeImages"), signing(&keys(None))).unwrap();
        let authorization = header(&request, "authorization");
        assert!(authorization.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/ec2/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="
        ), "{authorization}");
        assert_eq!(header(&request, "x-amz-date"), "20150830T123600Z");
        assert_eq!(header(&request, "host"), "ec2.us-east-1.amazonaws.com");
        assert_eq!(request.body().as_ref(), b"Action=DescribeImages&Version=2016-11-15");
        assert!(request.headers().get("x-amz-security-token").is_none());
    }

    /// Shows AWS-12.
    #[test]
    fn signature_matches_the_specification() {
        let request = signed("http://127.0.0.1:5000", &Query::ec2("DescribeImages"), signing(&keys(None))).unwrap();
        let signature = header(&request, "authorization").rsplit_once("Signature=").unwrap().1.to_owned();
        assert_eq!(signature, by_hand(&request), "{request:?}");
    }

    /// Computes Signature Version 4 for this request as specified.
    fn by_hand(request: &Request<Bytes>) -> String {
        let sha = |data: &[u8]| hex(ring::digest::digest(&ring::digest::SHA256, data).as_ref());
        let mac = |key: &[u8], data: &str| {
            ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), data.as_bytes()).as_ref().to_vec()
        };
        let canonical = format!(
            "POST\n/\n\ncontent-type:{}\nhost:127.0.0.1:5000\nx-amz-date:20150830T123600Z\n\ncontent-type;host;x-amz-date\n{}",
            header(request, "content-type"),
            sha(request.body())
        );
        let scope = "20150830/us-east-1/ec2/aws4_request";
        let to_sign = format!("AWS4-HMAC-SHA256\n20150830T123600Z\n{scope}\n{}", sha(canonical.as_bytes()));
        let start = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec();
        let key = ["20150830", "us-east-1", "ec2", "aws4_request"].iter().fold(start, |key, part| mac(&key, part));
        hex(&mac(&key, &to_sign))
    }

    #[test]
    fn session_token_is_sent_and_signed() {
        let request = signed("http://h", &Query::ec2("X"), signing(&keys(Some("token")))).unwrap();
        assert_eq!(header(&request, "x-amz-security-token"), "token");
        assert!(header(&request, "authorization").contains("x-amz-security-token"));
    }

    #[test]
    fn invalid_endpoint_url_is_named_in_the_error() {
        let error = unsigned("not a url", &Query::ec2("X")).unwrap_err();
        assert!(error.message().contains("not a url"), "{error}");
    }
}
