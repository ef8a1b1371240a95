//! One address for a cloud with several services, such as OpenStack: a [`Proxy`](super::Proxy) in front of it sees all
//! requests of the driver in order.
//!
//! `/nova/v2.1/servers` is `/v2.1/servers` of the service `nova`; a path without a service name belongs to the first
//! service. In responses, the addresses of the services are replaced by those of this front, under the caller's `Host`
//! (that of the proxy), so that the endpoints in the catalog also lead here.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HOST;

use super::forward::forward;
use crate::loopback::{Answered, Loopback};

/// It runs until this value is dropped.
#[derive(Debug)]
pub struct Front {
    server: Loopback,
}

/// Services by name, with their ports of the loopback address.
#[derive(Clone, Debug)]
struct Services(Vec<(&'static str, u16)>);

impl Front {
    /// Starts one before these services, which have ports of the loopback address.
    pub async fn start(services: &[(&'static str, u16)]) -> io::Result<Self> {
        let services = Arc::new(Services(services.to_vec()));
        let server = Loopback::start(move |request| pass(request, services.clone())).await?;
        Ok(Self { server })
    }

    /// The port of the loopback address it listens on.
    pub fn port(&self) -> u16 {
        self.server.port
    }
}

async fn pass(request: hyper::Request<Incoming>, services: Arc<Services>) -> Answered {
    let (mut head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let (name, port, rest) = services.route(&path);
    head.uri = rest.parse().map_err(io::Error::other)?;
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let answer = forward(to, hyper::Request::from_parts(head, Full::new(body))).await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = match std::str::from_utf8(&body) {
        Ok(text) => Bytes::from(services.renamed(name, &host, text)),
        Err(_) => body,
    };
    Ok(hyper::Response::from_parts(head, Full::new(body)))
}

impl Services {
    /// Returns the service of a path, its port, and the path within the service.
    fn route<'a>(&self, path: &'a str) -> (Option<&'static str>, u16, &'a str) {
        for (name, port) in self.0.iter().skip(1) {
            if let Some(rest) = path.strip_prefix('/').and_then(|path| path.strip_prefix(name))
                && rest.starts_with('/')
            {
                return (Some(name), *port, rest);
            }
        }
        (None, self.0.first().map(|(_, port)| *port).unwrap_or_default(), path)
    }

    /// What a service answered, with all addresses in it leading here. What it says of itself follows the `Host` it was asked under.
    fn renamed(&self, by: Option<&str>, host: &str, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(name) = by {
            text = text.replace(&format!("http://{host}/"), &format!("http://{host}/{name}/"));
        }
        for (at, (name, port)) in self.0.iter().enumerate() {
            let here = if at == 0 { format!("http://{host}") } else { format!("http://{host}/{name}") };
            text = text.replace(&format!("http://127.0.0.1:{port}"), &here);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange;

    const CATALOGUE: &str = r#"["http://127.0.0.1:21000/v3", "http://127.0.0.1:21001/v2.1"]"#;

    fn services() -> Services {
        Services(vec![("keystone", 21000), ("nova", 21001)])
    }

    #[test]
    fn path_selects_its_service_or_the_first_one() {
        assert_eq!(services().route("/nova/v2.1/servers?name=a"), (Some("nova"), 21001, "/v2.1/servers?name=a"));
        assert_eq!(services().route("/v3/auth/tokens"), (None, 21000, "/v3/auth/tokens"));
        assert_eq!(services().route("/novae/x"), (None, 21000, "/novae/x"));
    }

    #[test]
    fn a_catalogue_leads_here_under_the_name_that_the_caller_used() {
        let here = services().renamed(None, "127.0.0.1:40000", CATALOGUE);
        assert_eq!(here, r#"["http://127.0.0.1:40000/v3", "http://127.0.0.1:40000/nova/v2.1"]"#);
    }

    #[test]
    fn the_next_page_of_a_service_leads_to_the_same_service() {
        let page = services().renamed(Some("nova"), "h:1", r#"{"href": "http://h:1/v2.1/servers?marker=a"}"#);
        assert_eq!(page, r#"{"href": "http://h:1/nova/v2.1/servers?marker=a"}"#);
    }

    #[tokio::test]
    async fn what_is_behind_a_front_is_asked_through_it() {
        let behind = crate::ec2::Ec2::start(crate::ec2::Settings::default()).await.unwrap();
        let front = Front::start(&[("first", 1), ("ec2", behind.port())]).await.unwrap();
        let asked = exchange::form(&[("Action", "DescribeVpcs")]);
        assert!(exchange::post(front.port(), "/ec2/", &[], &asked).await.unwrap().status >= 200);
        assert!(exchange::post(front.port(), "/", &[], &asked).await.is_err(), "connection refused");
    }
}
