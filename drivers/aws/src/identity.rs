//! How instances and machines name each other.

use api::ProviderId;
use driver::DriverError;

use crate::sign::hex;

/// The provider id of an instance.
pub(crate) fn provider_id(region: &str, instance: &str) -> ProviderId {
    ProviderId::from(format!("aws:///{region}/{instance}"))
}

/// The instance that a provider id names: its last part. The region in it is not looked at; the class says where to look.
pub(crate) fn instance_id(provider_id: &str) -> Result<&str, DriverError> {
    match provider_id.rsplit_once('/') {
        Some((_, id)) if !id.is_empty() => Ok(id),
        _ => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: must have the form aws:///<region>/<instance id>"
        ))),
    }
}

/// What makes repeated requests for one machine one request. The machine's uid where it has one: a machine of the same name
/// that comes later gets a VM of its own. `attempt` counts the tokens that are used up, because the VM they made is gone.
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
    fn the_last_part_of_a_provider_id_is_the_instance(#[case] id: &str, #[case] instance: Option<&str>) {
        assert_eq!(instance_id(id).ok(), instance);
        assert_eq!(provider_id("eu-west-1", "i-1"), "aws:///eu-west-1/i-1");
    }

    #[test]
    fn a_token_follows_from_the_uid_and_fits() {
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
