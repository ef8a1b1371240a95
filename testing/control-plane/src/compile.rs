//! Compilation of Go modules, once per recipe and user.
//!
//! A first build takes minutes. Therefore it reports progress, concurrent callers compile only once, and an interrupted
//! build leaves no incomplete result. The file lock is released when its process ends; the programs are compiled in
//! another folder, which is renamed at the end.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::cache::{Binaries, Cache};
use crate::program::Program;
use crate::recipe::Recipe;

/// Options of the compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The Go command; searched on the PATH if it is a bare name.
    pub go: PathBuf,
    /// Number of packages to compile in parallel; Go's default if not set.
    pub jobs: Option<u16>,
}

impl Default for Compiler {
    fn default() -> Self {
        Self { go: PathBuf::from("go"), jobs: None }
    }
}

/// Progress of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process compiles the same programs; its result is used.
    WaitingForAnother,
    /// The compilation of a program has started.
    Begun {
        /// The program.
        program: Program,
        /// Its position, starting at one.
        place: usize,
    },
    /// The compilation of a program continues.
    Moving {
        /// The program.
        program: Program,
        /// The elapsed time.
        elapsed: Duration,
        /// Number of modules downloaded and packages compiled so far.
        steps: usize,
    },
    /// A program is complete.
    Finished {
        /// The program.
        program: Program,
        /// The elapsed time.
        elapsed: Duration,
    },
}

impl Progress {
    /// Returns the progress as a sentence; `all` is the number of programs.
    pub fn sentence(&self, all: usize) -> String {
        match self {
            Self::WaitingForAnother => "another process is compiling the same programs; waiting".to_owned(),
            Self::Begun { program, place: 1 } if all > 1 => format!(
                "compiling {program} (1 of {all}); a first build of all takes about ten minutes and 3 GB of Go caches"
            ),
            Self::Begun { program, place } => format!("compiling {program} ({place} of {all})"),
            Self::Moving { program, elapsed, steps } => {
                format!("{program}: {steps} packages after {} s", elapsed.as_secs())
            }
            Self::Finished { program, elapsed } => format!("{program} compiled in {} s", elapsed.as_secs()),
        }
    }
}

