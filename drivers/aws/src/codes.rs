//! Maps the error codes of EC2 and STS to driver codes.
//!
//! The first three groups are the reference's, except `InsufficientFreeAddressesInSubnet`, which the reference maps to
//! `Internal`. Unknown codes are `Internal`, as in the reference. The other rows are finer than the reference: they
//! separate a configuration error from a cloud outage, which the limiter and the autoscaler handle differently.

use driver::{Code, DriverError};
use driver_common::codes::{During, Meaning, Row};

use crate::answer::Refusal;

const fn full(cloud: &'static str, meaning: Meaning, advice: &'static str) -> Row {
    Row { cloud, create: Code::ResourceExhausted, elsewhere: Code::Internal, meaning, advice }
}

const fn no_capacity(cloud: &'static str) -> Row {
    full(cloud, Meaning::NoCapacity, "")
}

const fn quota(cloud: &'static str, of: &'static str) -> Row {
    full(cloud, Meaning::Quota(of), "request an increase from AWS or delete unused resources")
}

const fn always(cloud: &'static str, code: Code, advice: &'static str) -> Row {
    Row { cloud, create: code, elsewhere: code, meaning: Meaning::ThisCall, advice }
}

const fn throttled(cloud: &'static str) -> Row {
    Row {
        cloud,
        create: Code::Unavailable,
        elsewhere: Code::Unavailable,
        meaning: Meaning::Throttled,
        advice: "the account exceeds its request rate; the driver sends fewer requests until AWS accepts them",
    }
}

const fn bad_request(cloud: &'static str) -> Row {
    Row { cloud, create: Code::InvalidArgument, elsewhere: Code::Internal, meaning: Meaning::ThisCall, advice: "" }
}

const fn no_instance(cloud: &'static str) -> Row {
    Row { cloud, create: Code::Internal, elsewhere: Code::NotFound, meaning: Meaning::ThisCall, advice: "" }
}

const KEYS: &str = "check the credentials in the Secret of the class";
const EXPIRED: &str = "the session has expired; role credentials are renewed automatically, other credentials must be replaced in the Secret";
const SKEWED: &str = "the request was too old when it arrived; check the clock of the host";
const RIGHTS: &str = "check the policies of the credentials";

/// One row per error code.
pub(crate) const TABLE: &[Row] = &[
    no_capacity("InsufficientInstanceCapacity"),
    no_capacity("InsufficientCapacity"),
    no_capacity("InsufficientAddressCapacity"),
    no_capacity("InsufficientVolumeCapacity"),
    no_capacity("Unsupported"),
    full("InsufficientFreeAddressesInSubnet", Meaning::NoCapacity, "the subnet has no free address"),
    quota("InstanceLimitExceeded", "running instances"),
    quota("VcpuLimitExceeded", "vCPUs of running instances"),
    quota("VolumeLimitExceeded", "EBS volumes"),
    quota("MaxIOPSLimitExceeded", "provisioned IOPS of EBS volumes"),
    quota("RouteLimitExceeded", "routes of a route table"),
    // The rows below are finer than the reference.
    quota("MaxSpotInstanceCountExceeded", "spot instances"),
    full("SpotMaxPriceTooLow", Meaning::NoCapacity, "spotPrice is below the current spot price"),
    no_capacity("ReservationCapacityExceeded"),
    no_capacity("InsufficientHostCapacity"),
    no_capacity("InsufficientReservedInstanceCapacity"),
    no_capacity("UnfulfillableCapacity"),
    full("InsufficientCidrBlocks", Meaning::NoCapacity, "the subnet has no free prefix"),
    always("AuthFailure", Code::Unauthenticated, KEYS),
    always("InvalidClientTokenId", Code::Unauthenticated, KEYS),
    always("SignatureDoesNotMatch", Code::Unauthenticated, KEYS),
    always("UnrecognizedClientException", Code::Unauthenticated, KEYS),
    always(
        "InvalidIdentityToken",
        Code::Unauthenticated,
        "check the token file and the identity provider in the trust policy of the role",
    ),
    always("ExpiredToken", Code::Unauthenticated, EXPIRED),
    always("ExpiredTokenException", Code::Unauthenticated, EXPIRED),
    always("RequestExpired", Code::Unauthenticated, SKEWED),
    always("UnauthorizedOperation", Code::PermissionDenied, RIGHTS),
    always("AccessDenied", Code::PermissionDenied, RIGHTS),
    always("OptInRequired", Code::PermissionDenied, "subscribe the account to this service or image"),
    throttled("RequestLimitExceeded"),
    throttled("Throttling"),
    throttled("ThrottlingException"),
    always("ServiceUnavailable", Code::Unavailable, ""),
    always("Unavailable", Code::Unavailable, ""),
    always("InternalError", Code::Unavailable, ""),
    always("InternalFailure", Code::Unavailable, ""),
    no_instance("InvalidInstanceID.NotFound"),
    no_instance("InvalidInstanceID.Malformed"),
    always("IdempotentInstanceTerminated", Code::Aborted, ""),
    Row {
        cloud: "IdempotentParameterMismatch",
        create: Code::Aborted,
        elsewhere: Code::Internal,
        meaning: Meaning::ThisCall,
        advice: "an earlier request for this machine had different parameters; the driver looks up its instance",
    },
    bad_request("Invalid*.NotFound"),
    bad_request("Invalid*.Malformed"),
    bad_request("InvalidParameter*"),
    bad_request("MissingParameter"),
];

