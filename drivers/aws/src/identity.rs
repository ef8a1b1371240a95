//! Conversion between instances and provider ids.

use api::ProviderId;
use driver::DriverError;

use crate::sign::hex;

/// Returns the provider id of an instance.
pub(crate) fn provider_id(region: &str, instance: &str) -> ProviderId {
    ProviderId::from(format!("aws:///{region}/{instance}"))
}

/// Returns the instance id: the last part of a provider id. The region in it is ignored; the class defines the region.
pub(crate) fn instance_id(provider_id: &str) -> Result<&str, DriverError> {
    match provider_id.rsplit_once('/') {
        Some((_, id)) if !id.is_empty() => Ok(id),
        _ => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: must have the form aws:///<region>/<instance id>"
        ))),
    }
}

/// Returns the client token that makes repeated requests for one machine idempotent. It contains the machine's uid if
/// there is one, so that a later machine with the same name gets its own VM. `attempt` counts the tokens that are used
/// up because their VM is gone.
pub(crate) fn client_token(uid: &str, cluster: &str, machine: &str, attempt: u32) -> String {
    let subject = if uid.is_empty() || uid.len() > 48 || !uid.is_ascii() {
        let digest = ring::digest::digest(&ring::digest::SHA256, format!("{uid}\0{cluster}\0{machine}").as_bytes());
        hex(digest.as_ref()).split_at(40).0.to_owned()
    } else {
        uid.to_owned()
    };
    match attempt {
        0 => format!("mw-{subject}"),
        attempt => format!("mw-{subject}-{attempt}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("aws:///eu-west-1/i-1", Some("i-1"))]
    #[case("aws:///eu-west-1a/i-1", Some("i-1"))]
    #[case("eu-west-1/i-1", Some("i-1"))]
    #[case("i-1", None)]
    #[case("aws:///eu-west-1/", None)]
    #[case("", None)]
    fn last_part_of_a_provider_id_is_the_instance_id(#[case] id: &str, #[case] instance: Option<&str>) {
        assert_eq!(instance_id(id).ok(), instance);
        assert_eq!(provider_id("eu-west-1", "i-1"), "aws:///eu-west-1/i-1");
    }

    #[test]
    fn client_token_is_derived_from_the_uid_and_fits() {
        let uid = "0b2bbe8b-47a1-4d9c-8d5e-1e5e6e3c5a11";
        assert_eq!(client_token(uid, "c", "m", 0), format!("mw-{uid}"));
        assert_eq!(client_token(uid, "c", "m", 2), format!("mw-{uid}-2"));
        let long = "u".repeat(300);
        for uid in ["", long.as_str(), "ü"] {
            let token = client_token(uid, "c", "m", 9);
            assert!(token.len() <= 64 && token.is_ascii(), "{token}");
        }
        assert_ne!(client_token("", "c", "m", 0), client_token("", "d", "m", 0), "clusters share an account");
        assert_eq!(client_token("", "c", "m", 0), client_token("", "c", "m", 0));
    }
}
