//! Address classes that are not public, and address ranges. The kernel's own view (local, broadcast, multicast) is a
//! separate check at dial time.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::escape_name;

/// IANA's special-purpose registry (RFC 6890) and the wire server of Azure, by prefix.
const V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "unspecified"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "carrier-grade NAT"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([192, 88, 99, 0], 24, "6to4 relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "benchmarking"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
    ([168, 63, 129, 16], 32, "cloud metadata"),
];

const V6: &[([u16; 8], u8, &str)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "IPv4-compatible"),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "IPv4-translated"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local NAT64"),
];

/// Returns the class of an address that is dialled only if a rule names it, or `None` for a public one. IPv4-mapped,
/// 6to4 and NAT64 addresses are judged by the IPv4 address inside.
pub fn special_purpose(ip: IpAddr) -> Option<&'static str> {
    match canonical(ip) {
        IpAddr::V4(ip) => {
            let found = V4.iter().find(|(base, bits, _)| {
                let base = u32::from(Ipv4Addr::from(*base));
                (u32::from(ip) ^ base).leading_zeros() >= u32::from(*bits)
            });
            found.map(|(_, _, class)| *class)
        }
        IpAddr::V6(ip) => {
            if let Some(inside) = inside_nat64(ip).or_else(|| inside_6to4(ip)) {
                return special_purpose(inside.into());
            }
            let found = V6.iter().find(|(base, bits, _)| {
                let base = u128::from(Ipv6Addr::from(*base));
                (u128::from(ip) ^ base).leading_zeros() >= u32::from(*bits)
            });
            found.map(|(_, _, class)| *class)
        }
    }
}

/// Returns true for an address that is no single host, so that no rule can grant it.
pub(super) fn is_undialable(ip: IpAddr) -> bool {
    matches!(special_purpose(ip), Some("unspecified" | "multicast" | "broadcast" | "discard"))
}

/// Turns an IPv4-mapped IPv6 address into the IPv4 address that the kernel dials for it.
pub fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Returns the IPv4 address in one of NAT64's well-known prefix `64:ff9b::/96` (RFC 6052).
fn inside_nat64(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = ip.segments() else { return None };
    Some(from_halves(high, low))
}

/// Returns the IPv4 address in one of `2002::/16` (RFC 3056).
fn inside_6to4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x2002, high, low, ..] = ip.segments() else { return None };
    Some(from_halves(high, low))
}

