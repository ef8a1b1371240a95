//! Process-wide settings from the environment.

use secrecy::SecretString;

use crate::endpoint::Endpoints;
use crate::secret::{Ambient, Keys};

/// Address of the EC2 instance metadata service.
const INSTANCE_METADATA: &str = "http://169.254.169.254";

/// Endpoints and the credentials of the process.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Endpoints of the AWS services.
    pub endpoints: Endpoints,
    /// Whether a Secret without credentials selects the credentials of the process.
    pub ambient: Ambient,
    pub(crate) own: ProcessCredentials,
}

/// The credentials of the process. The first source that exists is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessCredentials {
    pub(crate) keys: Option<Keys>,
    /// Token file and role.
    pub(crate) web_identity: Option<(String, String)>,
    /// URL of the instance metadata service; `None` if it is disabled.
    pub(crate) metadata: Option<String>,
}

impl Settings {
    /// Reads the environment variables of the AWS tools and `MILLWRIGHT_AWS_AMBIENT_CREDENTIALS`.
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
            own: ProcessCredentials {
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
    fn empty_environment_selects_aws_without_process_credentials() {
        let settings = settings(&[]);
        assert_eq!((&settings.endpoints, settings.ambient), (&Endpoints::default(), Ambient::Refused));
        assert_eq!(settings.own.metadata.as_deref(), Some(INSTANCE_METADATA));
    }

    #[test]
    fn variables_of_the_aws_tools_are_read() {
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
    fn every_documented_variable_is_read() {
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
                assert!(read.borrow().contains(word), "{word} is not read");
            }
        }
        assert!(seen > 10, "found only {seen} variables");
    }
}
