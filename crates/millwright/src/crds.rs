//! `millwright crds`: prints the CRDs, which are generated from the same code that decodes the objects.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::Crds;
use crate::print;

pub(crate) fn run(options: &Crds) -> anyhow::Result<ExitCode> {
    let all = api::crd::all().context("failed to serialize the CRDs as YAML")?;
    let Some(dir) = &options.dir else {
        for (_, yaml) in all {
            print::line(format!("---\n{}", yaml.trim_end()));
        }
        return Ok(ExitCode::SUCCESS);
    };
    fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
    for (file, yaml) in all {
        let path = dir.join(file);
        fs::write(&path, yaml).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
