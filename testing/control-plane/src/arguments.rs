//! The flags and files of each program.
//!
//! The setup is close to production: TLS everywhere, RBAC and the node authorizer, service-account credentials per
//! controller, no anonymous access. Differences: a single etcd without fsync, no leader election (there is one instance
//! of each program, and a lease would delay the start), and loopback only.

use std::path::{Path, PathBuf};

use crate::options::{Options, Presence};
use crate::program::Program;

/// The files of one control plane in one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The folder; removed with the control plane.
    pub home: PathBuf,
    /// The ports.
    pub ports: Ports,
}

/// The ports of the programs on loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The client port of etcd.
    pub etcd: u16,
    /// The peer port of etcd, which is required although there are no peers.
    pub etcd_peer: u16,
    /// The API server.
    pub api_server: u16,
    /// Health and metrics of kube-controller-manager.
    pub controller_manager: u16,
    /// Health and metrics of kube-scheduler.
    pub scheduler: u16,
}

impl Ports {
    /// Returns the port of a program's health endpoint.
    pub fn of(self, program: Program) -> Option<u16> {
        match program {
            Program::Etcd => Some(self.etcd),
            Program::ApiServer => Some(self.api_server),
            Program::ControllerManager => Some(self.controller_manager),
            Program::Scheduler => Some(self.scheduler),
            Program::Kubectl | Program::Kubelet | Program::Helm => None,
        }
    }
}

impl Layout {
    /// Returns the log of a program.
    pub fn log(&self, program: Program) -> PathBuf {
        self.home.join("logs").join(format!("{program}.log"))
    }

    /// Returns the path of a certificate or key.
    pub fn pki(&self, name: &str) -> PathBuf {
        self.home.join("pki").join(name)
    }

    /// Returns the data directory of etcd. It may only be copied or replaced while etcd is stopped.
    pub fn etcd_data(&self) -> PathBuf {
        self.home.join("etcd")
    }

    /// Returns the kubeconfig of a program or the administrator.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.home.join(format!("{name}.kubeconfig"))
    }

    /// Returns the URL of the API server.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }
}

/// Returns the arguments of `program`.
pub fn arguments(program: Program, layout: &Layout, options: &Options) -> Vec<String> {
    let mut arguments = match program {
        Program::Etcd => etcd(layout),
        Program::ApiServer => api_server(layout, options),
        Program::ControllerManager => controller_manager(layout),
        Program::Scheduler => scheduler(layout),
        Program::Kubectl => vec![flag("kubeconfig", &layout.kubeconfig("admin"))],
        // Its flags are in the user data of its machine.
        Program::Kubelet | Program::Helm => Vec::new(),
    };
    let takes_gates = matches!(program, Program::ApiServer | Program::ControllerManager | Program::Scheduler);
    if takes_gates && !options.feature_gates.is_empty() {
        let gates: Vec<String> = options.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        arguments.push(format!("--feature-gates={}", gates.join(",")));
    }
    arguments.extend(options.extra_arguments.get(&program).into_iter().flatten().cloned());
    arguments
}

