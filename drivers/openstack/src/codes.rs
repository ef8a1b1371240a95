//! Maps OpenStack errors to driver codes.
//!
//! OpenStack uses HTTP statuses and texts: Neutron has error types, Nova and Cinder only messages. An exceeded quota is
//! 403 in Nova, 413 in Cinder and 409 in Neutron, and must not be confused with missing permissions, throttling or a
//! conflict. Each error therefore gets a [name](name) first, and the table maps the name. The reference handles 401,
//! 403 and two texts.
//!
//! An error text begins with the status and the service's own word for the error (a title, Neutron's type, the name of
//! the JSON object). Gardener classifies errors by these words.
//!
//! A 404 means that a resource does not exist only if the service itself says so in its own error object. Gateways and
//! proxies return 404 while a service is down.

use driver::{Code, DriverError, RetryClass};
use driver_common::codes::{During, Meaning, Row};
use http::StatusCode;
use serde_json::Value;

use crate::answer::text;

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Neutron's error type.
    pub(crate) kind: String,
    /// The service's word for the error, or the HTTP reason phrase.
    pub(crate) word: String,
    pub(crate) message: String,
    /// Retry-After in seconds; zero if absent.
    pub(crate) retry_after: u64,
    /// Whether the JSON object is the one in which this service reports that a resource does not exist.
    pub(crate) own: bool,
}

/// The object in which Nova and Cinder report that a resource does not exist.
pub(crate) const ITEM_NOT_FOUND: &str = "itemNotFound";

/// The object of all Neutron errors.
pub(crate) const NEUTRON_ERROR: &str = "NeutronError";

/// The object of all Keystone errors.
pub(crate) const KEYSTONE_ERROR: &str = "error";

/// The name of a 404 that the service itself did not send.
const NOT_FROM_SERVICE: &str = "Unanswered";

const fn always(cloud: &'static str, code: Code, advice: &'static str) -> Row {
    Row { cloud, create: code, elsewhere: code, meaning: Meaning::ThisCall, advice }
}

const fn full(cloud: &'static str, meaning: Meaning, advice: &'static str) -> Row {
    Row { cloud, create: Code::ResourceExhausted, elsewhere: Code::Internal, meaning, advice }
}

const fn bad_request(cloud: &'static str) -> Row {
    Row { cloud, create: Code::InvalidArgument, elsewhere: Code::Internal, meaning: Meaning::ThisCall, advice: "" }
}

const RAISE: &str = "request an increase from the operator of the cloud or delete unused resources";

