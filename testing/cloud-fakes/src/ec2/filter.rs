//! Which instances a `DescribeInstances` asks for. All filters have to match, each by any of its values.

use std::time::Duration;

use super::answer::Refusal;
use super::instance::Instance;
use super::settings::Settings;
use crate::parameters::Parameters;

/// A filter that is known.
pub(super) struct Filter<'a> {
    what: What<'a>,
    values: Vec<&'a str>,
}

enum What<'a> {
    Tag(&'a str),
    TagKey,
    State,
    Id,
    ClientToken,
    Image,
    Subnet,
    DnsName,
}

impl<'a> Filter<'a> {
    pub(super) fn read(given: &'a Parameters) -> Result<Self, Refusal> {
        let name = given.get("Name").unwrap_or_default();
        let what = match name {
            "tag-key" => What::TagKey,
            "instance-state-name" => What::State,
            "instance-id" => What::Id,
            "client-token" => What::ClientToken,
            "image-id" => What::Image,
            "subnet-id" => What::Subnet,
            "private-dns-name" => What::DnsName,
            _ => match name.strip_prefix("tag:") {
                Some(key) => What::Tag(key),
                None => return Err(Refusal::new("InvalidParameterValue", format!("The filter '{name}' is invalid"))),
            },
        };
        Ok(Self { what, values: given.values("Value") })
    }

    pub(super) fn admits(&self, instance: &Instance, then: Duration, settings: &Settings) -> bool {
        let any = |text: &str| self.values.iter().any(|pattern| fits(pattern, text));
        let tags = instance.tags.at(then);
        match &self.what {
            What::Tag(key) => tags.get(*key).is_some_and(|value| any(value)),
            What::TagKey => tags.keys().any(|key| any(key)),
            What::State => any(instance.state(then, settings).name()),
            What::Id => any(&instance.id),
            What::ClientToken => instance.client_token.as_deref().is_some_and(any),
            What::Image => any(&instance.image),
            What::Subnet => instance.interfaces.first().is_some_and(|first| any(&first.subnet)),
            What::DnsName => any(&instance.private_dns_name(then, settings)),
        }
    }
}

/// `*` is any text, `?` any character.
fn fits(pattern: &str, text: &str) -> bool {
    let (mut wanted, mut found) = (pattern.chars(), text.chars());
    match (wanted.next(), found.next()) {
        (None, None) => true,
        (Some('*'), next) => fits(wanted.as_str(), text) || (next.is_some() && fits(pattern, found.as_str())),
        (Some(one), Some(other)) if one == '?' || one == other => fits(wanted.as_str(), found.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("running", "running", true)]
    #[case("run", "running", false)]
    #[case("kubernetes.io/cluster/*", "kubernetes.io/cluster/a", true)]
    #[case("*", "", true)]
    #[case("*é?", "aéb", true)]
    #[case("a?", "a", false)]
    fn values_are_patterns(#[case] pattern: &str, #[case] text: &str, #[case] admits: bool) {
        assert_eq!(fits(pattern, text), admits);
    }
}
