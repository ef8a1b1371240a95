//! What a refusal means.
//!
//! OpenStack has HTTP statuses, and words beside them: Neutron names the kind of an error, Nova and Cinder say it in a sentence. A quota that
//! is used up is 403 in Nova, 413 in Cinder and 409 in Neutron, and must not be taken for missing rights, for a request too many or for a
//! conflict. So each refusal is given a [name](name) first, and the table says what that means. The reference knows 401, 403 and two texts.

use cloud::codes::{During, Meaning, Row};
use driver::{Code, DriverError};
use http::StatusCode;
use serde_json::Value;

use crate::answer::text;

/// A service that said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// What Neutron calls it.
    pub(crate) kind: String,
    pub(crate) message: String,
    /// In seconds; zero if not said.
    pub(crate) retry_after: u64,
}

const fn always(cloud: &'static str, code: Code, advice: &'static str) -> Row {
    Row { cloud, create: code, elsewhere: code, meaning: Meaning::ThisCall, advice }
}

const fn full(cloud: &'static str, meaning: Meaning, advice: &'static str) -> Row {
    Row { cloud, create: Code::ResourceExhausted, elsewhere: Code::Internal, meaning, advice }
}

const fn bad_request(cloud: &'static str) -> Row {
    Row { cloud, create: Code::InvalidArgument, elsewhere: Code::Internal, meaning: Meaning::ThisCall, advice: "" }
}

const RAISE: &str = "ask the operator of the cloud to raise it, or remove what is not needed";

/// One row a name.
pub(crate) const TABLE: &[Row] = &[
    full("NoValidHost", Meaning::NoCapacity, "no host of the zone has room for the flavor"),
    full("FlavorNotFound", Meaning::ThisCall, "check flavorName, and whether the project may use it"),
    full("QuotaExceeded", Meaning::Quota("of the project"), RAISE),
    full("OverQuota", Meaning::Quota("of the project's network"), RAISE),
    full("IpAddressGenerationFailure", Meaning::NoCapacity, "the subnet has no free address"),
    full("NoMoreFixedIps", Meaning::NoCapacity, "the subnet has no free address"),
    Row {
        cloud: "Throttled",
        create: Code::Unavailable,
        elsewhere: Code::Unavailable,
        meaning: Meaning::Throttled,
        advice: "the project asks too often; requests are slowed down until OpenStack accepts them",
    },
    always("HTTP 401", Code::Unauthenticated, "check the credentials in the Secret of the class"),
    always("HTTP 403", Code::PermissionDenied, "check the roles of the user in the project"),
    Row {
        cloud: "HTTP 404",
        create: Code::InvalidArgument,
        elsewhere: Code::NotFound,
        meaning: Meaning::ThisCall,
        advice: "",
    },
    always("HTTP 409", Code::Aborted, ""),
    bad_request("HTTP 4*"),
    always("HTTP 5*", Code::Unavailable, ""),
];

/// What the table knows a refusal by.
pub(crate) fn name(refusal: &Refusal) -> String {
    let says = |word: &str| refusal.message.contains(word);
    let by_words = match refusal.status {
        429 => Some("Throttled"),
        413 if refusal.retry_after > 0 => Some("Throttled"),
        413 => Some("QuotaExceeded"),
        403 if says("uota") || says("OverLimit") || says("LimitExceeded") => Some("QuotaExceeded"),
        _ => by_text(&refusal.message),
    };
    match by_words {
        Some(name) => name.to_owned(),
        None if TABLE.iter().any(|row| row.cloud == refusal.kind) => refusal.kind.clone(),
        None => format!("HTTP {}", refusal.status),
    }
}

/// What is told in words only, in an answer or as the fault of a server.
fn by_text(message: &str) -> Option<&'static str> {
    let says = |word: &str| message.contains(word);
    if says("No valid host was found") || says("Exhausted all hosts available") {
        Some("NoValidHost")
    } else if says("error resolving flavor") {
        Some("FlavorNotFound")
    } else if says("Quota exceeded") || says("exceeded for quota") || says("exceeds allowed") {
        Some("QuotaExceeded")
    } else if says("No more IP addresses") || says("No fixed IP addresses available") {
        Some("NoMoreFixedIps")
    } else {
        None
    }
}

/// A refusal as an error, and what it means for others.
pub(crate) fn error(refusal: &Refusal, during: During, hidden: &[&str]) -> (DriverError, Meaning) {
    let name = name(refusal);
    let error = cloud::codes::error(TABLE, &name, &refusal.message, during, hidden);
    (error, cloud::codes::meaning(TABLE, &name))
}

/// The fault of a server that was accepted and not made.
pub(crate) fn fault(message: &str, hidden: &[&str]) -> (DriverError, Meaning) {
    let name = by_text(message).unwrap_or("the server failed to build");
    let error = cloud::codes::error(TABLE, name, message, During::Create, hidden);
    (error, cloud::codes::meaning(TABLE, name))
}

/// A flavor that the project does not have, which the reference counts as used up.
pub(crate) fn no_flavor(flavor: &str) -> DriverError {
    let message = format!("the project has no flavor {flavor:?}");
    cloud::codes::error(TABLE, "FlavorNotFound", &message, During::Create, &[])
}

