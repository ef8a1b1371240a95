//! What is asked, and what was asked before.

use std::time::Duration;

use crate::parameters::{Parameters, pairs};

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its parameters, `Action` and `Version` included.
    pub parameters: Parameters,
    /// The same as they were sent.
    pub pairs: Vec<(String, String)>,
    /// The access key id of its signature.
    pub access_key: Option<String>,
    /// The region of its signature.
    pub region: Option<String>,
    /// The session token that came with it.
    pub session_token: Option<String>,
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When, on the cloud's clock.
    pub at: Duration,
    /// What was asked.
    pub request: Request,
    /// The HTTP status of the answer; `None` if there was none.
    pub status: Option<u16>,
}

impl Request {
    /// Decodes a request from its body and the headers that identify the caller. Signatures are not checked here; moto
    /// checks them.
    pub fn read(form: &str, authorization: Option<&str>, session_token: Option<&str>) -> Self {
        let pairs = pairs(form);
        let credential = authorization
            .and_then(|header| header.split_once("Credential="))
            .map(|(_, rest)| rest.split([',', ' ']).next().unwrap_or_default());
        let mut parts = credential.into_iter().flat_map(|credential| credential.split('/'));
        let access_key = parts.next().filter(|key| !key.is_empty()).map(str::to_owned);
        Self {
            parameters: Parameters::of(&pairs),
            pairs,
            access_key,
            region: parts.nth(1).map(str::to_owned),
            session_token: session_token.map(str::to_owned),
        }
    }

    /// Returns an unsigned request.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { parameters: Parameters::of(&pairs), pairs, ..Self::default() }
    }

    /// Returns the action; empty if it is unset.
    pub fn action(&self) -> &str {
        self.parameters.get("Action").unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_is_read_from_the_signature() {
        let header =
            "AWS4-HMAC-SHA256 Credential=AKIA1/20260101/eu-west-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
        let request = Request::read("Action=DescribeImages", Some(header), Some("t"));
        assert_eq!(request.access_key.as_deref(), Some("AKIA1"));
        assert_eq!(request.region.as_deref(), Some("eu-west-1"));
        assert_eq!((request.action(), request.session_token.as_deref()), ("DescribeImages", Some("t")));
        assert_eq!(Request::read("", None, None).access_key, None);
    }
}
