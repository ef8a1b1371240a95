//! What every manifest must keep to, found without a cluster.

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
fn images_are_named_by_version_and_ours_by_the_version_of_this_program() {
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
    assert!(ours >= 5, "{ours} are too few to be all");
}

/// Shows DEP-8.
#[test]
fn no_kubelet_shows_the_account_to_whoever_else_is_in_our_pods() {
    for manifest in
        ["one-process/deployment.yaml", "two-processes/machine-controller.yaml", "two-processes/manager.yaml"]
    {
        let text = fs::read_to_string(root().join("deploy").join(manifest)).unwrap();
        assert!(text.contains("\n      automountServiceAccountToken: false\n"), "{manifest}");
        assert_eq!(text.matches("serviceAccountToken: {").count(), 1, "{manifest}");
        assert_eq!(text.matches("mountPath: /var/run/secrets/kubernetes.io/serviceaccount").count(), 1, "{manifest}");
    }
    let driver = fs::read_to_string(root().join("deploy/driver/kustomization.yaml")).unwrap();
    assert!(!driver.contains("serviceaccount"), "a driver is shown nobody's account");
}

#[test]
fn each_driver_of_ours_is_probed_where_it_listens() {
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
