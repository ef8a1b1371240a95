//! Driver endpoints.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The endpoint of a driver. TCP without TLS is not supported, because cloud credentials are transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket, for a driver on the same host or in the same pod: `unix:/run/driver.sock`.
    Unix(PathBuf),
    /// TCP with mutual TLS: `tcp+mtls://driver.example:9443`.
    MutualTls {
        /// A host name or an address; the driver's certificate must be valid for it.
        host: String,
        /// The port.
        port: u16,
    },
}

/// An invalid endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is unknown.
    #[error("expected the form unix:/run/driver.sock or tcp+mtls://driver.example:9443")]
    Scheme,
    /// The path is missing.
    #[error("unix: must be followed by the path of a socket, as in unix:/run/driver.sock")]
    Path,
    /// The host or the port is missing.
    #[error("tcp+mtls:// must be followed by host and port, as in tcp+mtls://driver.example:9443")]
    Address,
    /// The files for mutual TLS are missing.
    #[error("tcp+mtls:// requires three files: a certificate, its key, and the CA certificate of the other side")]
    Files,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // gRPC allows unix:path and unix:///path.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(EndpointError::Path) } else { Ok(Self::Unix(path.into())) };
        }
        let address = text.strip_prefix("tcp+mtls://").ok_or(EndpointError::Scheme)?;
        let (host, port) = address.rsplit_once(':').ok_or(EndpointError::Address)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port) if !host.is_empty() => Ok(Self::MutualTls { host: host.to_owned(), port }),
            _ => Err(EndpointError::Address),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::MutualTls { host, port } if host.contains(':') => write!(f, "tcp+mtls://[{host}]:{port}"),
            Self::MutualTls { host, port } => write!(f, "tcp+mtls://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("unix:/run/d.sock", "unix:/run/d.sock")]
    #[case("unix:///run/d.sock", "unix:/run/d.sock")]
    #[case("unix:d.sock", "unix:d.sock")]
    #[case("tcp+mtls://d.example:9443", "tcp+mtls://d.example:9443")]
    #[case("tcp+mtls://[::1]:1", "tcp+mtls://[::1]:1")]
    fn endpoint_round_trips(#[case] text: &str, #[case] canonical: &str) {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(endpoint));
    }

    #[rstest]
    #[case("/run/d.sock", EndpointError::Scheme)]
    #[case("tcp://d:1", EndpointError::Scheme)]
    #[case("unix:", EndpointError::Path)]
    #[case("unix://", EndpointError::Path)]
    #[case("tcp+mtls://d", EndpointError::Address)]
    #[case("tcp+mtls://:1", EndpointError::Address)]
    #[case("tcp+mtls://d:http", EndpointError::Address)]
    fn invalid_endpoint_is_rejected_with_an_example(#[case] text: &str, #[case] error: EndpointError) {
        assert_eq!(text.parse::<Endpoint>(), Err(error));
        assert!(error.to_string().contains(" unix:/run/") || error.to_string().contains(" tcp+mtls://driver"));
    }
}
