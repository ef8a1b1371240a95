//! Protobuf as bytes: numbered entries, one after the other.

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry<'a> {
    /// A whole number or a flag.
    Number(u64),
    /// A number with a fraction.
    Double(f64),
    /// Text, or a message inside the message.
    Bytes(&'a [u8]),
}

/// The entries of a message; `None` where the bytes make no sense, and nothing after that.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Option<(u32, Entry<'_>)>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let now = rest.filter(|rest| !rest.is_empty())?;
        let read = entry(now);
        rest = read.map(|(_, rest)| rest);
        Some(read.map(|(entry, _)| entry))
    })
}

fn entry(bytes: &[u8]) -> Option<((u32, Entry<'_>), &[u8])> {
    let (tag, rest) = number(bytes)?;
    let (entry, rest) = match tag & 7 {
        0 => number(rest).map(|(number, rest)| (Entry::Number(number), rest))?,
        1 => rest.split_first_chunk().map(|(eight, rest)| (Entry::Double(f64::from_le_bytes(*eight)), rest))?,
        2 => {
            let (length, rest) = number(rest)?;
            let (inner, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            (Entry::Bytes(inner), rest)
        }
        5 => {
            rest.split_first_chunk::<4>().map(|(four, rest)| (Entry::Number(u32::from_le_bytes(*four).into()), rest))?
        }
        _ => return None,
    };
    Some(((u32::try_from(tag >> 3).ok()?, entry), rest))
}

/// A number of seven bits a byte, the lowest first.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(u32::try_from(place * 7).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(place + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_are_read_one_after_the_other() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i'];
        let read: Vec<_> = entries(&bytes).collect();
        assert_eq!(read, [Some((1, Entry::Number(150))), Some((2, Entry::Bytes(b"hi")))]);
    }

    #[test]
    fn bytes_that_end_too_early_are_told() {
        assert_eq!(entries(&[0x12, 0x05, b'h']).collect::<Vec<_>>(), [None]);
        assert_eq!(entries(&[0x08, 0x80]).collect::<Vec<_>>(), [None]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_forever(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(entries(&bytes).count() <= bytes.len());
        }
    }
}
