//! From Go modules to programs, once per recipe and user.
//!
//! A first build takes minutes, so three things matter: whoever waits sees that it moves, two who want the same programs do
//! not both compile them, and a build that was interrupted leaves nothing that could be taken for a result. The lock is on a
//! file, hence goes with the process that holds it; the programs are made in a folder beside their place and renamed into it.

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

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The Go command; looked up on the PATH if it is a bare name.
    pub go: PathBuf,
    /// How many packages to compile at once; Go's own choice if not said.
    pub jobs: Option<u16>,
}

impl Default for Compiler {
    fn default() -> Self {
        Self { go: PathBuf::from("go"), jobs: None }
    }
}

/// What a person who waits would like to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody else compiles the same programs; theirs will do.
    WaitingForAnother,
    /// A program was begun.
    Begun {
        /// Which one.
        program: Program,
        /// Its place in the order, from one.
        place: usize,
    },
    /// It still moves.
    Moving {
        /// Which one.
        program: Program,
        /// For how long so far.
        elapsed: Duration,
        /// Modules fetched and packages compiled so far.
        steps: usize,
    },
    /// A program is complete.
    Finished {
        /// Which one.
        program: Program,
        /// How long it took.
        elapsed: Duration,
    },
}

impl Progress {
    /// The same as a sentence, for a person who waits for `all` programs.
    pub fn sentence(&self, all: usize) -> String {
        match self {
            Self::WaitingForAnother => "somebody else is compiling the same programs; waiting for theirs".to_owned(),
            Self::Begun { program, place: 1 } if all > 1 => format!(
                "compiling {program} (1 of {all}); a first build of all takes about ten minutes and 3 GB of Go caches"
            ),
            Self::Begun { program, place } => format!("compiling {program} ({place} of {all})"),
            Self::Moving { program, elapsed, steps } => {
                format!("{program}: {steps} packages after {} s", elapsed.as_secs())
            }
            Self::Finished { program, elapsed } => format!("{program} is ready after {} s", elapsed.as_secs()),
        }
    }
}

/// Why there are no programs.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no Go here.
    #[error(
        "failed to find Go ({go}): the real control plane is compiled from its Go modules. Install Go {wanted} or newer \
         from https://go.dev/dl, put it on the PATH and try again; everything else in this repository works without it"
    )]
    GoMissing {
        /// The command that was tried.
        go: String,
        /// The oldest version that would do.
        wanted: String,
    },
    /// The Go that is here cannot compile this recipe, and may not fetch one that can.
    #[error("failed to use this Go: {found}. The control plane needs Go {wanted} or newer, from https://go.dev/dl")]
    GoTooOld {
        /// What Go says of itself.
        found: String,
        /// The oldest version that would do.
        wanted: String,
    },
    /// A folder or file of the cache cannot be used.
    #[error("failed to {step} {path}")]
    Cache {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The Go command cannot be run at all.
    #[error("failed to run {go}")]
    Run {
        /// The command.
        go: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Go gave up on a program.
    #[error("failed to compile {program}:\n{said}")]
    Failed {
        /// Which one.
        program: Program,
        /// The last lines that Go printed.
        said: String,
    },
}

impl Compiler {
    /// The programs of `recipe`: those in the cache, or new ones.
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
        try_to(cache.folder(), "make", |path| fs::create_dir_all(path))?;
        let _lock = lock(&cache.lock(recipe), &mut tell).await?;
        // Whoever held the lock before us may have done the work.
        if let Ok(found) = Binaries::find(cache, recipe) {
            return Ok(found);
        }
        let (unfinished, finished) = (cache.unfinished(recipe), cache.finished(recipe));
        if unfinished.exists() {
            try_to(&unfinished, "remove", |path| fs::remove_dir_all(path))?;
        }
        try_to(&unfinished, "make", |path| fs::create_dir(path))?;
        for (index, &program) in recipe.programs().iter().enumerate() {
            tell(Progress::Begun { program, place: index + 1 });
            self.compile_one(program, recipe, &unfinished, &mut tell).await?;
        }
        try_to(&finished, "rename the finished programs to", |path| fs::rename(&unfinished, path))?;
        Binaries::find(cache, recipe).map_err(|_| CompileError::Cache {
            step: "find the finished programs in",
            path: finished,
            source: io::ErrorKind::NotFound.into(),
        })
    }

    /// Asked in the recipe's folder, because there Go follows `go.mod` to a newer toolchain if it is allowed to fetch one.
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
            // A version that is not a number is a development tree of Go; its owner knows what it is.
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
        let mut last_words = LastWords::default();
        if let Some(stderr) = child.stderr.take() {
            let mut lines = BufReader::new(stderr).lines();
            let mut ticks = interval(Duration::from_secs(15));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await; // the first one is immediate, and there is nothing to tell yet
            loop {
                tokio::select! {
                    biased;
                    line = lines.next_line() => match line.map_err(failed)? {
                        Some(line) => { steps += 1; last_words.hear(line); }
                        None => break,
                    },
                    _ = ticks.tick() => tell(Progress::Moving { program, elapsed: begin.elapsed(), steps }),
                }
            }
        }
        if !child.wait().await.map_err(failed)?.success() {
            return Err(CompileError::Failed { program, said: last_words.text() });
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
            // Without a version the API server calls itself v0.0.0-master and refuses compatibility questions.
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
        // A workspace file somewhere above the repository must not change what is compiled.
        go.current_dir(recipe.folder()).env("CGO_ENABLED", "0").env("GOWORK", "off");
        go
    }

    fn name(&self) -> String {
        self.go.display().to_string()
    }
}

