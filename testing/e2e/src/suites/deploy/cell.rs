//! Runs a container without a container runtime: the files of an image, read-only, as a user without privileges, with
//! the mounts of a kubelet. Processes, mounts and files are isolated; the network is that of the host.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::template::{Container, Place};

/// The steps of a kubelet between the creation and the start of a container. The mount points exist already, because
/// the root is read-only.
const SCRIPT: &str = r#"
root=$1 user=$2 variables=$3; shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc -o ro proc "$root/proc"
while [ "$1" != -- ]; do
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
  shift 3
done
shift
change=$(command -v chroot)
exec env -i $variables setpriv --no-new-privs "$change" --userspec="$user" --groups= "$root" "$@"
"#;

/// An unpacked image.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its files.
    pub root: PathBuf,
    /// Its user: `uid:gid`.
    pub user: String,
}

/// The images of this project that `deploy/` names.
#[derive(Clone, Debug)]
pub struct Images {
    /// `millwright`: the production image.
    pub production: Cell,
    /// `millwright-driver-aws`: the AWS driver.
    pub driver_aws: Cell,
    /// `millwright-dev`: with the virtual cloud.
    pub dev: Cell,
}

impl Images {
    /// Returns the image of a container.
    pub(super) fn of(&self, name: &str) -> &Cell {
        match name {
            name if name.contains("millwright-dev") => &self.dev,
            name if name.contains("millwright-driver-aws") => &self.driver_aws,
            _ => &self.production,
        }
    }
}

/// The cluster information of a pod.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
    pub(super) server: (String, String),
    /// The content of /etc/resolv.conf.
    pub(super) resolver: String,
}

impl Cell {
    /// Returns the command that runs a program of the image as this container.
    pub(super) fn command(
        &self,
        program: &str,
        container: &Container,
        place: &Place,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Vec<String>> {
        let mut mounts = Vec::new();
        for (name, path, content) in [
            ("hosts", "/etc/hosts", "127.0.0.1 localhost\n"),
            ("resolv.conf", "/etc/resolv.conf", surroundings.resolver.as_str()),
        ] {
            let file = place.folder.join(name);
            fs::write(&file, content)?;
            mounts.push((file, path.to_owned(), "ro"));
            self.mount_point(path, Kind::File)?;
        }
        for (path, volume) in &container.mounts {
            let folder = place.folder.join(volume);
            let (user, group) = self.ids()?;
            chown(&folder, Some(user), Some(group)).context("failed to change the owner of a volume. Run as root")?;
            mounts.push((folder, path.clone(), "rw"));
            self.mount_point(path, Kind::Folder)?;
        }
        self.mount_point("/proc", Kind::Folder)?;
        let (host, port) = &surroundings.server;
        let variables = format!("KUBERNETES_SERVICE_HOST={host} KUBERNETES_SERVICE_PORT={port}");
        let mut line = Self::outside(&self.root, &self.user, &variables);
        for (from, to, how) in mounts {
            line.extend([from.display().to_string(), to, how.to_owned()]);
        }
        line.extend(["--".to_owned(), program.to_owned()]);
        line.extend(container.command_line_in_image(place));
        Ok(line)
    }

    /// Returns the command that runs a program of the image without volumes and network settings.
    pub(super) fn bare(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        self.mount_point("/proc", Kind::Folder)?;
        let mut line = Self::outside(&self.root, &self.user, "");
        line.extend(["--".to_owned(), program.to_owned()]);
        line.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Ok(line)
    }

    fn outside(root: &Path, user: &str, variables: &str) -> Vec<String> {
        // If the first process is killed, the kernel kills the whole PID namespace.
        let line = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--", "sh", "-ec", SCRIPT, "sh"];
        let mut line: Vec<String> = line.map(str::to_owned).to_vec();
        line.extend([root.display().to_string(), user.to_owned(), variables.to_owned()]);
        line
    }

    fn ids(&self) -> anyhow::Result<(u32, u32)> {
        let (user, group) = self.user.split_once(':').context("the image names no group")?;
        Ok((user.parse()?, group.parse()?))
    }

    /// Creates a mount point before the root is made read-only, as container runtimes do.
    fn mount_point(&self, path: &str, kind: Kind) -> anyhow::Result<()> {
        let point = self.root.join(path.trim_start_matches('/'));
        if point.exists() {
            return Ok(());
        }
        let folder = match kind {
            Kind::File => point.parent().context("the file has no parent folder")?,
            Kind::Folder => &point,
        };
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        if let Kind::File = kind {
            fs::write(&point, "")?;
        }
        ensure!(point.exists(), "{} does not exist", point.display());
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Folder,
}