/// One row per name.
pub(crate) const TABLE: &[Row] = &[
    full("NoValidHost", Meaning::NoCapacity, "no host in the zone has capacity for the flavor"),
    full("FlavorNotFound", Meaning::ThisCall, "check flavorName and the access of the project to it"),
    full("QuotaExceeded", Meaning::Quota("of the project"), RAISE),
    full("OverQuota", Meaning::Quota("of the project's network"), RAISE),
    full("IpAddressGenerationFailure", Meaning::NoCapacity, "the subnet has no free address"),
    full("NoMoreFixedIps", Meaning::NoCapacity, "the subnet has no free address"),
    Row {
        cloud: "Throttled",
        create: Code::Unavailable,
        elsewhere: Code::Unavailable,
        meaning: Meaning::Throttled,
        advice: "the project exceeds its request rate; the driver sends fewer requests until OpenStack accepts them",
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
    always(
        NOT_FROM_SERVICE,
        Code::Unavailable,
        "the service itself did not respond; check its endpoint in the Keystone catalog and the gateway in front of it",
    ),
    always("HTTP 409", Code::Aborted, ""),
    bad_request("HTTP 4*"),
    always("HTTP 5*", Code::Unavailable, ""),
];

/// Returns the name of an error in the table.
pub(crate) fn name(refusal: &Refusal) -> String {
    let says = |word: &str| refusal.message.contains(word);
    let by_words = match refusal.status {
        429 => Some("Throttled"),
        413 if refusal.retry_after > 0 => Some("Throttled"),
        413 => Some("QuotaExceeded"),
        404 if !refusal.own => Some(NOT_FROM_SERVICE),
        403 if says("uota") || says("OverLimit") || says("LimitExceeded") => Some("QuotaExceeded"),
        _ => by_text(&refusal.message),
    };
    match by_words {
        Some(name) => name.to_owned(),
        None if TABLE.iter().any(|row| row.cloud == refusal.kind) => refusal.kind.clone(),
        None => format!("HTTP {}", refusal.status),
    }
}

/// Classifies by text: a message of a response or the fault of a server.
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

/// Converts an OpenStack error to a driver error, with its meaning beyond the call.
pub(crate) fn error(refusal: &Refusal, during: During, hidden: &[&str]) -> (DriverError, Meaning) {
    let (name, status) = (name(refusal), format!("HTTP {} {}", refusal.status, refusal.word));
    let has_name = name != NOT_FROM_SERVICE && !name.starts_with("HTTP ") && name != refusal.word;
    let title = if has_name { format!("{name} ({status})") } else { status };
    let error = driver_common::codes::titled(TABLE, &name, &title, &refusal.message, during, hidden);
    (error, driver_common::codes::meaning(TABLE, &name))
}

/// Returns whether a retry within the same call may succeed.
pub(crate) fn is_transient(error: &DriverError) -> bool {
    error.retry_class() == RetryClass::Transient && error.code() != Code::DeadlineExceeded
}

/// Converts the fault of a server that Nova accepted but failed to build.
pub(crate) fn fault(message: &str, hidden: &[&str]) -> (DriverError, Meaning) {
    let name = by_text(message).unwrap_or("the server failed to build");
    let error = driver_common::codes::error(TABLE, name, message, During::Create, hidden);
    (error, driver_common::codes::meaning(TABLE, name))
}

/// Returns the error for a missing flavor, which the reference maps to ResourceExhausted.
pub(crate) fn no_flavor(flavor: &str) -> DriverError {
    let message = format!("the project has no flavor {flavor:?}");
    driver_common::codes::error(TABLE, "FlavorNotFound", &message, During::Create, &[])
}

/// Decodes an error response. Each service has its own JSON object, proxies have none. `own` is the name of the object
/// in which the service reports that a resource does not exist, if it has one.
pub(crate) fn refusal(status: StatusCode, retry_after: Option<&str>, body: &[u8], own: Option<&str>) -> Refusal {
    let read: Value = serde_json::from_slice(body).unwrap_or_default();
    let object = read.as_object().and_then(|fields| fields.iter().find(|(_, value)| value.is_object()));
    let (object, inner) = object.map_or(("", &read), |(name, value)| (name.as_str(), value));
    let reason = status.canonical_reason().unwrap_or("unknown error");
    let first = |texts: &[&str]| texts.iter().find(|text| !text.is_empty()).copied().unwrap_or(reason).to_owned();
    // These two name the service, not the error.
    let named = if [NEUTRON_ERROR, KEYSTONE_ERROR].contains(&object) { "" } else { object };
    let retry_after = retry_after.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or_default();
    Refusal {
        status: status.as_u16(),
        kind: text(inner, "type").to_owned(),
        word: first(&[text(inner, "type"), text(inner, "title"), named]),
        message: first(&[text(inner, "message")]),
        retry_after,
        own: own == Some(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn read(status: u16, retry_after: Option<&str>, body: &str) -> Refusal {
        let own = if body.contains(NEUTRON_ERROR) { NEUTRON_ERROR } else { ITEM_NOT_FOUND };
        refusal(StatusCode::from_u16(status).unwrap(), retry_after, body.as_bytes(), Some(own))
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

    const NO_PORT: &str =
        r#"{"NeutronError": {"type": "PortNotFound", "message": "Port p could not be found.", "detail": ""}}"#;
    const GATEWAY: &str = r#"{"message": "no Route matched with those values"}"#;
    const POLICY: &str = r#"{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:create_port is disallowed by policy", "detail": ""}}"#;

    /// Shows OST-9, OST-15, OST-W1.
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
    #[case::missing_port(404, None, NO_PORT, Code::InvalidArgument, Code::NotFound, Meaning::ThisCall)]
    #[case::gateway_html(404, None, "<html>404</html>", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::gateway_json(404, None, GATEWAY, Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::gateway_empty(404, None, "", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::conflict(409, None, CONFLICT, Code::Aborted, Code::Aborted, Meaning::ThisCall)]
    #[case::broken(500, None, "<html>", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::gateway(503, None, "", Code::Unavailable, Code::Unavailable, Meaning::ThisCall)]
    #[case::moved(302, None, "", Code::Internal, Code::Internal, Meaning::ThisCall)]
    fn error_of_openstack_is_mapped_to_its_code(
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

    /// Shows OST-19.
    #[rstest]
    #[case(401, TOKEN, "HTTP 401 Unauthorized: The request you have made requires authentication.; check")]
    #[case(401, "", "HTTP 401 Unauthorized: Unauthorized; check")]
    #[case(403, POLICY, "HTTP 403 PolicyNotAuthorized: rule:create_port is disallowed by policy; check")]
    #[case(
        403,
        RIGHTS,
        "HTTP 403 forbidden: Policy doesn't allow os_compute_api:servers:create to be performed.; check"
    )]
    #[case(403, QUOTA, "QuotaExceeded (HTTP 403 forbidden): Quota exceeded for instances:")]
    #[case(409, PORTS, "QuotaExceeded (HTTP 409 OverQuota): Quota exceeded for resources: ['port'].")]
    #[case(409, CONFLICT, "HTTP 409 conflictingRequest: Cannot 'delete' instance s while")]
    #[case(404, MISSING, "HTTP 404 itemNotFound: Instance s could not be found.")]
    #[case(404, "<html>404</html>", "HTTP 404 Not Found: Not Found; the service itself did not respond")]
    #[case(500, "<html>", "HTTP 500 Internal Server Error: Internal Server Error")]
    #[case(429, "", "Throttled (HTTP 429 Too Many Requests): Too Many Requests; the project exceeds its request rate")]
    fn error_text_begins_with_the_words_of_the_service(#[case] status: u16, #[case] body: &str, #[case] text: &str) {
        let (error, _) = super::error(&read(status, None, body), During::Create, &[]);
        assert!(error.message().starts_with(text), "{error}");
    }

    /// The words by which Gardener's OpenStack extension classifies errors, in lower case. It searches
    /// `lastOperation.description` for them.
    const GARDENER: [(&str, &[&str]); 5] = [
        ("ERR_INFRA_UNAUTHORIZED", &["unauthorized", "policynotauthorized", "not authorized", "accessdenied"]),
        ("ERR_INFRA_QUOTA_EXCEEDED", &["quota exceeded", "quotaexceeded", "volumelimitexceeded", "exceeded quota"]),
        ("ERR_INFRA_RATE_LIMITS_EXCEEDED", &["requestlimitexceeded", "throttling", "too many requests"]),
        ("ERR_INFRA_DEPENDENCIES", &["conflict", "internal server error", "there are not enough hosts available"]),
        ("ERR_CONFIGURATION_PROBLEM", &["policy doesn't allow", "notfound", "invalid value"]),
    ];

    /// Shows OST-19.
    #[rstest]
    #[case(401, TOKEN, &["ERR_INFRA_UNAUTHORIZED"])]
    #[case(403, POLICY, &["ERR_INFRA_UNAUTHORIZED"])]
    #[case(403, RIGHTS, &["ERR_CONFIGURATION_PROBLEM"])]
    #[case(403, QUOTA, &["ERR_INFRA_QUOTA_EXCEEDED"])]
    #[case(413, VOLUMES, &["ERR_INFRA_QUOTA_EXCEEDED"])]
    #[case(409, PORTS, &["ERR_INFRA_QUOTA_EXCEEDED"])]
    #[case(409, CONFLICT, &["ERR_INFRA_DEPENDENCIES"])]
    #[case(400, HOST, &["ERR_INFRA_DEPENDENCIES"])]
    #[case(404, MISSING, &["ERR_CONFIGURATION_PROBLEM"])]
    #[case(404, NO_PORT, &["ERR_CONFIGURATION_PROBLEM"])]
    #[case(429, "", &["ERR_INFRA_RATE_LIMITS_EXCEEDED"])]
    #[case(400, ZONE, &[])]
    fn error_text_is_classified_by_gardener(#[case] status: u16, #[case] body: &str, #[case] codes: &[&str]) {
        let (error, _) = super::error(&read(status, None, body), During::Create, &[]);
        let shown = error.message().to_lowercase();
        let has = |(_, words): &&(&str, &[&str])| words.iter().any(|word| shown.contains(word));
        let found: Vec<&str> = GARDENER.iter().filter(has).map(|(code, _)| *code).collect();
        assert_eq!(found, codes, "{error}");
    }

    /// Shows OST-9.
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
    fn server_fault_is_mapped_to_its_code(#[case] fault: &str, #[case] code: Code) {
        assert_eq!(super::fault(fault, &[]).0.code(), code);
    }

    /// Shows OST-9.
    #[test]
    fn missing_flavor_is_resource_exhausted_as_in_the_reference() {
        assert_eq!(no_flavor("m1.tiny").code(), Code::ResourceExhausted);
    }

    /// Shows OST-11.
    #[test]
    fn secret_repeated_by_openstack_is_redacted() {
        let refusal = read(401, None, r#"{"error": {"message": "no hunter2 here"}}"#);
        assert!(!super::error(&refusal, During::Create, &["hunter2"]).0.message().contains("hunter2"));
    }
}