/// What a refusal says: each service puts it into an object of its own, proxies into none.
pub(crate) fn refusal(status: StatusCode, retry_after: Option<&str>, body: &[u8]) -> Refusal {
    let read: Value = serde_json::from_slice(body).unwrap_or_default();
    let inner = read.as_object().and_then(|fields| fields.values().find(|value| value.is_object())).unwrap_or(&read);
    let message = match text(inner, "message") {
        "" => status.canonical_reason().unwrap_or("no error of its own"),
        message => message,
    };
    let retry_after = retry_after.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or_default();
    Refusal { status: status.as_u16(), kind: text(inner, "type").to_owned(), message: message.to_owned(), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn read(status: u16, retry_after: Option<&str>, body: &str) -> Refusal {
        refusal(StatusCode::from_u16(status).unwrap(), retry_after, body.as_bytes())
    }

    const QUOTA: &str = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}"#;
    const RIGHTS: &str = r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}"#;
    const VOLUMES: &str = r#"{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.", "retryAfter": "0"}}"#;
    const PORTS: &str = r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port'].", "detail": ""}}"#;
    const ADDRESSES: &str = r#"{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network n.", "detail": ""}}"#;
    const ZONE: &str =
        r#"{"badRequest": {"code": 400, "message": "The requested availability zone is not available"}}"#;
    const FLAVOR: &str = r#"{"badRequest": {"code": 400, "message": "Flavor nope could not be found."}}"#;
    const HOST: &str =
        r#"{"badRequest": {"code": 400, "message": "No valid host was found. There are not enough hosts available."}}"#;
    const TOKEN: &str = r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#;
    const CONFLICT: &str =
        r#"{"conflictingRequest": {"code": 409, "message": "Cannot 'delete' instance s while it is in task_state x"}}"#;
    const OVER: &str = r#"{"overLimit": {"code": 413, "message": "This request was rate-limited."}}"#;
    const MISSING: &str = r#"{"itemNotFound": {"code": 404, "message": "Instance s could not be found."}}"#;

    #[rstest]
    #[case::quota_of_nova(403, None, QUOTA, Code::ResourceExhausted, Code::Internal, Meaning::Quota("of the project"))]
    #[case::no_rights(403, None, RIGHTS, Code::PermissionDenied, Code::PermissionDenied, Meaning::ThisCall)]
    #[case::quota_of_cinder(
        413,
        Some("0"),
        VOLUMES,
        Code::ResourceExhausted,
        Code::Internal,
        Meaning::Quota("of the project")
    )]
    #[case::quota_of_neutron(
        409,
        None,
        PORTS,
        Code::ResourceExhausted,
        Code::Internal,
        Meaning::Quota("of the project")
    )]
    #[case::no_address(409, None, ADDRESSES, Code::ResourceExhausted, Code::Internal, Meaning::NoCapacity)]
    #[case::too_often_413(413, Some("7"), OVER, Code::Unavailable, Code::Unavailable, Meaning::Throttled)]
    #[case::too_often_429(429, Some("7"), "", Code::Unavailable, Code::Unavailable, Meaning::Throttled)]
    #[case::bad_zone(400, None, ZONE, Code::InvalidArgument, Code::Internal, Meaning::ThisCall)]
    #[case::bad_flavor(400, None, FLAVOR, Code::InvalidArgument, Code::Internal, Meaning::ThisCall)]
    #[case::no_host(400, None, HOST, Code::ResourceExhausted, Code::Internal, Meaning::NoCapacity)]
    #[case::token(401, None, TOKEN, Code::Unauthenticated, Code::Unauthenticated, Meaning::ThisCall)]
    #[case::missing(404, None, MISSING, Code::InvalidArgument, Code::NotFound, Meaning::ThisCall)]
    #[case::conflict(409, None, CONFLICT, Code::Aborted, Code::Aborted, Meaning::ThisCall)]
    #[case::broken(500, None, "<html>", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::gateway(503, None, "", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::moved(302, None, "", Code::Internal, Code::Internal, Meaning::ThisCall)]
    fn each_refusal_of_openstack_has_its_code(
        #[case] status: u16,
        #[case] retry_after: Option<&str>,
        #[case] body: &str,
        #[case] create: Code,
        #[case] elsewhere: Code,
        #[case] meaning: Meaning,
    ) {
        let refusal = read(status, retry_after, body);
        let (error, told) = super::error(&refusal, During::Create, &[]);
        assert_eq!((error.code(), told), (create, meaning), "{error}");
        assert_eq!(super::error(&refusal, During::Elsewhere, &[]).0.code(), elsewhere);
        if body.contains("message") {
            assert!(error.message().contains(&refusal.message), "{error}");
        }
    }

    #[rstest]
    #[case("No valid host was found. There are not enough hosts available.", Code::ResourceExhausted)]
    #[case(
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures",
        Code::ResourceExhausted
    )]
    #[case(
        "Build of instance s aborted: VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.",
        Code::ResourceExhausted
    )]
    #[case("Build of instance s aborted: Failed to allocate the network(s), not rescheduling.", Code::Internal)]
    #[case("", Code::Internal)]
    fn each_fault_of_a_server_has_its_code(#[case] fault: &str, #[case] code: Code) {
        assert_eq!(super::fault(fault, &[]).0.code(), code);
    }

    #[test]
    fn a_flavor_that_is_not_there_counts_as_used_up_as_in_the_reference() {
        assert_eq!(no_flavor("m1.tiny").code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_secret_that_openstack_repeats_is_not_told_on() {
        let refusal = read(401, None, r#"{"error": {"message": "no hunter2 here"}}"#);
        assert!(!super::error(&refusal, During::Create, &["hunter2"]).0.message().contains("hunter2"));
    }
}