/// A failed compilation.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Go is not installed.
    #[error(
        "failed to find Go ({go}), which compiles the control plane. Install Go {wanted} or newer \
         from https://go.dev/dl and add it to the PATH. The rest of this repository does not need Go"
    )]
    GoMissing {
        /// The command.
        go: String,
        /// The minimum version.
        wanted: String,
    },
    /// The installed Go is too old and may not download a newer one.
    #[error(
        "failed to use the installed Go: {found}. The control plane needs Go {wanted} or newer from https://go.dev/dl"
    )]
    GoTooOld {
        /// The output of Go.
        found: String,
        /// The minimum version.
        wanted: String,
    },
    /// A folder or file of the cache cannot be used.
    #[error("failed to {step} {path}")]
    Cache {
        /// The step.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The Go command cannot be started.
    #[error("failed to run {go}")]
    Run {
        /// The command.
        go: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Go failed to compile a program.
    #[error("failed to compile {program}:\n{said}")]
    Failed {
        /// The program.
        program: Program,
        /// The last lines of Go's output.
        said: String,
    },
}

impl Compiler {
    /// Returns the programs of `recipe` from the cache, or compiles them.
    pub async fn compile(
        &self,
        recipe: &Recipe,
        cache: &Cache,
        mut tell: impl FnMut(Progress),
    ) -> Result<Binaries, CompileError> {
        if let Ok(found) = Binaries::find(cache, recipe) {
            return Ok(found);
        }
        self.check_go(recipe).await?;
        try_to(cache.folder(), "create", |path| fs::create_dir_all(path))?;
        let _lock = lock(&cache.lock(recipe), &mut tell).await?;
        // The previous holder of the lock may have compiled them.
        if let Ok(found) = Binaries::find(cache, recipe) {
            return Ok(found);
        }
        let (unfinished, finished) = (cache.unfinished(recipe), cache.finished(recipe));
        if unfinished.exists() {
            try_to(&unfinished, "remove", |path| fs::remove_dir_all(path))?;
        }
        try_to(&unfinished, "create", |path| fs::create_dir(path))?;
        for (index, &program) in recipe.programs().iter().enumerate() {
            tell(Progress::Begun { program, place: index + 1 });
            self.compile_one(program, recipe, &unfinished, &mut tell).await?;
        }
        try_to(&finished, "rename the compiled programs to", |path| fs::rename(&unfinished, path))?;
        Binaries::find(cache, recipe).map_err(|_| CompileError::Cache {
            step: "find the compiled programs in",
            path: finished,
            source: io::ErrorKind::NotFound.into(),
        })
    }

    /// Runs in the recipe's folder, because Go then selects a newer toolchain by `go.mod` if downloads are allowed.
    async fn check_go(&self, recipe: &Recipe) -> Result<(), CompileError> {
        let wanted = recipe.go().to_owned();
        let output = self.go(recipe).args(["env", "GOVERSION"]).output().await;
        let output = output.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => CompileError::GoMissing { go: self.name(), wanted: wanted.clone() },
            _ => CompileError::Run { go: self.name(), source },
        })?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let found = said(&output.stdout);
        if !output.status.success() {
            return Err(CompileError::GoTooOld { found: said(&output.stderr), wanted });
        }
        match (version(&found), version(&wanted)) {
            // A version that is not a number is a development build of Go and accepted.
            (Some(have), Some(need)) if have < need => Err(CompileError::GoTooOld { found, wanted }),
            _ => Ok(()),
        }
    }

    async fn compile_one(
        &self,
        program: Program,
        recipe: &Recipe,
        into: &Path,
        tell: &mut impl FnMut(Progress),
    ) -> Result<(), CompileError> {
        let failed = |source| CompileError::Run { go: self.name(), source };
        let begin = Instant::now();
        let mut child = self
            .go(recipe)
            .args(self.build_arguments(program, recipe, into))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut steps = 0;
        let mut last_lines = LastLines::default();
        if let Some(stderr) = child.stderr.take() {
            let mut lines = BufReader::new(stderr).lines();
            let mut ticks = interval(Duration::from_secs(15));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await; // The first tick is immediate.
            loop {
                tokio::select! {
                    biased;
                    line = lines.next_line() => match line.map_err(failed)? {
                        Some(line) => { steps += 1; last_lines.push(line); }
                        None => break,
                    },
                    _ = ticks.tick() => tell(Progress::Moving { program, elapsed: begin.elapsed(), steps }),
                }
            }
        }
        if !child.wait().await.map_err(failed)?.success() {
            return Err(CompileError::Failed { program, said: last_lines.text() });
        }
        tell(Progress::Finished { program, elapsed: begin.elapsed() });
        Ok(())
    }

    fn build_arguments(&self, program: Program, recipe: &Recipe, into: &Path) -> Vec<String> {
        let version = "k8s.io/component-base/version";
        let (full, mut parts) = (recipe.version(), recipe.version().trim_start_matches('v').split('.'));
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut arguments = vec!["build".to_owned(), "-v".to_owned()];
        if let Some(jobs) = self.jobs {
            arguments.extend(["-p".to_owned(), jobs.to_string()]);
        }
        arguments.extend([
            "-mod=readonly".to_owned(),
            "-buildvcs=false".to_owned(),
            "-trimpath".to_owned(),
            "-ldflags".to_owned(),
            // Without a version the API server reports v0.0.0-master and rejects compatibility queries.
            format!(
                "-s -w -X {version}.gitVersion={full} -X {version}.gitMajor={major} -X {version}.gitMinor={minor} \
                 -X {version}.gitTreeState=clean"
            ),
            "-o".to_owned(),
            into.join(program.name()).display().to_string(),
            program.package().to_owned(),
        ]);
        arguments
    }

    fn go(&self, recipe: &Recipe) -> Command {
        let mut go = Command::new(&self.go);
        // A workspace file above the repository must not affect the compilation.
        go.current_dir(recipe.folder()).env("CGO_ENABLED", "0").env("GOWORK", "off");
        go
    }

    fn name(&self) -> String {
        self.go.display().to_string()
    }
}

/// The last lines other than progress: `go build -v` prints package paths, which contain no spaces.
#[derive(Debug, Default)]
struct LastLines {
    lines: std::collections::VecDeque<String>,
}

impl LastLines {
    fn push(&mut self, line: String) {
        if line.contains(' ') && !line.starts_with("go: downloading ") {
            if self.lines.len() == 30 {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
    }

    fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Waits for the lock asynchronously, because the holder may need minutes.
async fn lock(path: &Path, tell: &mut impl FnMut(Progress)) -> Result<File, CompileError> {
    let file = try_to(path, "open", |path| File::create(path))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) => {
                if !told {
                    tell(Progress::WaitingForAnother);
                    told = true;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(fs::TryLockError::Error(source)) => {
                return Err(CompileError::Cache { step: "lock", path: path.to_owned(), source });
            }
        }
    }
}

fn try_to<T>(path: &Path, step: &'static str, act: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, CompileError> {
    act(path).map_err(|source| CompileError::Cache { step, path: path.to_owned(), source })
}

/// Parses `go1.26.8` and `1.26.0` into comparable numbers; release candidates count as their release.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.trim_start_matches("go").split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use std::os::unix::fs::PermissionsExt;

    /// A folder with a recipe, a cache, and a `go` that is a shell script.
    struct Bench {
        folder: tempfile::TempDir,
    }

    impl Bench {
        fn new(go: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("go.mod"), "go 1.26.0\nrequire k8s.io/kubernetes v1.36.3\n").unwrap();
            fs::write(folder.path().join("go.sum"), "").unwrap();
            let path = folder.path().join("go");
            fs::write(&path, format!("#!/bin/sh\necho \"$@\" >>'{}/calls'\n{go}", folder.path().display())).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Self { folder }
        }

        fn recipe(&self) -> Recipe {
            Recipe::read(self.folder.path(), &Program::ALL).unwrap()
        }

        fn cache(&self) -> Cache {
            Cache::at(&self.folder.path().join("cache"))
        }

        async fn compile(&self) -> Result<Binaries, CompileError> {
            let compiler = Compiler { go: self.folder.path().join("go"), jobs: Some(1) };
            compiler.compile(&self.recipe(), &self.cache(), |_| ()).await
        }

        fn builds(&self) -> usize {
            let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
            calls.lines().filter(|line| line.starts_with("build ")).count()
        }
    }

