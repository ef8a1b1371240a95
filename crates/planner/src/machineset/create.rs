//! The machines a set makes, and their names.
//!
//! The names look like those the API server makes up for a `generateName`: its base, its length, its alphabet. But we choose
//! them, so that a create whose answer was lost can be repeated: if the first one happened after all, the second finds the name
//! taken, and there is one machine instead of two.
//!
//! A machine is born with our finalizer, so that it cannot vanish between its create and the moment its VM is asked for.

use std::collections::BTreeSet;

use api::names::{annotations, finalizers};
use api::{Machine, MachineName, MachineSet, Object, ObjectMeta, Text};

use super::Observed;
use super::claim::reference;
use super::step::{Asked, MachineCreate};

/// No vowels, so that no words come out, and nothing that is easily misread.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LONGEST_GENERATED: usize = 63;
const LONGEST_NAME: usize = 253;

/// A random number, as data. The same one gives the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameSeed(pub u64);

/// Why a set can make no machine that would be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidTemplate {
    /// Its template has no labels.
    NoLabels,
    /// Its selector does not select the labels of its template, so that each machine would be released and made again.
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

/// This many machines under names nobody has. Names that were already asked for come first.
pub(super) fn creates(seen: &Observed<'_>, count: usize) -> Vec<MachineCreate> {
    let known: BTreeSet<&str> = seen
        .machines
        .iter()
        .map(|member| member.machine.name())
        .chain(seen.unreadable.iter().map(|machine| machine.name.as_str()))
        .collect();
    let asked = seen.outstanding.creates.iter().cloned().map(|name| (name, Asked::Again));
    let base = generate_name(seen.set);
    let fresh = |suffix| (MachineName::from(format!("{}{suffix}", cut(&base))), Asked::First);
    let mut chosen = BTreeSet::new();
    asked
        .chain(Suffixes(seen.name_seed.0).map(fresh))
        .filter(|(name, _)| !known.contains(name.as_str()) && chosen.insert(name.clone()))
        .take(count)
        .map(|(name, asked)| MachineCreate { machine: machine(seen.set, &base, &name), name, asked })
        .collect()
}

fn machine(set: &MachineSet, base: &str, name: &MachineName) -> Machine {
    let template = &set.spec.template;
    let mut given = template.metadata.annotations.clone().unwrap_or_default();
    if let Some(timeout) = set.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT) {
        // In the annotation only: it beats the spec, and a copy in the spec would be undone with the next look at the template.
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

/// An endless course of suffixes: splitmix64, whose every output is a good one.
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
