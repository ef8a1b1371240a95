//! The network face, with real sockets and real time.

use fake_apiserver::loopback::{self, Options, Running};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cluster::{refusal, server};

async fn connect(running: &Running) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&running.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Shows SRV-2.
#[tokio::test]
async fn a_client_gets_in_with_the_kubeconfig_and_not_with_an_expired_token() {
    let server = server();
    let running = loopback::serve(server.clone(), Options::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(connect(&running).await);
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
    server.revoke(&running.token);
    let (code, reason, _) = refusal(namespaces.list(&ListParams::default()).await);
    assert_eq!((code, reason.as_str()), (401, "Unauthorized"));
    running.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_shut_down_is_gone_with_its_connections() {
    let running = loopback::serve(server(), Options::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(connect(&running).await);
    namespaces.list(&ListParams::default()).await.unwrap();
    let _open = namespaces.watch(&WatchParams::default(), "0").await.unwrap();
    running.shutdown().await;
    assert!(namespaces.list(&ListParams::default()).await.is_err());
}

#[cfg(unix)]
/// Shows SRV-2.
#[tokio::test]
async fn a_written_kubeconfig_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let running = loopback::serve(server(), Options::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), running.kubeconfig());
}
