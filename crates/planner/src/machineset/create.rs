//! New Machines of a MachineSet, and their names.
//!
//! The names have the format of the API server's names for a `generateName`: its base, its length, its alphabet. They
//! are chosen here, so that a create with a lost response can be repeated: if the first one succeeded, the name exists,
//! and there is one Machine instead of two.
//!
//! New Machines have the finalizer, so that they cannot be deleted between their creation and the creation of the VM.

use std::collections::BTreeSet;

use api::names::{annotations, finalizers};
use api::{Machine, MachineName, MachineSet, Object, ObjectMeta, Text};

use super::Observed;
use super::claim::reference;
use super::step::{Attempt, MachineCreate};

/// No vowels, so that names contain no words, and no characters that are easily confused.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LONGEST_GENERATED: usize = 63;
const LONGEST_NAME: usize = 253;

/// A random number as input. The same seed results in the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameSeed(pub u64);

/// DeletionReason the MachineSet would not own Machines of its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidTemplate {
    /// The template has no labels.
    NoLabels,
    /// The selector does not match the labels of the template. Each Machine would be released and created again.
    NotSelected,
}

impl InvalidTemplate {
    pub(super) fn of(set: &MachineSet) -> Option<Self> {
        let labels = set.spec.template.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
        let Some(labels) = labels else { return Some(Self::NoLabels) };
        let selected = set.spec.selector.as_ref().is_some_and(|s| s.matches(labels) == Ok(true));
        (!selected).then_some(Self::NotSelected)
    }
}

/// Returns creates of this many Machines with unused names. Names of pending creates come first.
pub(super) fn creates(seen: &Observed<'_>, count: usize) -> Vec<MachineCreate> {
    let known: BTreeSet<&str> = seen
        .machines
        .iter()
        .map(|member| member.machine.name())
        .chain(seen.undecodable.iter().map(|machine| machine.name.as_str()))
        .collect();
    let repeated = seen.outstanding.creates.iter().cloned().map(|name| (name, Attempt::Repeat));
    let base = generate_name(seen.set);
    let fresh = |suffix| (MachineName::from(format!("{}{suffix}", cut(&base))), Attempt::First);
    let mut chosen = BTreeSet::new();
    repeated
        .chain(Suffixes(seen.name_seed.0).map(fresh))
        .filter(|(name, _)| !known.contains(name.as_str()) && chosen.insert(name.clone()))
        .take(count)
        .map(|(name, attempt)| MachineCreate { machine: machine(seen.set, &base, &name), name, attempt })
        .collect()
}

fn machine(set: &MachineSet, base: &str, name: &MachineName) -> Machine {
    let template = &set.spec.template;
    let mut given = template.metadata.annotations.clone().unwrap_or_default();
    if let Some(timeout) = set.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT) {
        // Only in the annotation: it takes precedence over the spec, and a copy in the spec would be reverted to the
        // template.
        given.insert(annotations::EFFECTIVE_CREATION_TIMEOUT, timeout);
    }
    if let Some(limit) = set.annotation(annotations::MAX_REPLACEMENTS) {
        given.insert(annotations::MAX_REPLACEMENTS, limit);
    }
    let held: Vec<Text> = template.metadata.finalizers.iter().flatten().map(Text::from).collect();
    let held = api::lists::finalizers_with(&held, finalizers::MACHINE).unwrap_or(held);
    Machine {
        metadata: ObjectMeta {
            name: name.to_string(),
            generate_name: base.into(),
            namespace: set.metadata.namespace.clone(),
            labels: template.metadata.labels.clone().unwrap_or_default(),
            annotations: given,
            finalizers: held,
            owner_references: vec![reference(set)],
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        ..Machine::default()
    }
}

fn generate_name(set: &MachineSet) -> String {
    let name = set.name();
    if name.len() < LONGEST_NAME { format!("{name}-") } else { name.to_owned() }
}

fn cut(base: &str) -> &str {
    base.get(..LONGEST_GENERATED - SUFFIX).unwrap_or(base)
}

/// An endless sequence of suffixes from splitmix64.
struct Suffixes(u64);

impl Iterator for Suffixes {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let letters = ALPHABET.len() as u64;
        let mut suffix = String::with_capacity(SUFFIX);
        for _ in 0..SUFFIX {
            let place = usize::try_from(mixed % letters).unwrap_or_default();
            suffix.push(char::from(ALPHABET.get(place).copied().unwrap_or(b'x')));
            mixed /= letters;
        }
        Some(suffix)
    }
}
