//! Checks of manifests that need no cluster.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::root;

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// Shows DEP-10.
#[test]
fn images_have_a_version_tag_equal_to_the_crate_version() {
    let mut all = vec![root().join("docs/operations/install.md")];
    files(&root().join("deploy"), &mut all);
    let mut ours = 0;
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(":latest") && !text.contains("newTag: latest"), "{}", path.display());
        let named = ["millwright:v", "millwright-driver-aws:v", "millwright-driver-openstack:v", "millwright-dev:v"];
        let tags = named.iter().flat_map(|name| text.split(name).skip(1)).map(|rest| {
            let end = rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(rest.len());
            rest[..end].trim_end_matches('.')
        });
        for tag in tags {
            ours += 1;
            assert_eq!(tag, env!("CARGO_PKG_VERSION"), "{}", path.display());
        }
    }
    assert!(ours >= 5, "only {ours} image tags were found");
}

/// Shows DEP-8.
#[test]
fn only_the_millwright_container_mounts_the_service_account() {
    for manifest in
        ["one-process/deployment.yaml", "two-processes/machine-controller.yaml", "two-processes/manager.yaml"]
    {
        let text = fs::read_to_string(root().join("deploy").join(manifest)).unwrap();
        assert!(text.contains("\n      automountServiceAccountToken: false\n"), "{manifest}");
        assert_eq!(text.matches("serviceAccountToken: {").count(), 1, "{manifest}");
        assert_eq!(text.matches("mountPath: /var/run/secrets/kubernetes.io/serviceaccount").count(), 1, "{manifest}");
    }
    let driver = fs::read_to_string(root().join("deploy/driver/kustomization.yaml")).unwrap();
    assert!(!driver.contains("serviceaccount"), "a driver must not mount a service account");
}

#[test]
fn each_driver_is_probed_on_the_socket_that_it_listens_on() {
    let read = |file: &str| fs::read_to_string(root().join("deploy").join(file)).unwrap();
    let driver = read("driver/kustomization.yaml");
    let socket = "unix:/run/driver/driver.sock";
    assert!(
        driver.contains(&format!("- --listen={socket}")) && driver.contains(&format!("--driver-endpoint={socket}"))
    );
    assert!(driver.contains("path: /spec/template/spec/containers/-"));
    for cloud in ["aws", "openstack"] {
        let ours = read(&format!("{cloud}-driver/kustomization.yaml"));
        assert!(ours.contains(&format!("[/millwright-driver-{cloud}, \"--probe={socket}\"]")), "{ours}");
        assert!(ours.contains("containers/1/image"), "{ours}");
        assert!(read("image/Dockerfile").contains(&format!("ENTRYPOINT [\"/millwright-driver-{cloud}\"]")));
    }
}
