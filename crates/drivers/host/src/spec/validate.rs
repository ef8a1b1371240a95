//! What values of a class must be like.

use std::path::{Component, Path};

use api::Quantity;

/// Linux allows fifteen characters.
const LONGEST_LINK: usize = 15;
/// The kernel accepts no smaller share: a millisecond of every hundred.
const LEAST_CPU_MILLIS: u64 = 10;
/// Less than this no init can start with.
const LEAST_MEMORY: u64 = 16 << 20;

/// Thousandths of a core.
pub(super) fn cpu_millis(amount: &Quantity) -> Result<u64, &'static str> {
    let millis = amount.thousandths().and_then(|millis| u64::try_from(millis).ok());
    millis
        .filter(|millis| *millis >= LEAST_CPU_MILLIS)
        .ok_or("must be an amount of CPU, 10m or more, such as 500m or 2")
}

/// Bytes.
pub(super) fn bytes(amount: &Quantity) -> Result<u64, &'static str> {
    let bytes = amount.thousandths().and_then(|thousandths| u64::try_from(thousandths / 1000).ok());
    bytes
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or("must be an amount of memory, 16Mi or more, such as 512Mi or 2Gi")
}

/// What keeps a path from being mounted. The options of an overlay are one text, in which these characters separate.
pub(super) fn path_problem(path: &Path) -> Option<&'static str> {
    let Some(text) = path.to_str() else { return Some("must be text") };
    if !path.is_absolute() {
        Some("must be an absolute path")
    } else if path.components().any(|part| part == Component::ParentDir) {
        Some("must not contain '..'")
    } else if text
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '\\' | '|' | '*' | '?' | '['))
    {
        Some("must not contain white space, ':', ',', '|', '\\' or characters that a shell expands")
    } else {
        None
    }
}

/// What keeps a text from being the name of a link.
pub(super) fn link_problem(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_LINK {
        Some("must have at most 15 characters, as every link")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        || name.starts_with(['-', '.'])
    {
        Some("must consist of letters, digits, '-', '_' and '.'")
    } else {
        None
    }
}
