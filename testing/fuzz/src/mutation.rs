//! Creates inputs from those of a corpus.

use fastrand::Rng;

/// Tokens that parsers often mishandle: limits of number ranges, syntax of other formats, ambiguous texts.
const TOKENS: [&[u8]; 40] = [
    b"",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"~",
    b"\\",
    b"\n",
    b"\t",
    b" ",
    b"-",
    b"+",
    b".",
    b"0",
    b"-0",
    b"-1",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"1e309",
    b"1e-400",
    b"NaN",
    b"1n",
    b"Ki",
    b"h",
    b"2027-01-15T08:00:00Z",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"\0",
    b"\\ud800",
    b"<<MACHINE_NAME>>",
];

/// Maximum length of an input. Tests check how inputs are parsed, not how much.
const MAX_LENGTH: usize = 16 * 1024;

/// Returns an input of the corpus with a few changes.
pub(crate) fn mutated(corpus: &[&[u8]], random: &mut Rng) -> Vec<u8> {
    let mut input = random.choice(corpus).map_or_else(Vec::new, |input| input.to_vec());
    for _ in 0..random.usize(1..=6) {
        mutate(&mut input, corpus, random);
    }
    input.truncate(MAX_LENGTH);
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[&[u8]], random: &mut Rng) {
    let (from, to) = random_range(input, random);
    match random.u8(..9) {
        0 => {
            if let Some(byte) = input.get_mut(from) {
                *byte ^= 1 << random.u8(..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(from) {
                *byte = random.u8(..);
            }
        }
        2 => drop(input.splice(from..to, [])),
        3 => {
            let copy = input.get(from..to).unwrap_or_default().to_vec();
            drop(input.splice(from..from, copy));
        }
        4 => input.truncate(to),
        5 => {
            let other = random.choice(corpus).copied().unwrap_or_default();
            let (begin, end) = random_range(other, random);
            drop(input.splice(from..to, other.get(begin..end).unwrap_or_default().to_vec()));
        }
        6 => {
            // Replaces a whole number or word.
            let (from, to) = word(input, from);
            drop(input.splice(from..to, token(random)));
        }
        7 => drop(input.splice(from..to, token(random))),
        _ => drop(input.splice(from..from, token(random))),
    }
}

fn token(random: &mut Rng) -> Vec<u8> {
    random.choice(TOKENS).unwrap_or_default().to_vec()
}

/// Returns a random range, which is short in half of all cases.
fn random_range(input: &[u8], random: &mut Rng) -> (usize, usize) {
    let from = random.usize(..=input.len());
    let length = if random.bool() { random.usize(..=8) } else { random.usize(..=input.len()) };
    (from, (from + length).min(input.len()))
}

/// Returns the range of letters and digits around a position.
fn word(input: &[u8], at: usize) -> (usize, usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let before = input.get(..at).unwrap_or_default().iter().rev().take_while(|byte| is_word(byte)).count();
    let after = input.get(at..).unwrap_or_default().iter().take_while(|byte| is_word(byte)).count();
    (at - before, at + after)
}