    /// Reports Go 1.26.8, and "compiles" by creating the file after `-o`.
    const GOOD: &str = "[ \"$1\" = env ] && { echo go1.26.8; exit; }\n\
        while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo program >\"$2\"; shift; done\n";

    /// Shows PLN-2.
    #[tokio::test]
    async fn a_missing_go_is_reported_with_the_required_version() {
        let bench = Bench::new("");
        let compiler = Compiler { go: "/nowhere/go".into(), jobs: None };
        let error = compiler.compile(&bench.recipe(), &bench.cache(), |_| ()).await.unwrap_err().to_string();
        assert!(error.starts_with("failed to find Go (/nowhere/go)"), "{error}");
        assert!(error.contains("Install Go 1.26.0 or newer from https://go.dev/dl"), "{error}");
    }

    /// Shows PLN-2.
    #[rstest]
    #[case::by_version("echo go1.25.9")]
    #[case::by_error("echo 'go.mod requires go >= 1.26.0 (running go1.25.9)' >&2; exit 1")]
    #[tokio::test]
    async fn an_old_go_is_reported_with_the_required_version(#[case] go: &str) {
        let error = Bench::new(go).compile().await.unwrap_err().to_string();
        assert!(error.contains("1.25.9") && error.contains("needs Go 1.26.0 or newer"), "{error}");
    }

    /// Shows PLN-1.
    #[tokio::test]
    async fn programs_are_compiled_once_and_then_found() {
        let bench = Bench::new(GOOD);
        let first = bench.compile().await.unwrap();
        assert!(Program::ALL.iter().all(|program| first.path(*program).is_file()));
        assert_eq!(bench.compile().await.unwrap(), first);
        assert_eq!(bench.builds(), 5);
    }

    /// Shows PLN-1.
    #[tokio::test]
    async fn concurrent_callers_compile_programs_once() {
        let bench = Bench::new(GOOD);
        let (first, second) = tokio::join!(bench.compile(), bench.compile());
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(bench.builds(), 5);
    }

    #[tokio::test]
    async fn a_failed_build_returns_its_error_and_no_result() {
        let go = "[ \"$1\" = env ] && { echo go1.26.8; exit; }\n\
            echo k8s.io/api/core/v1 >&2; echo './x.go:1:1: expected package' >&2; exit 1\n";
        let bench = Bench::new(go);
        let error = bench.compile().await.unwrap_err().to_string();
        assert_eq!(error, "failed to compile etcd:\n./x.go:1:1: expected package");
        assert!(Binaries::find(&bench.cache(), &bench.recipe()).is_err());
    }

    #[tokio::test]
    async fn files_of_an_interrupted_build_are_discarded() {
        let bench = Bench::new(GOOD);
        let left = bench.cache().unfinished(&bench.recipe());
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("etcd"), "half a program").unwrap();
        let made = bench.compile().await.unwrap();
        assert_eq!(fs::read_to_string(made.path(Program::Etcd)).unwrap(), "program\n");
        assert!(!left.exists());
    }

    #[test]
    fn the_version_is_stamped_into_the_programs() {
        let bench = Bench::new(GOOD);
        let arguments = Compiler::default().build_arguments(Program::ApiServer, &bench.recipe(), Path::new("/o"));
        let flags = arguments.iter().find(|a| a.starts_with("-s -w")).unwrap();
        for stamp in ["gitVersion=v1.36.3 ", "gitMajor=1 ", "gitMinor=36 "] {
            assert!(flags.contains(stamp), "{flags}");
        }
        assert_eq!(arguments.last().map(String::as_str), Some("k8s.io/kubernetes/cmd/kube-apiserver"));
        assert!(arguments.contains(&"/o/kube-apiserver".to_owned()));
    }

    #[rstest]
    #[case("go1.26.8", Some((1, 26, 8)))]
    #[case("1.26", Some((1, 26, 0)))]
    #[case("go1.27rc1", Some((1, 27, 0)))]
    #[case("devel go1.28-abcdef", None)]
    fn go_versions_are_read_as_numbers(#[case] text: &str, #[case] expected: Option<(u32, u32, u32)>) {
        assert_eq!(version(text), expected);
    }
}
