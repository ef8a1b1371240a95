use super::*;

const V1: &str = "\
25 1 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:25 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
28 25 0:26 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
29 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
30 1 0:25 / /elsewhere rw,relatime - cgroup cgroup rw,memory
";
const V2: &str = "25 1 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

const SIZE: Resources = Resources { cpu_millis: 1500, memory: 1 << 30 };

/// Shows HST-10.
#[test]
fn hierarchies_are_read_from_the_mounts() {
    let first = Hierarchies::of(V1).unwrap();
    let expected = ["cgroup|cpu,cpuacct|cpu,cpuacct", "cgroup|memory|memory", "cgroup|none,name=systemd|systemd"];
    assert_eq!(first.mounts(), expected, "each once, without version 2");
    let second = Hierarchies::of(V2).unwrap();
    assert_eq!(second, Hierarchies::V2("/sys/fs/cgroup".into()));
    assert_eq!(second.mounts(), ["cgroup2||"]);
    assert_eq!(Hierarchies::of("25 1 0:23 / / rw - ext4 /dev/vda rw\n"), None);
}

/// A folder with the files of a cgroup file system.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn read(root: &tempfile::TempDir, file: &str) -> String {
    fs::read_to_string(root.path().join(file)).unwrap_or_default()
}

/// Shows HST-10.
#[test]
fn a_v2_machine_has_limits_from_delegated_controllers() {
    let files = [
        ("cgroup.controllers", "cpu memory rdma\n"),
        ("cgroup.subtree_control", ""),
        ("m/cgroup.controllers", "cpu\n"),
        ("m/cgroup.subtree_control", ""),
        ("m/cpu.max", ""),
        ("m/memory.max", ""),
    ];
    let root = root(&files);
    let groups = MachineCgroups::new(Hierarchies::V2(root.path().into()), "m".into());
    groups.make(SIZE).unwrap();
    assert_eq!(
        (read(&root, "m/cpu.max").as_str(), read(&root, "m/memory.max").as_str()),
        ("150000 100000", "1073741824")
    );
    assert_eq!(read(&root, "cgroup.subtree_control"), "+memory", "the last write");
    assert_eq!(
        read(&root, "m/cgroup.subtree_control"),
        "",
        "with controllers for its children no process could join it"
    );
    let (joined, leaves) = groups.joined_by();
    assert_eq!((joined, leaves), (vec![root.path().join("m")], vec![root.path().join("m/init")]));
}

/// Shows HST-10.
#[test]
fn a_v1_machine_has_limits_and_the_cpus_of_its_host() {
    let files = [
        ("cpu/m/cpu.cfs_quota_us", "-1"),
        ("memory/m/memory.limit_in_bytes", ""),
        ("cpuset/cpuset.cpus", "0-1\n"),
        ("cpuset/cpuset.mems", "0\n"),
        ("cpuset/m/cpuset.cpus", ""),
        ("cpuset/m/cpuset.mems", ""),
    ];
    let root = root(&files);
    let all = ["cpu", "memory", "cpuset"].map(|name| (root.path().join(name), name.to_owned()));
    let groups = MachineCgroups::new(Hierarchies::V1(all.to_vec()), "m".into());
    groups.make(SIZE).unwrap();
    assert_eq!(read(&root, "cpu/m/cpu.cfs_quota_us"), "150000");
    assert_eq!(read(&root, "memory/m/memory.limit_in_bytes"), "1073741824");
    assert_eq!(
        (read(&root, "cpuset/m/cpuset.cpus").as_str(), read(&root, "cpuset/m/cpuset.mems").as_str()),
        ("0-1", "0")
    );
    assert_eq!(groups.joined_by().1, Vec::<PathBuf>::new());
}

#[test]
fn existing_cgroups_and_processes_of_children_are_found() {
    let root = root(&[("a/m/kubepods/pod/cgroup.procs", "12\n7\n"), ("a/m/cgroup.procs", "7\n"), ("b/other", "")]);
    let all = ["a", "b"].map(|name| (root.path().join(name), name.to_owned()));
    let groups = MachineCgroups::new(Hierarchies::V1(all.to_vec()), "m".into());
    assert_eq!((groups.seen(), groups.processes()), (steps::Cgroups::Some, vec![7, 12]));
    fs::create_dir(root.path().join("b/m")).unwrap();
    assert_eq!(groups.seen(), steps::Cgroups::All);
    let missing = MachineCgroups::new(groups.hierarchies().clone(), "n".into());
    assert_eq!((missing.seen(), missing.processes()), (steps::Cgroups::Absent, Vec::new()));
}

/// Shows HST-10.
#[test]
fn children_of_an_earlier_run_are_removed_before_a_start() {
    let root = root(&[("m/cgroup.subtree_control", "memory\n")]);
    fs::create_dir_all(root.path().join("m/kubepods/pod")).unwrap();
    let groups = MachineCgroups::new(Hierarchies::V2(root.path().into()), "m".into());
    groups.clear().unwrap();
    assert!(!root.path().join("m/kubepods").exists() && groups.seen() == steps::Cgroups::All);
    assert_eq!(read(&root, "m/cgroup.subtree_control"), "-memory");
}

#[test]
fn the_innermost_cgroup_is_removed_first() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("m/kubepods/pod")).unwrap();
    let groups = MachineCgroups::new(Hierarchies::V2(root.path().into()), "m".into());
    assert_eq!(groups.remove().unwrap(), Removal::Done);
    assert_eq!(groups.seen(), steps::Cgroups::Absent);
    assert_eq!(groups.remove().unwrap(), Removal::Done, "the removal can be repeated");
}
