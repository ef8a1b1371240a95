//! Counts that may be shares of a whole.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which way a share that is no whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// What a count or percentage means of `whole`; `None` for a text that is no percentage.
pub(crate) fn share_of(share: &IntOrString, whole: i32, rounding: Rounding) -> Option<i32> {
    match share {
        IntOrString::Int(count) => Some(*count),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let product = i64::from(whole) * percent;
            let part = match rounding {
                Rounding::Up => product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0),
                Rounding::Down => product.div_euclid(100),
            };
            i32::try_from(part).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(IntOrString::Int(7), 3, Some(7), Some(7))]
    #[case(IntOrString::String("50%".into()), 3, Some(2), Some(1))]
    #[case(IntOrString::String("100%".into()), 3, Some(3), Some(3))]
    #[case(IntOrString::String("0%".into()), 3, Some(0), Some(0))]
    #[case(IntOrString::String("half".into()), 3, None, None)]
    fn a_share_is_rounded(
        #[case] share: IntOrString,
        #[case] whole: i32,
        #[case] up: Option<i32>,
        #[case] down: Option<i32>,
    ) {
        assert_eq!((share_of(&share, whole, Rounding::Up), share_of(&share, whole, Rounding::Down)), (up, down));
    }
}
