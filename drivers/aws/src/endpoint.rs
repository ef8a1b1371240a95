//! Where a region's services answer.

/// A part of AWS that shares nothing with the others: its own names, its own accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// What regions begin with.
    prefixes: &'static [&'static str],
    suffix: &'static str,
    dual_stack: &'static str,
    /// In GovCloud every endpoint is validated, and none has another name for it.
    fips: Fips,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fips {
    OfItsOwn,
    Always,
}

/// The longer prefix first: `us-gov-` is not `us-`.
const PARTITIONS: [Partition; 8] = [
    Partition { prefixes: &["us-gov-"], suffix: "amazonaws.com", dual_stack: "api.aws", fips: Fips::Always },
    Partition { prefixes: &["us-iso-"], suffix: "c2s.ic.gov", dual_stack: "api.aws.ic.gov", fips: Fips::OfItsOwn },
    Partition { prefixes: &["us-isob-"], suffix: "sc2s.sgov.gov", dual_stack: "api.aws.scloud", fips: Fips::OfItsOwn },
    Partition {
        prefixes: &["us-isof-"],
        suffix: "csp.hci.ic.gov",
        dual_stack: "api.aws.hci.ic.gov",
        fips: Fips::OfItsOwn,
    },
    Partition {
        prefixes: &["eu-isoe-"],
        suffix: "cloud.adc-e.uk",
        dual_stack: "api.cloud-aws.adc-e.uk",
        fips: Fips::OfItsOwn,
    },
    Partition {
        prefixes: &["eusc-"],
        suffix: "amazonaws.eu",
        dual_stack: "api.amazonwebservices.eu",
        fips: Fips::OfItsOwn,
    },
    Partition {
        prefixes: &["cn-"],
        suffix: "amazonaws.com.cn",
        dual_stack: "api.amazonwebservices.com.cn",
        fips: Fips::OfItsOwn,
    },
    Partition {
        prefixes: &["af-", "ap-", "ca-", "eu-", "il-", "me-", "mx-", "sa-", "us-"],
        suffix: "amazonaws.com",
        dual_stack: "api.aws",
        fips: Fips::OfItsOwn,
    },
];

impl Partition {
    /// The partition of a region; `None` if no partition has regions of that form.
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

/// Which names of the services are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Instead of EC2's own, for every region: a private endpoint, or a server in tests.
    pub ec2: Option<String>,
    /// Instead of STS' own.
    pub sts: Option<String>,
    /// Names that have IPv6 addresses, too.
    pub dual_stack: bool,
    /// Names of servers whose cryptography was validated.
    pub fips: bool,
}

/// A service that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Ec2,
    Sts,
}

impl Service {
    /// As signatures and host names have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
        }
    }
}

impl Endpoints {
    /// The address of a service in a region, without a slash at its end. `None` for a region that no partition has.
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
        let fips = if self.fips && partition.fips == Fips::OfItsOwn { "-fips" } else { "" };
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
    fn a_region_has_its_own_name_in_its_partition(
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
    fn a_region_that_cannot_be_has_no_address(#[case] region: &str) {
        assert_eq!(Endpoints::default().url(Service::Ec2, region), None);
    }

    /// Shows AWS-3.
    #[test]
    fn a_custom_endpoint_wins_for_its_service_only() {
        let endpoints = Endpoints { ec2: Some("http://127.0.0.1:5000/".into()), ..Endpoints::default() };
        assert_eq!(endpoints.url(Service::Ec2, "eu-west-1").unwrap(), "http://127.0.0.1:5000");
        assert_eq!(endpoints.url(Service::Sts, "eu-west-1").unwrap(), "https://sts.eu-west-1.amazonaws.com");
    }
}
