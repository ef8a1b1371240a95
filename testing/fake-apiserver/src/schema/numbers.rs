//! Rules about numbers.
//!
//! The API server keeps whole numbers and fractions apart, and checks value and limits against the range of the type first;
//! some of what follows is odd, and all of it can be read in its answers.

use serde_json::{Number, Value};

use crate::schema::causes::Cause;
use crate::schema::formats::Format;
use crate::schema::node::{Bound, Itself, Node, Type};
use crate::schema::validate::broken;

/// What is wrong with a number.
pub(super) fn complaints(number: &Number, node: &Node, path: &str) -> Vec<Cause> {
    let Some(value) = number.as_f64() else { return Vec::new() };
    let range = Range::of(node);
    let (rules, whole) = (&node.rules, number.is_i64());
    let shown = Value::Number(number.clone());
    let mut causes = Vec::new();
    causes.extend(range.complaint("Checked", value, path));

    if let Some(factor) = rules.multiple_of {
        let out_of_range = range.complaint("MultipleOf", factor, path);
        // A whole number is divided by a whole number, whatever that makes of the factor.
        let native = if whole && out_of_range.is_none() { factor.trunc() } else { factor };
        causes.extend(out_of_range);
        if native <= 0.0 {
            let rule = format!("factor MultipleOf declared for {path} must be positive: {}", in_go(native));
            causes.push(Cause::invalid(path, &Value::from(0), &rule));
        } else if !is_multiple(value, native) {
            causes.push(broken(path, &shown, &format!("should be a multiple of {}", in_go(factor))));
        }
    }
    let sides =
        [("Maximum boundary", rules.maximum, "less", 1.0), ("Minimum boundary", rules.minimum, "greater", -1.0)];
    for (name, bound, than, sign) in sides {
        let Some(bound) = bound else { continue };
        let out_of_range = range.complaint(name, bound.limit, path);
        let native = if whole && out_of_range.is_none() { bound.limit.trunc() } else { bound.limit };
        // With a limit outside of the range both are taken and shown as fractions.
        let limit = if whole && out_of_range.is_none() { format!("{native}") } else { in_go(native) };
        let shown = if out_of_range.is_some() { Value::from(value) } else { shown.clone() };
        causes.extend(out_of_range);
        // A lower limit is an upper one for the negated value.
        if !within(value * sign, Bound { limit: native * sign, ..bound }) {
            let or_equal = match bound.itself {
                Itself::Allowed => " or equal to",
                Itself::Excluded => "",
            };
            causes.push(broken(path, &shown, &format!("should be {than} than{or_equal} {limit}")));
        }
    }
    causes
}

fn within(value: f64, bound: Bound) -> bool {
    match bound.itself {
        Itself::Allowed => value <= bound.limit,
        Itself::Excluded => value < bound.limit,
    }
}

/// Divided so that the small one of the two is not the divisor, which would lose digits.
fn is_multiple(value: f64, factor: f64) -> bool {
    let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    (times - times.round()).abs() <= f64::EPSILON * times.abs().max(1.0)
}

/// What fits into the type that a schema names.
#[derive(Clone, Copy)]
enum Range {
    /// Everything: no type, or more than one.
    Any,
    Integer(Option<Format>),
    Float,
}

impl Range {
    fn of(node: &Node) -> Self {
        match (node.types.as_slice(), node.rules.format) {
            ([Type::Integer], format) => Self::Integer(format),
            ([Type::Number], Some(Format::Float)) => Self::Float,
            _ => Self::Any,
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::Any => true,
            Self::Integer(Some(Format::Int32)) => {
                value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
            }
            // The largest 64-bit integer is not a float, the next power of two is.
            Self::Integer(_) => value.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&value),
            Self::Float => value.abs() <= f64::from(f32::MAX),
        }
    }

    fn complaint(self, what: &str, value: f64, path: &str) -> Option<Cause> {
        if self.holds(value) {
            return None;
        }
        let type_name = match self {
            Self::Any | Self::Float => "number with format float".to_owned(),
            Self::Integer(None) => "integer (default format)".to_owned(),
            Self::Integer(Some(format)) => format!("integer with format {}", format.name()),
        };
        let rule = format!("{what} value must be of type {type_name} in {path}");
        Some(Cause::invalid("<nil>", &Value::from(""), &rule))
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// A number as Go prints it: with an exponent, of at least two digits, once it is large or small enough.
pub(super) fn in_go(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if (-4..6).contains(&exponent) => value.to_string(),
        Ok(exponent) if exponent < 0 => format!("{mantissa}e-{:02}", exponent.unsigned_abs()),
        Ok(exponent) => format!("{mantissa}e+{exponent:02}"),
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0.0, "0")]
    #[case(0.3, "0.3")]
    #[case(-1.5, "-1.5")]
    #[case(1_000_000.0, "1e+06")]
    #[case(1_000_000.5, "1.0000005e+06")]
    #[case(-1e20, "-1e+20")]
    #[case(1e-7, "1e-07")]
    #[case(0.0001, "0.0001")]
    #[case(999_999.0, "999999")]
    fn a_number_reads_as_in_go(#[case] value: f64, #[case] text: &str) {
        assert_eq!(in_go(value), text);
    }
}
