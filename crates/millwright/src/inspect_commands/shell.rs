//! Shell completion and manual pages, generated from the commands.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;

use crate::cli::{Completion, ManPages, commands};
use crate::print;

pub(super) fn completion(options: &Completion) -> ExitCode {
    let mut script = Vec::new();
    let shell: Shell = options.shell;
    clap_complete::generate(shell, &mut commands(), "millwright", &mut script);
    print::line(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

pub(super) fn man(options: &ManPages) -> anyhow::Result<ExitCode> {
    let dir = &options.dir;
    fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
    clap_mangen::generate_to(commands(), dir).with_context(|| format!("failed to write to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
