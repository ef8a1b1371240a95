//! Selection of a machine's address: the first free one of the pool in its MachineClass.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The largest pool: a /16, which is sufficient for one host.
const SHORTEST_PREFIX: u8 = 16;
/// The smallest pool: two addresses between network and broadcast.
const LONGEST_PREFIX: u8 = 30;

/// A range of IPv4 addresses in CIDR notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    network: u32,
    pub(crate) prefix_length: u8,
}

impl FromStr for Pool {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "must be an IPv4 range in CIDR notation, such as 10.77.1.0/24";
        let (address, length) = text.split_once('/').ok_or(FORM)?;
        let address: Ipv4Addr = address.parse().map_err(|_| FORM)?;
        let prefix_length: u8 = length.parse().map_err(|_| FORM)?;
        if !(SHORTEST_PREFIX..=LONGEST_PREFIX).contains(&prefix_length) {
            return Err("must have a prefix length from 16 to 30");
        }
        let host_bits = u32::MAX >> prefix_length;
        if address.to_bits() & host_bits != 0 {
            return Err("must begin at the network address: the bits after the prefix must be zero");
        }
        Ok(Self { network: address.to_bits(), prefix_length })
    }
}

impl Pool {
    /// Returns the first free address, except for network and broadcast.
    pub(crate) fn first_free(self, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let broadcast = self.network | u32::MAX.checked_shr(self.prefix_length.into()).unwrap_or(0);
        (self.network + 1..broadcast).map(Ipv4Addr::from_bits).find(|address| !taken.contains(address))
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.network), self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("10.77.1.0/24", true)]
    #[case("10.77.1.4/30", true)]
    #[case("10.77.1.1/24", false)]
    #[case("10.0.0.0/8", false)]
    #[case("10.77.1.0/31", false)]
    #[case("10.77.1.0", false)]
    #[case("fd00::/64", false)]
    fn a_pool_is_an_ipv4_range_of_a_sensible_size(#[case] text: &str, #[case] good: bool) {
        let pool = text.parse::<Pool>();
        assert_eq!(pool.is_ok(), good, "{pool:?}");
        assert!(pool.map_or(true, |pool| pool.to_string() == text));
    }

    #[test]
    fn the_first_free_address_excludes_network_and_broadcast() {
        let pool: Pool = "10.77.1.4/30".parse().unwrap();
        let address = |last: u8| Ipv4Addr::new(10, 77, 1, last);
        assert_eq!(pool.first_free(&BTreeSet::new()), Some(address(5)));
        assert_eq!(pool.first_free(&BTreeSet::from([address(5)])), Some(address(6)));
        assert_eq!(pool.first_free(&BTreeSet::from([address(5), address(6)])), None);
    }
}
