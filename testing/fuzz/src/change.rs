//! One more input from those that are known.

use fastrand::Rng;

/// What readers stumble over: ends of ranges, signs of other syntaxes, texts that look like something else.
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

/// No input becomes longer than this: what is to be found is how things are read, not how much.
const LONGEST: usize = 16 * 1024;

/// An input of the corpus, with a few changes.
pub(crate) fn changed(corpus: &[&[u8]], dice: &mut Rng) -> Vec<u8> {
    let mut input = dice.choice(corpus).map_or_else(Vec::new, |input| input.to_vec());
    for _ in 0..dice.usize(1..=6) {
        change(&mut input, corpus, dice);
    }
    input.truncate(LONGEST);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[&[u8]], dice: &mut Rng) {
    let (from, to) = part(input, dice);
    match dice.u8(..9) {
        0 => {
            if let Some(byte) = input.get_mut(from) {
                *byte ^= 1 << dice.u8(..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(from) {
                *byte = dice.u8(..);
            }
        }
        2 => drop(input.splice(from..to, [])),
        3 => {
            let twice = input.get(from..to).unwrap_or_default().to_vec();
            drop(input.splice(from..from, twice));
        }
        4 => input.truncate(to),
        5 => {
            let other = dice.choice(corpus).copied().unwrap_or_default();
            let (begin, end) = part(other, dice);
            drop(input.splice(from..to, other.get(begin..end).unwrap_or_default().to_vec()));
        }
        6 => {
            // A whole number, or a whole text between quotes, gives way.
            let (from, to) = word(input, from);
            drop(input.splice(from..to, token(dice)));
        }
        7 => drop(input.splice(from..to, token(dice))),
        _ => drop(input.splice(from..from, token(dice))),
    }
}

fn token(dice: &mut Rng) -> Vec<u8> {
    dice.choice(TOKENS).unwrap_or_default().to_vec()
}

/// A part, mostly a short one.
fn part(input: &[u8], dice: &mut Rng) -> (usize, usize) {
    let from = dice.usize(..=input.len());
    let length = if dice.bool() { dice.usize(..=8) } else { dice.usize(..=input.len()) };
    (from, (from + length).min(input.len()))
}

/// The letters and digits around a place.
fn word(input: &[u8], at: usize) -> (usize, usize) {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric();
    let before = input.get(..at).unwrap_or_default().iter().rev().take_while(|byte| belongs(byte)).count();
    let after = input.get(at..).unwrap_or_default().iter().take_while(|byte| belongs(byte)).count();
    (at - before, at + after)
}
