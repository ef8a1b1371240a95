//! Tests of the output of commands on a terminal and into a pipe, with snapshots in `snapshots/` (`UPDATE_SNAPSHOTS=1`
//! rewrites them).
//!
//! Random names, ages and times are replaced.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::inspect::Pool;
use crate::program::{Program, text};

/// Runs a command on a terminal of this size, which `script` of util-linux provides. Returns whether it succeeded, and
/// its output.
pub(crate) fn on_a_terminal(columns: u16, rows: u16, command: &str) -> Option<(bool, String)> {
    let command = format!("stty cols {columns} rows {rows}; TERM=xterm {} {command}", env!("CARGO_BIN_EXE_millwright"));
    let mut script = Command::new("script");
    let shown =
        script.args(["-q", "-e", "-c", &command, "/dev/null"]).env_remove("NO_COLOR").stdin(Stdio::null()).output();
    shown.ok().map(|output| (output.status.success(), text(&output.stdout)))
}

/// Removes escape sequences from a line.
pub(crate) fn without_escapes(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    first
        + &pieces
            .map(|piece| piece.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest))
            .collect::<String>()
}

/// Compares the output with a snapshot.
#[allow(clippy::disallowed_methods, reason = "an environment variable requests the update of the snapshots")]
pub(crate) fn same_as(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, shown).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(before == shown, "{name} differs from {}; UPDATE_SNAPSHOTS=1 rewrites it:\n{shown}", path.display());
}

/// Replaces what differs between runs, and makes escape sequences visible.
fn normalized(shown: &str, pool: &Pool) -> String {
    let tree: Value = serde_json::from_str(&pool.succeeds(&["status", "--unfold", "-o", "json"])).unwrap();
    let set = &tree["machineDeployments"][0]["sets"][0];
    let mut shown = shown.replace("\r\n", "\n").replace('\x1b', "<esc>");
    for (place, machine) in set["machines"].as_array().unwrap().iter().enumerate() {
        shown = shown.replace(machine["name"].as_str().unwrap(), &format!("MACHINE-{place}"));
        shown = shown.replace(machine["vm"].as_str().unwrap(), &format!("VM-{place}"));
    }
    shown = shown.replace(set["name"].as_str().unwrap(), "SET");
    shown.lines().map(|line| without_times(line) + "\n").collect()
}

/// Replaces ages, dates and times of day, which vary in length.
fn without_times(line: &str) -> String {
    let is_time = |word: &str| {
        let begins = word.starts_with(|c: char| c.is_ascii_digit());
        begins
            && (word.contains(':') || word.contains('-') || word.ends_with('s'))
            && word.chars().all(|c| c.is_ascii_digit() || "smhd:-".contains(c))
    };
    let mut out = String::new();
    for word in line.split_inclusive([' ', ',', '(', ')']) {
        let bare = word.trim_end_matches([' ', ',', '(', ')']);
        out.push_str(if is_time(bare) { "TIME" } else { bare });
        out.push_str(&word[bare.len()..]);
    }
    out
}

/// Shows OPR-22.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn commands_match_their_snapshots() {
    let pool = Pool::start();
    let kubeconfig = format!("--kubeconfig {}", pool.kubeconfig().display());
    let tree: Value = serde_json::from_str(&pool.succeeds(&["status", "--unfold", "-o", "json"])).unwrap();
    let machine = tree["machineDeployments"][0]["sets"][0]["machines"][0]["name"].as_str().unwrap();
    let explain = ["explain", "machine", machine];
    for (name, arguments) in
        [("status", &["status"][..]), ("explain", &explain), ("rollout-status", &["rollout", "status", "pool"])]
    {
        same_as(&format!("{name}-pipe"), &normalized(&pool.succeeds(arguments), &pool));
        let Some((success, shown)) = on_a_terminal(120, 30, &format!("{} {kubeconfig}", arguments.join(" "))) else {
            eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
            return;
        };
        assert!(success, "{name}: {shown}");
        same_as(&format!("{name}-terminal"), &normalized(&shown, &pool));
    }
}

/// Shows OPR-22.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn watched_status_is_redrawn_on_a_terminal() {
    let pool = Pool::start();
    let watched =
        format!("status pool -w --kubeconfig {} & sleep 5; kill $!; wait $!; true", pool.kubeconfig().display());
    let Some((_, shown)) = on_a_terminal(120, 30, &watched) else {
        eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
        return;
    };
    let frames = shown.matches("3 machines: 3 healthy").count();
    assert!(frames >= 2, "drawn {frames} times in five seconds: {shown}");
    assert!(shown.contains("\x1b[") && !shown.contains("\x1b[?1049"), "{shown}");
}

/// Shows OPR-22.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn no_color_removes_only_the_colours() {
    let pool = Pool::start();
    let status = format!("status --kubeconfig {}", pool.kubeconfig().display());
    let on = |environment: &[(&str, &str)]| -> Option<String> {
        let mut program = Program::start_on_a_terminal(120, &status, environment)?;
        program.wait_for_line(&["3 machines: 3 healthy"]);
        let printed: Vec<_> = program.lines_so_far().iter().map(|line| without_times(line)).collect();
        Some(printed.join("\n"))
    };
    let Some((coloured, plain)) = on(&[]).zip(on(&[("NO_COLOR", "1")])) else {
        eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
        return;
    };
    assert!(coloured.contains("\x1b[") && !plain.contains('\x1b'), "{coloured}\n{plain}");
    assert_eq!(without_escapes(&coloured), plain);
}
