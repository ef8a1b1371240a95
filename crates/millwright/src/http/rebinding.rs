//! Detects DNS rebinding.
//!
//! A web site can let its own name resolve to an address of this process. A browser then treats the pages of this
//! process as pages of that site and lets its scripts read them. Only the `Host` header reveals this: it contains the
//! name of the site.
//!
//! The name alone is not sufficient. Prometheus may use a DNS name, and a request through the API server proxy
//! (`millwright explain`) carries the name of the API server. Neither is a browser. A browser sends `Accept-Language`
//! with every request; a script can change its value, but not remove it.

use http::header::HOST;
use http::{HeaderMap, Uri};

/// Headers that browsers send and other clients do not.
const BROWSER_HEADERS: [&str; 4] = ["accept-language", "origin", "sec-fetch-mode", "sec-fetch-site"];

/// Returns the requested host without its port.
pub(crate) fn requested_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let host = uri.host().or_else(|| headers.get(HOST)?.to_str().ok()).unwrap_or_default();
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Returns whether a browser requested a page under a name that is neither an IP address nor `localhost`.
pub(super) fn is_suspected(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = requested_host(uri, headers);
    let is_own = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
    !is_own && BROWSER_HEADERS.iter().any(|header| headers.contains_key(*header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;
    use rstest::rstest;

    /// Shows HTT-10.
    #[rstest]
    #[case::site("evil.example", "accept-language", true)]
    #[case::site_with_port("evil.example:10258", "accept-language", true)]
    #[case::localhost_prefix("localhost.evil.example", "accept-language", true)]
    #[case::no_host("", "accept-language", true)]
    #[case::origin("evil.example", "origin", true)]
    #[case::fetch("evil.example", "sec-fetch-site", true)]
    #[case::pod_address("10.1.2.3:10258", "accept-language", false)]
    #[case::ipv6("[fd00::1]:10258", "accept-language", false)]
    #[case::port_forward("localhost:8080", "accept-language", false)]
    #[case::prometheus_by_name("millwright.millwright-system.svc:10258", "user-agent", false)]
    #[case::api_server_proxy("api.shoot.example:443", "x-forwarded-uri", false)]
    fn browser_is_suspected_under_a_foreign_name(#[case] host: &str, #[case] header: &str, #[case] suspected: bool) {
        let headers = HeaderMap::from_iter([
            (HOST, host.parse().unwrap()),
            (header.parse::<HeaderName>().unwrap(), "x".parse().unwrap()),
        ]);
        assert_eq!(is_suspected(&Uri::from_static("/debug/state"), &headers), suspected);
    }
}
