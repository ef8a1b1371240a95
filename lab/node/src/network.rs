//! The addresses of machines and their pods: two consecutive networks of 65,536 addresses each.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The networks of one control plane and its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u8,
    second: u8,
}

/// The network of suites.
pub const OF_SUITES: Network = Network { first: 10, second: 76 };

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "must be the first two numbers of an IPv4 network, the second of them even, such as 10.78";
        let (first, second) = text.split_once('.').ok_or(form)?;
        let (first, second) = (first.parse().map_err(|_| form)?, second.parse::<u8>().map_err(|_| form)?);
        // The network of the pods follows that of the machines, so that both have a common prefix.
        if second % 2 == 1 {
            return Err(form);
        }
        Ok(Self { first, second })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.first, self.second)
    }
}

impl Network {
    /// Returns the address of the API server for machines, which is also their gateway.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(self.first, self.second, 0, 1)
    }

    /// Returns the host's own address, if it has one.
    pub fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(self.first, self.second, 0, 2)
    }

    /// Returns the address range of machines. Routes lead to the pods of each of these.
    pub fn machines(self) -> String {
        format!("{}.{}.1.0/27", self.first, self.second)
    }

    /// Returns the first two numbers of the pods' network.
    pub fn pods(self) -> String {
        format!("{}.{}", self.first, self.second + 1)
    }

    /// Returns one of the host's routes (`ip -4 route show table all`) to some of these addresses.
    pub fn taken_by(self, routes: &str) -> Option<&str> {
        routes.lines().find(|line| line.split_whitespace().find_map(destination).is_some_and(|to| self.overlaps(to)))
    }

    fn overlaps(self, (address, length): (Ipv4Addr, u32)) -> bool {
        let own = Ipv4Addr::new(self.first, self.second, 0, 0).to_bits();
        // A wider route, for example of a VPN, still applies to other addresses.
        length >= 15 && (own ^ address.to_bits()) >> 17 == 0
    }
}

/// Parses a route's destination: the first of its words that is an address. `default` does not overlap.
fn destination(word: &str) -> Option<(Ipv4Addr, u32)> {
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    Some((address.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn network() -> Network {
        "10.78".parse().unwrap()
    }

    /// Shows HST-20.
    #[test]
    fn machines_pods_host_and_gateway_have_separate_addresses() {
        assert_eq!(
            (network().gateway().to_string(), network().host().to_string()),
            ("10.78.0.1".into(), "10.78.0.2".into())
        );
        assert_eq!((network().machines(), network().pods()), ("10.78.1.0/27".into(), "10.79".into()));
        assert_eq!(network().to_string(), "10.78");
    }

    #[rstest]
    #[case("10.79")]
    #[case("10")]
    #[case("10.300")]
    #[case("10.78.0.0/16")]
    fn a_network_is_two_numbers_and_the_second_is_even(#[case] text: &str) {
        assert!(text.parse::<Network>().is_err());
    }

    /// Shows HST-20.
    #[rstest]
    #[case::machines("10.78.0.0/16 dev wg0 scope link", true)]
    #[case::pods("10.79.3.0/24 via 192.168.0.1 dev eth0", true)]
    #[case::a_single_host("local 10.78.1.1 dev eth0 table local", true)]
    #[case::all_private("10.0.0.0/8 dev tun0", false)]
    #[case::the_next_one("10.80.0.0/16 dev wg0", false)]
    #[case::the_one_before("10.77.255.255 dev wg0", false)]
    #[case::everything("default via 192.168.0.1 dev eth0", false)]
    #[case::nothing("", false)]
    fn a_route_to_any_of_the_addresses_is_a_conflict(#[case] route: &str, #[case] taken: bool) {
        assert_eq!(network().taken_by(&format!("192.168.0.0/24 dev eth0\n{route}\n")).is_some(), taken);
    }
}