fn etcd(layout: &Layout) -> Vec<String> {
    let client = format!("https://127.0.0.1:{}", layout.ports.etcd);
    let peer = format!("https://127.0.0.1:{}", layout.ports.etcd_peer);
    let (certificate, key, authority) = (layout.pki("etcd.crt"), layout.pki("etcd.key"), layout.pki("etcd-ca.crt"));
    vec![
        "--name=etcd".to_owned(),
        flag("data-dir", &layout.etcd_data()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        flag("cert-file", &certificate),
        flag("key-file", &key),
        flag("trusted-ca-file", &authority),
        "--client-cert-auth=true".to_owned(),
        flag("peer-cert-file", &certificate),
        flag("peer-key-file", &key),
        flag("peer-trusted-ca-file", &authority),
        "--peer-client-cert-auth=true".to_owned(),
        "--socket-reuse-port=true".to_owned(),
        // A single member waits for an election timeout before it becomes leader, by default one second.
        "--heartbeat-interval=20".to_owned(),
        "--election-timeout=200".to_owned(),
        // Durability is not needed, and fsync would take most of the time of every write.
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn api_server(layout: &Layout, options: &Options) -> Vec<String> {
    let mut arguments = serving(layout, Program::ApiServer, layout.ports.api_server);
    arguments.extend([
        format!("--etcd-servers=https://127.0.0.1:{}", layout.ports.etcd),
        flag("etcd-cafile", &layout.pki("etcd-ca.crt")),
        flag("etcd-certfile", &layout.pki("etcd-client.crt")),
        flag("etcd-keyfile", &layout.pki("etcd-client.key")),
        flag("client-ca-file", &layout.pki("ca.crt")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        flag("service-account-key-file", &layout.pki("tokens.pub")),
        flag("service-account-signing-key-file", &layout.pki("tokens.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints with loopback addresses are invalid, so the service `kubernetes` gets none.
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        flag("kubelet-client-certificate", &layout.pki("kubelet-client.crt")),
        flag("kubelet-client-key", &layout.pki("kubelet-client.key")),
    ]);
    if options.also_at.is_some() {
        arguments.push("--bind-address=0.0.0.0".to_owned());
    }
    if options.controller_manager == Presence::Without {
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    arguments
}

fn controller_manager(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, Program::ControllerManager, layout.ports.controller_manager);
    arguments.extend([
        flag("kubeconfig", &layout.kubeconfig(Program::ControllerManager.name())),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        // The start consists mostly of writes, a service account and a token for each controller, which would take long
        // with the default of 20 requests per second.
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
        flag("service-account-private-key-file", &layout.pki("tokens.key")),
        flag("root-ca-file", &layout.pki("ca.crt")),
        flag("cluster-signing-cert-file", &layout.pki("ca.crt")),
        flag("cluster-signing-key-file", &layout.pki("ca.key")),
        flag("flex-volume-plugin-dir", &layout.home.join("volume-plugins")),
    ]);
    arguments
}

fn scheduler(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, Program::Scheduler, layout.ports.scheduler);
    arguments
        .extend([flag("kubeconfig", &layout.kubeconfig(Program::Scheduler.name())), "--leader-elect=false".to_owned()]);
    arguments
}

/// Returns the serving flags, which are the same for all three programs.
fn serving(layout: &Layout, program: Program, port: u16) -> Vec<String> {
    vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--permit-port-sharing=true".to_owned(),
        flag("tls-cert-file", &layout.pki(&format!("{program}.crt"))),
        flag("tls-private-key-file", &layout.pki(&format!("{program}.key"))),
    ]
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Binaries, Cache};
    use crate::recipe::Recipe;
    use rstest::rstest;

    fn layout() -> Layout {
        let ports = Ports { etcd: 1, etcd_peer: 2, api_server: 3, controller_manager: 4, scheduler: 5 };
        Layout { home: "/home".into(), ports }
    }

    fn options() -> Options {
        let recipe = Recipe::of_this_repository().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(recipe.digest())).unwrap();
        Options::new(Binaries::find(&Cache::at(folder.path()), &recipe).unwrap())
    }

    fn line(program: Program, options: &Options) -> String {
        arguments(program, &layout(), options).join(" ")
    }

    /// Shows PLN-3.
    #[rstest]
    #[case(Program::Etcd)]
    #[case(Program::ApiServer)]
    #[case(Program::ControllerManager)]
    #[case(Program::Scheduler)]
    fn all_programs_listen_on_loopback_and_share_their_ports(#[case] program: Program) {
        let line = line(program, &options());
        let port = layout().ports.of(program).unwrap();
        if program == Program::Etcd {
            assert!(line.contains("--listen-client-urls=https://127.0.0.1:1 "), "{line}");
            assert!(line.contains("--listen-peer-urls=https://127.0.0.1:2 "), "{line}");
            assert!(line.contains("--socket-reuse-port=true"), "{line}");
        } else {
            let expected = format!("--bind-address=127.0.0.1 --secure-port={port} --permit-port-sharing=true");
            assert!(line.contains(&expected), "{line}");
        }
        assert!(!line.contains("0.0.0.0:") && !line.contains("http://"), "{line}");
    }

    /// Shows PLN-3.
    #[test]
    fn the_api_server_uses_rbac_and_etcd_requires_certificates() {
        assert!(line(Program::ApiServer, &options()).contains("--authorization-mode=Node,RBAC"));
        let etcd = line(Program::Etcd, &options());
        assert!(etcd.contains("--client-cert-auth=true") && etcd.contains("--peer-client-cert-auth=true"), "{etcd}");
        assert!(etcd.contains("--unsafe-no-fsync=true"), "{etcd}");
    }

    #[test]
    fn pods_need_no_service_account_without_controllers() {
        let disabled = "--disable-admission-plugins=ServiceAccount";
        assert!(!line(Program::ApiServer, &options()).contains(disabled));
        let alone = options().api_server_only();
        assert!(line(Program::ApiServer, &alone).contains(disabled));
        assert_eq!(alone.programs(), [Program::Etcd, Program::ApiServer]);
    }

    #[test]
    fn feature_gates_are_passed_to_kubernetes_programs_only() {
        let mut options = options();
        options.feature_gates.insert("WatchList".to_owned(), false);
        options.feature_gates.insert("A".to_owned(), true);
        for program in [Program::ApiServer, Program::ControllerManager, Program::Scheduler] {
            assert!(line(program, &options).ends_with("--feature-gates=A=true,WatchList=false"));
        }
        assert!(!line(Program::Etcd, &options).contains("feature-gates"));
    }

    /// Shows HST-18.
    #[test]
    fn only_an_api_server_with_another_address_binds_all() {
        let elsewhere = Options { also_at: Some([10, 0, 0, 1].into()), ..options() };
        assert!(line(Program::ApiServer, &elsewhere).ends_with(" --bind-address=0.0.0.0"));
        assert!(!line(Program::ApiServer, &options()).contains("0.0.0.0 "));
        assert!(!line(Program::ControllerManager, &elsewhere).contains("0.0.0.0"));
    }

    #[test]
    fn an_extra_flag_is_last_and_overrides_others() {
        let options = options().with_argument(Program::ControllerManager, "--node-monitor-grace-period=4s");
        assert!(line(Program::ControllerManager, &options).ends_with(" --node-monitor-grace-period=4s"));
        assert!(!line(Program::ApiServer, &options).contains("grace-period"));
    }

    #[test]
    fn every_file_is_in_the_folder_of_the_control_plane() {
        let layout = Layout { home: "/the/folder".into(), ..layout() };
        // Flags whose defaults are outside of the folder.
        let must_be_given: [(Program, &[&str]); 4] = [
            (Program::Etcd, &["--data-dir"]),
            (Program::ApiServer, &["--tls-cert-file", "--tls-private-key-file"]),
            (
                Program::ControllerManager,
                &["--tls-cert-file", "--tls-private-key-file", "--kubeconfig", "--flex-volume-plugin-dir"],
            ),
            (Program::Scheduler, &["--tls-cert-file", "--tls-private-key-file", "--kubeconfig"]),
        ];
        for (program, must_be_given) in must_be_given {
            let arguments = arguments(program, &layout, &options());
            let pairs: Vec<_> = arguments.iter().filter_map(|argument| argument.split_once('=')).collect();
            for (flag, value) in &pairs {
                let is_a_path = value.contains('/') && !value.contains("://") && *flag != "--service-cluster-ip-range";
                let is_inside = value.starts_with("/the/folder/") && !value.contains("..");
                assert!(!is_a_path || is_inside, "{program} {flag}={value}");
            }
            for flag in must_be_given {
                let given = pairs.iter().any(|(given, value)| given == flag && value.starts_with("/the/folder/"));
                assert!(given, "{program} has no path in the folder for {flag}: {arguments:?}");
            }
        }
    }
}
