//! What the operator of the process decides, for all classes.

use secrecy::SecretString;

use crate::endpoint::Endpoints;
use crate::secret::{Ambient, Keys};

/// Where EC2 tells an instance about itself.
const INSTANCE_METADATA: &str = "http://169.254.169.254";

/// Endpoints, and the credentials of the process itself.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the services answer.
    pub endpoints: Endpoints,
    /// Whether a Secret without credentials means those of the process.
    pub ambient: Ambient,
    pub(crate) own: Own,
}

/// The credentials of the process, the first that is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) keys: Option<Keys>,
    /// Token file and role.
    pub(crate) web_identity: Option<(String, String)>,
    /// Where the instance's profile is asked for; `None` if that is switched off.
    pub(crate) metadata: Option<String>,
}

impl Settings {
    /// Reads the variables that all of AWS' tools read, and `MILLWRIGHT_AWS_AMBIENT_CREDENTIALS`.
    pub fn from_environment(read: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| read(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let on = |name: &str| text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let keys = match (text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Some(Keys {
                id,
                secret: SecretString::from(secret),
                session_token: text("AWS_SESSION_TOKEN").map(SecretString::from),
            }),
            _ => None,
        };
        let metadata = text("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| INSTANCE_METADATA.to_owned());
        Self {
            endpoints: Endpoints {
                ec2: text("AWS_ENDPOINT_URL_EC2").or_else(|| text("AWS_ENDPOINT_URL")),
                sts: text("AWS_ENDPOINT_URL_STS").or_else(|| text("AWS_ENDPOINT_URL")),
                dual_stack: on("AWS_USE_DUALSTACK_ENDPOINT"),
                fips: on("AWS_USE_FIPS_ENDPOINT"),
            },
            ambient: if on("MILLWRIGHT_AWS_AMBIENT_CREDENTIALS") { Ambient::Allowed } else { Ambient::Refused },
            own: Own {
                keys,
                web_identity: text("AWS_WEB_IDENTITY_TOKEN_FILE").zip(text("AWS_ROLE_ARN")),
                metadata: Some(metadata).filter(|_| !on("AWS_EC2_METADATA_DISABLED")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn nothing_in_the_environment_is_aws_itself_and_no_credentials_of_our_own() {
        let settings = settings(&[]);
        assert_eq!((&settings.endpoints, settings.ambient), (&Endpoints::default(), Ambient::Refused));
        assert_eq!(settings.own.metadata.as_deref(), Some(INSTANCE_METADATA));
    }

    #[test]
    fn the_variables_of_aws_tools_are_read() {
        let settings = settings(&[
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000"),
            ("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:5001"),
            ("AWS_USE_FIPS_ENDPOINT", "true"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "TRUE"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("MILLWRIGHT_AWS_AMBIENT_CREDENTIALS", "true"),
        ]);
        assert_eq!(settings.endpoints.ec2.as_deref(), Some("http://127.0.0.1:5000"));
        assert_eq!(settings.endpoints.sts.as_deref(), Some("http://127.0.0.1:5001"));
        assert!(settings.endpoints.fips && settings.endpoints.dual_stack);
        assert_eq!((settings.ambient, settings.own.metadata.as_deref()), (Ambient::Allowed, None));
        assert!(settings.own.keys.is_some() && settings.own.web_identity.is_some());
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn every_variable_that_a_manifest_or_the_page_names_is_read() {
        let read = std::cell::RefCell::new(std::collections::BTreeSet::new());
        for value in [None, Some("x")] {
            Settings::from_environment(|name| {
                read.borrow_mut().insert(name.to_owned());
                value.map(str::to_owned)
            });
        }
        let texts = [
            include_str!("../../../deploy/examples/aws/kustomization.yaml"),
            include_str!("../../../deploy/examples/aws-driver/kustomization.yaml"),
            include_str!("../../../docs/reference/drivers/aws.md"),
        ];
        let mut seen = 0;
        for word in texts.iter().flat_map(|text| {
            text.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_' && !letter.is_ascii_digit())
        }) {
            if word.starts_with("AWS_") || word.starts_with("MILLWRIGHT_AWS_") {
                seen += 1;
                assert!(read.borrow().contains(word), "nobody reads {word}");
            }
        }
        assert!(seen > 10, "{seen} are too few to be all");
    }
}
