//! What EC2's and STS' error codes mean.
//!
//! The first three groups are the reference's own (`InsufficientFreeAddressesInSubnet` excepted, which it calls `Internal`), and so is
//! `Internal` for whatever no row knows. The rest is finer than the reference:
//! it tells an operator's mistake from a cloud that is down, which the limiter and the autoscaler act on.

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
    full(cloud, Meaning::Quota(of), "ask AWS to raise it, or remove what is not needed")
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
        advice: "the account asks too often; requests are slowed down until AWS accepts them",
    }
}

const fn bad_request(cloud: &'static str) -> Row {
    Row { cloud, create: Code::InvalidArgument, elsewhere: Code::Internal, meaning: Meaning::ThisCall, advice: "" }
}

const fn no_instance(cloud: &'static str) -> Row {
    Row { cloud, create: Code::Internal, elsewhere: Code::NotFound, meaning: Meaning::ThisCall, advice: "" }
}

const KEYS: &str = "check the credentials in the Secret of the class";
const EXPIRED: &str = "the session has expired; credentials of a role are renewed by themselves, others have to be replaced in the Secret";
const SKEWED: &str =
    "the request was too old when it arrived; check the clock of the machine that this process runs on";
const RIGHTS: &str = "check the policies of the credentials";

/// One row a code.
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
    // Finer than the reference from here on.
    quota("MaxSpotInstanceCountExceeded", "spot instances"),
    full("SpotMaxPriceTooLow", Meaning::NoCapacity, "spotPrice is below the price of today"),
    no_capacity("ReservationCapacityExceeded"),
    no_capacity("InsufficientHostCapacity"),
    no_capacity("InsufficientReservedInstanceCapacity"),
    no_capacity("UnfulfillableCapacity"),
    full("InsufficientCidrBlocks", Meaning::NoCapacity, "the subnet has no free prefix"),
    always("AuthFailure", Code::Unauthenticated, KEYS),
    always("InvalidClientTokenId", Code::Unauthenticated, KEYS),
    always("SignatureDoesNotMatch", Code::Unauthenticated, KEYS),
    always("UnrecognizedClientException", Code::Unauthenticated, KEYS),
    always("InvalidIdentityToken", Code::Unauthenticated, "check the token file and the provider that the role trusts"),
    always("ExpiredToken", Code::Unauthenticated, EXPIRED),
    always("ExpiredTokenException", Code::Unauthenticated, EXPIRED),
    always("RequestExpired", Code::Unauthenticated, SKEWED),
    always("UnauthorizedOperation", Code::PermissionDenied, RIGHTS),
    always("AccessDenied", Code::PermissionDenied, RIGHTS),
    always("OptInRequired", Code::PermissionDenied, "the account has to subscribe to this service or image first"),
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
        advice: "an earlier request for this machine said something else; what it made is looked for",
    },
    bad_request("Invalid*.NotFound"),
    bad_request("Invalid*.Malformed"),
    bad_request("InvalidParameter*"),
    bad_request("MissingParameter"),
];

/// What a refusal means beyond the call that it ended.
pub(crate) fn meaning(code: &str) -> Meaning {
    driver_common::codes::meaning(TABLE, code)
}

/// A refusal as an error.
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
    #[case("SomethingNobodyKnows", Code::Internal, Code::Internal)]
    fn the_reference_s_codes_are_kept(#[case] cloud: &str, #[case] create: Code, #[case] elsewhere: Code) {
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
    fn the_codes_that_are_finer_than_the_reference_s_say_whose_turn_it_is(#[case] cloud: &str, #[case] create: Code) {
        assert_eq!(code(cloud, During::Create), create);
    }

    /// Shows AWS-7.
    #[rstest]
    #[case("AuthFailure", Code::Unauthenticated)]
    #[case("AccessDenied", Code::PermissionDenied)]
    #[case("RequestLimitExceeded", Code::Unavailable)]
    #[case("InvalidInstanceID.Malformed", Code::NotFound)]
    #[case("InvalidSubnetID.NotFound", Code::Internal)]
    fn what_is_true_of_the_account_is_true_of_every_call(#[case] cloud: &str, #[case] elsewhere: Code) {
        assert_eq!(code(cloud, During::Elsewhere), elsewhere);
    }

    /// Shows AWS-8.
    #[test]
    fn a_quota_is_told_by_its_name() {
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
    fn a_clock_that_is_wrong_is_told_as_that() {
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
    fn no_row_is_there_twice() {
        let mut seen = std::collections::BTreeSet::new();
        assert!(TABLE.iter().all(|row| seen.insert(row.cloud)));
    }
}
