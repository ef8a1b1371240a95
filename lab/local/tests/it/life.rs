//! Objects of machines, and handling of objects of others.

use api::view::SecretData;
use driver::{Call, ClassRequest, Code, Driver};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Fixture, MACHINES, PODS, class, request, secret};

/// Shows HST-27.
#[tokio::test(start_paused = true)]
async fn a_machine_is_a_pod_that_owns_a_secret_and_a_service() {
    let fixture = Fixture::new(true);
    let request = request(class(json!({ "image": "node", "namespace": PODS })), secret(), "m");
    let made = fixture.driver().create(&Call::default(), &request).await.unwrap();
    assert_eq!((made.provider_id.as_str(), made.node_name.as_str()), ("machine-m", "machine-m"));
    let addresses: Vec<&str> = made.addresses.iter().map(|address| address.address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.1", "fd00::1"]);
    let pod = fixture.object("pods", "machine-m").unwrap();
    let secret = fixture.object("secrets", "machine-m-userdata").unwrap();
    let service = fixture.service_applied.lock().unwrap().clone();
    for object in [&*secret, &service] {
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"], "{object}");
    }
    assert_eq!(fixture.object("secrets", "machine-m-userdata").unwrap()["data"]["userdata"], "IyEvYmluL3No");
}

/// Shows HST-27.
#[tokio::test(start_paused = true)]
async fn first_generation_classes_need_no_kubeconfig() {
    let fixture = Fixture::new(true);
    let secret = SecretData::from_iter([("userData", "")]);
    let class = class(json!({ "apiVersion": "mcm.gardener.cloud/v1alpha1", "image": "node" }));
    let request = request(class, secret, "m");
    fixture.driver().create(&Call::default(), &request).await.unwrap();
    assert!(fixture.server.object("pods", MACHINES, "machine-m").is_some());
    let class = ClassRequest { class: request.class.clone(), secret: request.secret.clone() };
    let listed = fixture.driver().list(&Call::default(), &class).await.unwrap();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(id, machine)| (id.as_str(), machine.as_str())).collect();
    assert_eq!(listed, [("machine-m", "m")]);
}

/// Shows HST-28.
#[tokio::test(start_paused = true)]
async fn a_pod_that_never_runs_is_reported_after_ten_minutes() {
    let fixture = Fixture::new(false);
    let request = request(class(json!({ "image": "node", "namespace": PODS })), secret(), "m");
    let begin = Instant::now();
    let error = fixture.driver().create(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.message().ends_with("it is Pending: ErrImagePull: no such image"), "{error}");
    assert!((590..=600).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

/// Shows HST-29.
#[tokio::test(start_paused = true)]
async fn an_invalid_kubeconfig_is_reported_but_not_printed() {
    let fixture = Fixture::new(true);
    let secret = SecretData::from_iter([("userData", ""), ("kubeconfig", "hunter2")]);
    let request = request(class(json!({ "image": "node", "namespace": PODS })), secret, "m");
    let error = fixture.driver().status(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.message(), "credentialsSecretRef.kubeconfig: invalid kubeconfig");
}

/// Shows HST-28.
#[tokio::test(start_paused = true)]
async fn a_deletion_waits_until_the_pod_does_not_exist() {
    let fixture = Fixture::new(true);
    let request = request(class(json!({ "image": "node", "namespace": PODS })), secret(), "m");
    fixture.driver().create(&Call::default(), &request).await.unwrap();
    let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(fixture.client.clone(), PODS);
    let keep = |finalizers: serde_json::Value| {
        let (pods, patch) = (pods.clone(), json!({ "metadata": { "finalizers": finalizers } }));
        async move { pods.patch("machine-m", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await }
    };
    keep(json!(["test/keeps-it"])).await.unwrap();
    let begin = Instant::now();
    let (driver, call) = (fixture.driver(), Call::default());
    let (deleted, _) = tokio::join!(driver.delete(&call, &request), async {
        tokio::time::sleep(std::time::Duration::from_secs(62)).await;
        keep(json!(null)).await
    });
    deleted.unwrap();
    assert!((62..70).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}
