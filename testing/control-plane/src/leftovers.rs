//! Search for leftover processes.
//!
//! Every program of a control plane, and every guard, has the control plane's folder on its command line, and each
//! control plane has a separate folder. So processes with that folder after the end are leftovers.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns processes with `home` on their command line, as `pid command line`, except for this process.
pub fn processes(home: &Path) -> Vec<String> {
    let wanted = home.display().to_string();
    let own = std::process::id().to_string();
    all()
        .into_iter()
        .filter(|(pid, line)| *pid != own && line.contains(&wanted))
        .map(|(p, l)| format!("{p} {l}"))
        .collect()
}

/// Reads `/proc` if it exists, because small containers often lack `ps`.
fn all() -> Vec<(String, String)> {
    let from_proc: Vec<_> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().into_string().ok().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect();
    if from_proc.is_empty() { from_ps() } else { from_proc }
}

fn from_ps() -> Vec<(String, String)> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,args="]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .map(|(pid, line)| (pid.to_owned(), line.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_names_the_folder_is_found_until_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", "read -r _", "waits"])
            .arg(folder.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The child may still be between fork and exec, with the command line of this process.
        while processes(folder.path()).is_empty() {
            std::thread::yield_now();
        }
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(processes(folder.path()), Vec::<String>::new());
    }
}
