//! Tests of the client over sockets: TLS, HTTP/2, connections, deadlines, credential rotation.

mod in_memory;
mod rotation;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use http::Version;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{PostParams, WatchEvent, WatchParams};
use rstest::rstest;
use runtime::Metrics;
use runtime::client::{ApiError, ClientSpec, Connection, ErrorClass, UserAgent};
use server::{Behaviour, Server, authority, connection, issued_by, kubeconfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Timeout of tests on a slow machine; not reached normally.
const TIMEOUT: Duration = Duration::from_mins(1);

fn spec() -> ClientSpec {
    ClientSpec::new(UserAgent::new("test", "v0", "none")).within(TIMEOUT)
}

fn config_maps(connection: &Connection, spec: &ClientSpec) -> Api<ConfigMap> {
    Api::default_namespaced(connection.client(spec, &Metrics::new().unwrap().rest))
}

async fn class_of_get(api: &Api<ConfigMap>) -> Result<(), ErrorClass> {
    api.get("a").await.map(drop).map_err(|error| ApiError::from(error).class)
}

/// Shows CLI-1.
#[tokio::test]
async fn two_hundred_watches_use_three_connections() {
    let server = Server::start(Behaviour::default()).await;
    let connection = server.connection("token: t");
    let api = config_maps(&connection, &spec());
    let watches = join_all((0..200).map(|_| async {
        let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let first = watch.try_next().await.unwrap();
        assert!(matches!(first, Some(WatchEvent::Bookmark(_))), "the watch did not begin");
        watch
    }))
    .await;
    let object = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("a".to_owned()), ..Default::default() },
        ..Default::default()
    };
    let writes = join_all((0..40).map(|_| async { api.create(&PostParams::default(), &object).await })).await;
    assert!(writes.iter().all(Result::is_ok));

    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.version == Some(Version::HTTP_2)), "{seen:?}");
    assert!(seen.iter().all(|seen| seen.most <= 80), "{seen:?}");
    assert!(
        seen.iter().all(|seen| seen.watches == 0 || seen.calls == 0),
        "a write shared a connection with watches: {seen:?}"
    );
    let with_watches = seen.iter().filter(|seen| seen.watches > 0).count();
    assert_eq!((with_watches, seen.len()), (3, 4), "{seen:?}");
    drop(watches);
}

/// Shows CLI-6.
#[tokio::test]
async fn a_client_on_its_own_connections_shares_no_connection() {
    let server = Server::start(Behaviour::default()).await;
    let connection = server.connection("token: t");
    let (shared, own) = (config_maps(&connection, &spec()), config_maps(&connection, &spec().on_own_connections()));
    shared.get("a").await.unwrap();
    own.get("a").await.unwrap();
    shared.get("a").await.unwrap();
    assert_eq!(server.seen().iter().map(|seen| seen.calls).collect::<Vec<_>>(), [2, 1]);
}

/// Shows CLI-1.
#[tokio::test]
async fn a_server_that_only_speaks_http1_is_served_too() {
    let server = Server::start(Behaviour { protocols: &[b"http/1.1"], ..Behaviour::default() }).await;
    let api = config_maps(&server.connection("token: t"), &spec());
    let _watch = api.watch(&WatchParams::default(), "0").await.unwrap();
    for _ in 0..3 {
        api.get("a").await.unwrap();
    }
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.version == Some(Version::HTTP_11)), "{seen:?}");
    assert_eq!(seen.len(), 2, "one for the watch, one for all calls: {seen:?}");
}

