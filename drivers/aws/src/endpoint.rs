//! Endpoints of AWS services by region.

/// An AWS partition: a group of regions with its own domain names and accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Prefixes of the region names.
    prefixes: &'static [&'static str],
    suffix: &'static str,
    dual_stack: &'static str,
    /// In GovCloud every endpoint is FIPS validated and has no separate FIPS name.
    fips: Fips,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fips {
    Separate,
    Always,
}

/// Longer prefixes come first: `us-gov-` must match before `us-`.
const PARTITIONS: [Partition; 8] = [
    Partition { prefixes: &["us-gov-"], suffix: "amazonaws.com", dual_stack: "api.aws", fips: Fips::Always },
    Partition { prefixes: &["us-iso-"], suffix: "c2s.ic.gov", dual_stack: "api.aws.ic.gov", fips: Fips::Separate },
    Partition { prefixes: &["us-isob-"], suffix: "sc2s.sgov.gov", dual_stack: "api.aws.scloud", fips: Fips::Separate },
    Partition {
        prefixes: &["us-isof-"],
        suffix: "csp.hci.ic.gov",
        dual_stack: "api.aws.hci.ic.gov",
        fips: Fips::Separate,
    },
    Partition {
        prefixes: &["eu-isoe-"],
        suffix: "cloud.adc-e.uk",
        dual_stack: "api.cloud-aws.adc-e.uk",
        fips: Fips::Separate,
    },
    Partition {
        prefixes: &["eusc-"],
        suffix: "amazonaws.eu",
        dual_stack: "api.amazonwebservices.eu",
        fips: Fips::Separate,
    },
    Partition {
        prefixes: &["cn-"],
        suffix: "amazonaws.com.cn",
        dual_stack: "api.amazonwebservices.com.cn",
        fips: Fips::Separate,
    },
    Partition {
        prefixes: &["af-", "ap-", "ca-", "eu-", "il-", "me-", "mx-", "sa-", "us-"],
        suffix: "amazonaws.com",
        dual_stack: "api.aws",
        fips: Fips::Separate,
    },
];

impl Partition {
    /// Returns the partition of a region, or `None` if the name is not a valid region.
    pub(crate) fn of(region: &str) -> Option<Self> {
        let begins = |partition: &&Self| partition.prefixes.iter().any(|prefix| region.starts_with(prefix));
        let partition = PARTITIONS.iter().find(begins)?;
        let mut words = region.split('-');
        let number = words.next_back()?;
        let numbered = !number.is_empty() && number.len() <= 2 && number.bytes().all(|digit| digit.is_ascii_digit());
        let named = words.clone().all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()));
        (numbered && named && words.count() >= 2).then_some(*partition)
    }
}

/// Endpoints of the AWS services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Endpoint that replaces EC2's in every region: a private endpoint or a test server.
    pub ec2: Option<String>,
    /// Endpoint that replaces the one of STS.
    pub sts: Option<String>,
    /// Use endpoints with IPv4 and IPv6 addresses.
    pub dual_stack: bool,
    /// Use endpoints with FIPS validated cryptography.
    pub fips: bool,
}

/// An AWS service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Ec2,
    Sts,
}

impl Service {
    /// Name in signatures and host names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
        }
    }
}

impl Endpoints {
    /// Returns the URL of a service in a region, without a trailing slash. Returns `None` for an unknown region.
    pub(crate) fn url(&self, service: Service, region: &str) -> Option<String> {
        let custom = match service {
            Service::Ec2 => &self.ec2,
            Service::Sts => &self.sts,
        };
        if let Some(custom) = custom {
            return Some(custom.trim_end_matches('/').to_owned());
        }
        let partition = Partition::of(region)?;
        let name = service.name();
        let fips = if self.fips && partition.fips == Fips::Separate { "-fips" } else { "" };
        let suffix = if self.dual_stack { partition.dual_stack } else { partition.suffix };
        Some(format!("https://{name}{fips}.{region}.{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows AWS-3.
    #[rstest]
    #[case("eu-west-1", false, false, "https://ec2.eu-west-1.amazonaws.com")]
    #[case("cn-northwest-1", false, false, "https://ec2.cn-northwest-1.amazonaws.com.cn")]
    #[case("us-gov-west-1", false, false, "https://ec2.us-gov-west-1.amazonaws.com")]
    #[case("us-gov-west-1", false, true, "https://ec2.us-gov-west-1.amazonaws.com")]
    #[case("us-east-1", false, true, "https://ec2-fips.us-east-1.amazonaws.com")]
    #[case("eu-west-1", true, false, "https://ec2.eu-west-1.api.aws")]
    #[case("us-east-1", true, true, "https://ec2-fips.us-east-1.api.aws")]
    #[case("cn-north-1", true, false, "https://ec2.cn-north-1.api.amazonwebservices.com.cn")]
    #[case("us-iso-east-1", false, false, "https://ec2.us-iso-east-1.c2s.ic.gov")]
    #[case("us-isob-east-1", false, false, "https://ec2.us-isob-east-1.sc2s.sgov.gov")]
    #[case("eusc-de-east-1", false, false, "https://ec2.eusc-de-east-1.amazonaws.eu")]
    fn region_has_the_endpoint_of_its_partition(
        #[case] region: &str,
        #[case] dual_stack: bool,
        #[case] fips: bool,
        #[case] url: &str,
    ) {
        let endpoints = Endpoints { dual_stack, fips, ..Endpoints::default() };
        assert_eq!(endpoints.url(Service::Ec2, region).as_deref(), Some(url));
        assert_eq!(endpoints.url(Service::Sts, region), Some(url.replacen("ec2", "sts", 1)));
    }

    /// Shows AWS-3.
    #[rstest]
    #[case("")]
    #[case("eu")]
    #[case("eu-west")]
    #[case("eu-west-1a")]
    #[case("mars-north-1")]
    #[case("eu-west-1.evil.example")]
    #[case("EU-WEST-1")]
    fn invalid_region_has_no_endpoint(#[case] region: &str) {
        assert_eq!(Endpoints::default().url(Service::Ec2, region), None);
    }

    /// Shows AWS-3.
    #[test]
    fn custom_endpoint_applies_only_to_its_service() {
        let endpoints = Endpoints { ec2: Some("http://127.0.0.1:5000/".into()), ..Endpoints::default() };
        assert_eq!(endpoints.url(Service::Ec2, "eu-west-1").unwrap(), "http://127.0.0.1:5000");
        assert_eq!(endpoints.url(Service::Sts, "eu-west-1").unwrap(), "https://sts.eu-west-1.amazonaws.com");
    }
}