/// The last lines that are not mere progress: `go build -v` prints the path of each package, which never holds a space.
#[derive(Debug, Default)]
struct LastWords {
    lines: std::collections::VecDeque<String>,
}

impl LastWords {
    fn hear(&mut self, line: String) {
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

/// Waits for the lock without holding a thread: the holder may need minutes.
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

/// `go1.26.8` and `1.26.0` as numbers that compare; release candidates count as their release.
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

    /// A folder with a recipe, a cache, and a `go` that is a few lines of shell.
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

    /// Says that it is Go 1.26.8 and "compiles" by making the file behind `-o`.
    const GOOD: &str = "[ \"$1\" = env ] && { echo go1.26.8; exit; }\n\
        while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo program >\"$2\"; shift; done\n";

    /// Shows PLN-2.
    #[tokio::test]
    async fn missing_go_is_one_clear_sentence() {
        let bench = Bench::new("");
        let compiler = Compiler { go: "/nowhere/go".into(), jobs: None };
        let error = compiler.compile(&bench.recipe(), &bench.cache(), |_| ()).await.unwrap_err().to_string();
        assert!(error.starts_with("failed to find Go (/nowhere/go)"), "{error}");
        assert!(error.contains("Install Go 1.26.0 or newer from https://go.dev/dl"), "{error}");
    }

    /// Shows PLN-2.
    #[rstest]
    #[case::by_its_version("echo go1.25.9")]
    #[case::by_its_own_complaint("echo 'go.mod requires go >= 1.26.0 (running go1.25.9)' >&2; exit 1")]
    #[tokio::test]
    async fn an_old_go_is_told_which_one_is_needed(#[case] go: &str) {
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
    async fn two_who_want_the_same_programs_compile_them_once() {
        let bench = Bench::new(GOOD);
        let (first, second) = tokio::join!(bench.compile(), bench.compile());
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(bench.builds(), 5);
    }

    #[tokio::test]
    async fn a_build_that_fails_shows_why_and_leaves_no_result() {
        let go = "[ \"$1\" = env ] && { echo go1.26.8; exit; }\n\
            echo k8s.io/api/core/v1 >&2; echo './x.go:1:1: expected package' >&2; exit 1\n";
        let bench = Bench::new(go);
        let error = bench.compile().await.unwrap_err().to_string();
        assert_eq!(error, "failed to compile etcd:\n./x.go:1:1: expected package");
        assert!(Binaries::find(&bench.cache(), &bench.recipe()).is_err());
    }

    #[tokio::test]
    async fn what_an_interrupted_build_left_is_not_taken_for_a_result() {
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