/// Shows CLI-4.
#[tokio::test]
async fn hanging_get_ends_at_its_deadline_with_its_stream() {
    let server = Server::start(Behaviour::default()).await;
    let api = config_maps(&server.connection("token: t"), &spec().within(Duration::from_millis(300)));
    let api_error = ApiError::from(api.get("hang").await.unwrap_err());
    assert_eq!(api_error.to_string(), "the API server did not send a complete response within 300 ms");
    let stream_ended = async {
        while server.seen().iter().any(|seen| seen.now > 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, stream_ended).await.expect("the request was not cancelled on the server");
}

/// Shows CLI-9.
#[tokio::test]
async fn a_renewed_token_is_on_the_next_request_without_a_restart() {
    let server = Server::start(Behaviour { token: Some("old".to_owned()), ..Behaviour::default() }).await;
    server.file("token", "old\n");
    let api = config_maps(&server.connection("tokenFile: token"), &spec());
    assert_eq!(class_of_get(&api).await, Ok(()));
    *server.token.lock() = Some("new".to_owned());
    assert_eq!(class_of_get(&api).await, Err(ErrorClass::Unauthorized));
    server.file("token", "new\n");
    assert_eq!(class_of_get(&api).await, Ok(()));
}

#[rstest]
#[case("token: right", Ok(()))]
#[case("token: wrong", Err(ErrorClass::Unauthorized))]
#[case("", Err(ErrorClass::Unauthorized))]
#[tokio::test]
async fn a_token_in_the_kubeconfig_is_presented(#[case] user: &str, #[case] expected: Result<(), ErrorClass>) {
    let server = Server::start(Behaviour { token: Some("right".to_owned()), ..Behaviour::default() }).await;
    assert_eq!(class_of_get(&config_maps(&server.connection(user), &spec())).await, expected);
}

/// Shows CLI-9.
#[tokio::test]
async fn client_certificate_is_sent_and_reloaded() {
    let server = Server::start(Behaviour { wants_certificate: true, ..Behaviour::default() }).await;
    let write = |(certificate, key): (String, String)| {
        server.file("c.crt", &certificate);
        server.file("c.key", &key);
    };
    write(issued_by(&authority(), "unknown CA"));
    let api = config_maps(&server.connection("client-certificate: c.crt, client-key: c.key"), &spec());
    assert!(api.get("a").await.is_err(), "a certificate of an unknown CA was accepted");
    write(issued_by(&server.authority, "a friend"));
    assert_eq!(class_of_get(&api).await, Ok(()));
}

/// Shows CLI-9.
#[tokio::test]
async fn a_rotated_certificate_authority_is_followed() {
    let server = Server::start(Behaviour::default()).await;
    let path = server.kubeconfig("token: t");
    server.file("ca.crt", &authority().pem());
    let api = config_maps(&connection(&path), &spec());
    let api_error = ApiError::from(api.get("a").await.unwrap_err());
    assert_eq!(api_error.class, ErrorClass::Unreachable);
    assert_eq!(
        api_error.to_string(),
        format!(
            "the certificate of localhost:{} was not issued by the configured CA: \
             check certificate-authority(-data), it may have been rotated",
            server.address.port()
        )
    );
    server.file("ca.crt", &server.authority.pem());
    assert_eq!(class_of_get(&api).await, Ok(()));
}

#[tokio::test]
async fn wrong_name_is_distinguished_from_unknown_ca() {
    let server = Server::start(Behaviour::default()).await;
    server.kubeconfig("token: t");
    let path = server.kubeconfig_for(&format!("https://127.0.0.1:{}", server.address.port()), "token: t");
    let api_error = ApiError::from(config_maps(&connection(&path), &spec()).get("a").await.unwrap_err());
    assert_eq!(
        api_error.to_string(),
        format!(
            "the certificate of 127.0.0.1:{} is for another name: use a name in the certificate, or set tls-server-name",
            server.address.port()
        )
    );
}

/// Returns the error for a server at this address.
async fn sentence(server: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.crt"), authority().pem()).unwrap();
    let path: PathBuf = kubeconfig(dir.path(), server, "token: t");
    let api_error = ApiError::from(config_maps(&connection(&path), &spec()).get("a").await.unwrap_err());
    assert_eq!(api_error.class, ErrorClass::Unreachable, "{api_error}");
    api_error.to_string()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(
        sentence(&format!("https://{address}")).await,
        format!(
            "failed to connect to {address} (Connection refused (os error 111)): check the server's address and that it is running"
        )
    );
}

/// Shows CLI-13.
#[rstest]
#[case("token: hunter2")]
#[case("tokenFile: token")]
#[case("username: u, password: hunter2")]
#[case("exec: {apiVersion: client.authentication.k8s.io/v1, command: /nonexistent, interactiveMode: Never}")]
#[tokio::test]
async fn no_credentials_are_sent_when_the_server_has_no_tls(#[case] user: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "hunter2").unwrap();
    std::fs::write(dir.path().join("ca.crt"), authority().pem()).unwrap();
    let connection = connection(&kubeconfig(dir.path(), &server, &format!("{user}, as: other")));
    assert_eq!(connection.token_file(), None);
    let api = config_maps(&connection, &spec());
    let (_refused, request) = tokio::join!(api.get("a"), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ended");
        }
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        String::from_utf8(request).unwrap().to_lowercase()
    });
    assert!(!request.contains("authorization") && !request.contains("hunter2"), "{request}");
    assert!(request.contains("impersonate-user: other"), "{request}");
}

#[tokio::test]
async fn a_name_without_an_address_is_named() {
    // Too long for a DNS query, so that the test does not depend on DNS.
    let name = "a".repeat(64);
    let sentence = sentence(&format!("http://{name}")).await;
    assert!(sentence.starts_with(&format!("failed to resolve {name} (")), "{sentence}");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = runtime::Tasks::new();
    let _stop = tasks.stop_on_drop();
    tasks.spawn("plain", async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        std::future::pending::<()>().await;
    });
    let sentence = sentence(&format!("https://{address}")).await;
    assert!(sentence.starts_with(&format!("{address} does not use TLS: check the port")), "{sentence}");
}