/// Returns what an error code means beyond the failed call.
pub(crate) fn meaning(code: &str) -> Meaning {
    driver_common::codes::meaning(TABLE, code)
}

/// Converts an EC2 error to a driver error.
pub(crate) fn error(refusal: &Refusal, during: During, hidden: &[&str]) -> DriverError {
    driver_common::codes::error(TABLE, &refusal.code, &refusal.message, during, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn code(cloud: &str, during: During) -> Code {
        error(&Refusal { code: cloud.into(), message: "m".into() }, during, &[]).code()
    }

    /// Shows AWS-6, AWS-C5.
    #[rstest]
    #[case("InsufficientInstanceCapacity", Code::ResourceExhausted, Code::Internal)]
    #[case("InsufficientCapacity", Code::ResourceExhausted, Code::Internal)]
    #[case("InsufficientAddressCapacity", Code::ResourceExhausted, Code::Internal)]
    #[case("InsufficientVolumeCapacity", Code::ResourceExhausted, Code::Internal)]
    #[case("InstanceLimitExceeded", Code::ResourceExhausted, Code::Internal)]
    #[case("VcpuLimitExceeded", Code::ResourceExhausted, Code::Internal)]
    #[case("VolumeLimitExceeded", Code::ResourceExhausted, Code::Internal)]
    #[case("MaxIOPSLimitExceeded", Code::ResourceExhausted, Code::Internal)]
    #[case("RouteLimitExceeded", Code::ResourceExhausted, Code::Internal)]
    #[case("Unsupported", Code::ResourceExhausted, Code::Internal)]
    #[case("InsufficientFreeAddressesInSubnet", Code::ResourceExhausted, Code::Internal)]
    #[case("InvalidInstanceID.NotFound", Code::Internal, Code::NotFound)]
    #[case("SomethingUnknown", Code::Internal, Code::Internal)]
    fn error_code_of_the_reference_is_kept(#[case] cloud: &str, #[case] create: Code, #[case] elsewhere: Code) {
        assert_eq!((code(cloud, During::Create), code(cloud, During::Elsewhere)), (create, elsewhere));
    }

    /// Shows AWS-7, AWS-C5.
    #[rstest]
    #[case("AuthFailure", Code::Unauthenticated)]
    #[case("InvalidClientTokenId", Code::Unauthenticated)]
    #[case("SignatureDoesNotMatch", Code::Unauthenticated)]
    #[case("UnrecognizedClientException", Code::Unauthenticated)]
    #[case("InvalidIdentityToken", Code::Unauthenticated)]
    #[case("ExpiredToken", Code::Unauthenticated)]
    #[case("ExpiredTokenException", Code::Unauthenticated)]
    #[case("RequestExpired", Code::Unauthenticated)]
    #[case("UnauthorizedOperation", Code::PermissionDenied)]
    #[case("AccessDenied", Code::PermissionDenied)]
    #[case("OptInRequired", Code::PermissionDenied)]
    #[case("MaxSpotInstanceCountExceeded", Code::ResourceExhausted)]
    #[case("SpotMaxPriceTooLow", Code::ResourceExhausted)]
    #[case("ReservationCapacityExceeded", Code::ResourceExhausted)]
    #[case("InsufficientHostCapacity", Code::ResourceExhausted)]
    #[case("InsufficientReservedInstanceCapacity", Code::ResourceExhausted)]
    #[case("UnfulfillableCapacity", Code::ResourceExhausted)]
    #[case("InsufficientCidrBlocks", Code::ResourceExhausted)]
    #[case("RequestLimitExceeded", Code::Unavailable)]
    #[case("Throttling", Code::Unavailable)]
    #[case("ThrottlingException", Code::Unavailable)]
    #[case("ServiceUnavailable", Code::Unavailable)]
    #[case("Unavailable", Code::Unavailable)]
    #[case("InternalError", Code::Unavailable)]
    #[case("InternalFailure", Code::Unavailable)]
    #[case("InvalidInstanceID.Malformed", Code::Internal)]
    #[case("IdempotentInstanceTerminated", Code::Aborted)]
    #[case("IdempotentParameterMismatch", Code::Aborted)]
    #[case("InvalidAMIID.NotFound", Code::InvalidArgument)]
    #[case("InvalidAMIID.Malformed", Code::InvalidArgument)]
    #[case("InvalidSubnetID.NotFound", Code::InvalidArgument)]
    #[case("InvalidGroup.NotFound", Code::InvalidArgument)]
    #[case("InvalidKeyPair.NotFound", Code::InvalidArgument)]
    #[case("InvalidParameterValue", Code::InvalidArgument)]
    #[case("InvalidParameterCombination", Code::InvalidArgument)]
    #[case("MissingParameter", Code::InvalidArgument)]
    fn error_code_finer_than_the_reference_maps_to_its_cause(#[case] cloud: &str, #[case] create: Code) {
        assert_eq!(code(cloud, During::Create), create);
    }

    /// Shows AWS-7.
    #[rstest]
    #[case("AuthFailure", Code::Unauthenticated)]
    #[case("AccessDenied", Code::PermissionDenied)]
    #[case("RequestLimitExceeded", Code::Unavailable)]
    #[case("InvalidInstanceID.Malformed", Code::NotFound)]
    #[case("InvalidSubnetID.NotFound", Code::Internal)]
    fn account_wide_error_code_maps_equally_in_every_call(#[case] cloud: &str, #[case] elsewhere: Code) {
        assert_eq!(code(cloud, During::Elsewhere), elsewhere);
    }

    /// Shows AWS-8.
    #[test]
    fn quota_error_names_the_quota() {
        let refusal =
            Refusal { code: "VcpuLimitExceeded".into(), message: "You have requested more vCPU capacity".into() };
        let told = error(&refusal, During::Create, &[]);
        assert!(told.message().contains("(quota: vCPUs of running instances)"), "{told}");
        assert!(matches!(meaning("VcpuLimitExceeded"), Meaning::Quota(_)));
        assert_eq!(meaning("InsufficientInstanceCapacity"), Meaning::NoCapacity);
        assert_eq!(meaning("RequestLimitExceeded"), Meaning::Throttled);
        assert_eq!(meaning("AuthFailure"), Meaning::ThisCall);
    }

    /// Shows AWS-7.
    #[test]
    fn request_expired_error_advises_to_check_the_clock() {
        let refusal = Refusal { code: "RequestExpired".into(), message: "Request has expired.".into() };
        let told = error(&refusal, During::Elsewhere, &[]);
        assert!(told.message().contains("check the clock"), "{told}");
    }

    /// Gardener classifies `lastOperation.description` by these words.
    /// Shows AWS-33.
    #[test]
    fn error_text_keeps_the_code_of_ec2() {
        for row in TABLE {
            let refusal = Refusal { code: row.cloud.replace('*', "X"), message: "m".into() };
            for during in [During::Create, During::Elsewhere] {
                let told = error(&refusal, during, &[]);
                assert!(told.message().starts_with(&format!("{}: m", refusal.code)), "{told}");
            }
        }
    }

    #[test]
    fn no_error_code_has_two_rows() {
        let mut seen = std::collections::BTreeSet::new();
        assert!(TABLE.iter().all(|row| seen.insert(row.cloud)));
    }
}