fn from_halves(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

/// A range of addresses such as `10.0.0.0/8`, without bits after its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

impl Cidr {
    /// The range that holds one address only.
    pub fn only(ip: IpAddr) -> Self {
        let base = canonical(ip);
        Self { base, bits: if base.is_ipv4() { 32 } else { 128 } }
    }

    /// Returns true if an address is in the range. IPv4-mapped and NAT64 addresses count as the IPv4 address inside.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, canonical(ip)) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                (u32::from(base) ^ u32::from(ip)).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                (u128::from(base) ^ u128::from(ip)).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(ip)) => {
                inside_nat64(ip).is_some_and(|inside| self.contains(inside.into()))
            }
            (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// The first address.
    pub fn base(&self) -> IpAddr {
        self.base
    }

    /// Number of leading bits that all addresses of the range share.
    pub fn prefix_bits(&self) -> u8 {
        self.bits
    }

    /// Returns true for a range of IPv4 addresses.
    pub fn is_ipv4(&self) -> bool {
        self.base.is_ipv4()
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail =
            |why: &str| Err(format!("`{}` is not an address range: {why}", escape_name(text)));
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(ip) = address.parse::<IpAddr>() else {
            return fail("write it as `10.0.0.0/8` or `fd00::/8`");
        };
        if ip != canonical(ip) {
            return fail("write the IPv4 address inside");
        }
        let bits_max = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(digits) => {
                let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                match digits.parse::<u8>() {
                    Ok(bits) if plain && bits <= bits_max => bits,
                    _ => return fail("the prefix is 0 to 32, or 0 to 128 for IPv6"),
                }
            }
        };
        let base = match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        };
        if base == ip {
            Ok(Self { base, bits })
        } else {
            fail(&format!("it has bits after the prefix; write `{base}/{bits}`"))
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first and last address of each class, and the public neighbours on each side.
    #[test]
    fn every_class_ends_where_it_ends() {
        let rows = [
            ("0.0.0.0", Some("unspecified")),
            ("0.255.255.255", Some("unspecified")),
            ("1.0.0.0", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some("private")),
            ("10.255.255.255", Some("private")),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some("carrier-grade NAT")),
            ("100.127.255.255", Some("carrier-grade NAT")),
            ("100.128.0.0", None),
            ("126.255.255.255", None),
            ("127.0.0.0", Some("loopback")),
            ("127.255.255.255", Some("loopback")),
            ("128.0.0.0", None),
            ("168.63.129.15", None),
            ("168.63.129.16", Some("cloud metadata")),
            ("168.63.129.17", None),
            ("169.253.255.255", None),
            ("169.254.0.0", Some("link-local")),
            ("169.254.169.254", Some("link-local")),
            ("169.254.255.255", Some("link-local")),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some("private")),
            ("172.31.255.255", Some("private")),
            ("172.32.0.0", None),
            ("191.255.255.255", None),
            ("192.0.0.0", Some("reserved")),
            ("192.0.0.255", Some("reserved")),
            ("192.0.1.0", None),
            ("192.0.1.255", None),
            ("192.0.2.0", Some("documentation")),
            ("192.0.2.255", Some("documentation")),
            ("192.0.3.0", None),
            ("192.88.98.255", None),
            ("192.88.99.0", Some("6to4 relay")),
            ("192.88.99.255", Some("6to4 relay")),
            ("192.88.100.0", None),
            ("192.167.255.255", None),
            ("192.168.0.0", Some("private")),
            ("192.168.255.255", Some("private")),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.0", Some("benchmarking")),
            ("198.19.255.255", Some("benchmarking")),
            ("198.20.0.0", None),
            ("198.51.99.255", None),
            ("198.51.100.0", Some("documentation")),
            ("198.51.100.255", Some("documentation")),
            ("198.51.101.0", None),
            ("203.0.112.255", None),
            ("203.0.113.0", Some("documentation")),
            ("203.0.113.255", Some("documentation")),
            ("203.0.114.0", None),
            ("223.255.255.255", None),
            ("224.0.0.0", Some("multicast")),
            ("239.255.255.255", Some("multicast")),
            ("240.0.0.0", Some("reserved")),
            ("255.255.255.254", Some("reserved")),
            ("255.255.255.255", Some("broadcast")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("::2", Some("IPv4-compatible")),
            ("::8.8.8.8", Some("IPv4-compatible")),
            ("::ffff:ffff", Some("IPv4-compatible")),
            ("::1:0:0", None),
            ("64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", None),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some("private")),
            ("64:ff9b::127.0.0.1", Some("loopback")),
            ("64:ff9b::169.254.169.254", Some("link-local")),
            ("64:ff9b::1:0:0", None),
            ("64:ff9b:1::", Some("local NAT64")),
            ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Some("local NAT64")),
            ("64:ff9b:2::", None),
            ("ff:ffff::", None),
            ("100::", Some("discard")),
            ("100::ffff:ffff:ffff:ffff", Some("discard")),
            ("100:0:0:1::", None),
            ("2000:ffff::", None),
            ("2001::", Some("Teredo")),
            ("2001:0:ffff:ffff:ffff:ffff:ffff:ffff", Some("Teredo")),
            ("2001:1::", None),
            ("2001:db7:ffff::", None),
            ("2001:db8::", Some("documentation")),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some("documentation")),
            ("2001:db9::", None),
            ("2001:4860:4860::8888", None),
            ("2002:0808:0808::1", None),
            ("2002:0a00:0001::1", Some("private")),
            ("2002:7f00:0001::", Some("loopback")),
            ("2002:c0a8:0101:1::1", Some("private")),
            ("2003::", None),
            ("3ffe:ffff::", None),
            ("3fff::", Some("documentation")),
            ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Some("documentation")),
            ("3fff:1000::", None),
            ("5eff:ffff::", None),
            ("5f00::", Some("segment routing")),
            ("5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("segment routing")),
            ("5f01::", None),
            ("fbff:ffff::", None),
            ("fc00::", Some("private")),
            ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("private")),
            ("fe00::", None),
            ("fe7f:ffff::", None),
            ("fe80::", Some("link-local")),
            ("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("link-local")),
            ("fec0::", Some("site-local")),
            ("feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("site-local")),
            ("ff00::", Some("multicast")),
            ("ff02::1", Some("multicast")),
            ("::ffff:8.8.8.8", None),
            ("::ffff:10.0.0.1", Some("private")),
            ("::ffff:127.0.0.1", Some("loopback")),
            ("::fffe:ffff:ffff", None),
            ("::ffff:0.0.0.0", Some("unspecified")),
        ];
        for (text, class) in rows {
            assert_eq!(special_purpose(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn ranges() {
        let rows = [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "64:ff9b::10.1.2.3", true),
            ("10.0.0.0/8", "2002:a01:203::", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3/32", "10.1.2.4", false),
            ("10.1.2.2/31", "10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fc00::1", false),
            ("fd00::/8", "10.0.0.1", false),
            ("::/0", "fe80::1", true),
            ("::1/128", "::1", true),
            ("::1/128", "::2", false),
        ];
        for (range, ip, inside) in rows {
            let cidr: Cidr = range.parse().unwrap();
            assert_eq!(cidr.contains(ip.parse().unwrap()), inside, "{range} {ip}");
            assert_eq!(cidr.to_string().parse(), Ok(cidr));
        }
        let refused = [
            ("10.0.0.1/8", "write `10.0.0.0/8`"),
            ("fd00::1/8", "write `fd00::/8`"),
            ("10.0.0.0/33", "prefix"),
            ("fd00::/129", "prefix"),
            ("10.0.0.0/", "prefix"),
            ("10.0.0.0/+8", "prefix"),
            ("10.0.0.0/8/8", "prefix"),
            ("10/8", "write it as"),
            ("", "write it as"),
            ("example.com/8", "write it as"),
            ("::ffff:10.0.0.0/104", "IPv4 address inside"),
            ("fe80::1%1/128", "write it as"),
        ];
        for (text, reason) in refused {
            let error = text.parse::<Cidr>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn embedded_addresses_have_the_class_of_the_ipv4_address(v4: u32) {
            let v4 = Ipv4Addr::from(v4);
            let class = special_purpose(v4.into());
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for v6 in [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 1, 2, 3, 4, 5),
            ] {
                prop_assert_eq!(special_purpose(v6.into()), class);
            }
        }
    }
}
