//! Reading the file of types. It is our own, so a line that makes no sense is not an error to report but a bug that the tests
//! of this module find.

use std::collections::BTreeMap;

use super::{Field, Need, Shape, Strategy, Types};

/// Reads the whole file: a type at the beginning of a line, its fields below it, indented.
pub(super) fn types(text: &str) -> Types {
    let mut types = Types::default();
    let mut current: Option<(String, BTreeMap<String, Field>)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix('\t') {
            if let (Some((_, fields)), Some((name, field))) = (&mut current, field(line)) {
                fields.insert(name, field);
            }
            continue;
        }
        types.named.extend(current.take().map(|(name, fields)| (name, Shape::Fields(fields))));
        if let Some((name, alias)) = line.split_once(" = ") {
            types.named.insert(name.to_owned(), shape(alias));
            continue;
        }
        let (name, kind) = line.split_once(' ').unwrap_or((line, ""));
        if !kind.is_empty() {
            types.kinds.insert(kind.to_owned(), name.to_owned());
        }
        current = Some((name.to_owned(), BTreeMap::new()));
    }
    types.named.extend(current.map(|(name, fields)| (name, Shape::Fields(fields))));
    types
}

fn field(line: &str) -> Option<(String, Field)> {
    let mut words = line.split(' ');
    let (name, shape) = (words.next()?, shape(words.next()?));
    let mut field = Field {
        shape,
        need: Need::Optional,
        one_of: Vec::new(),
        list: None,
        map: None,
        strategy: Strategy::default(),
        wire: Vec::new(),
        merge_key: None,
    };
    for word in words {
        if let Some(way) = word.strip_prefix('#') {
            field.wire = way.split('.').filter_map(|number| number.parse().ok()).collect();
            continue;
        }
        match word.split_once('=') {
            None => field.need = Need::Required,
            Some(("list", list)) => {
                let (list, keys) = list.split_once(':').unwrap_or((list, ""));
                let keys = keys.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect();
                field.list = Some((list.to_owned(), keys));
            }
            Some(("map", map)) => field.map = Some(map.to_owned()),
            Some(("patch", strategy)) => field.strategy = Strategy(strategy.to_owned()),
            Some(("key", key)) => field.merge_key = Some(key.to_owned()),
            Some((_, values)) => field.one_of = values.split('|').map(str::to_owned).collect(),
        }
    }
    Some((name.to_owned(), field))
}

fn shape(text: &str) -> Shape {
    let within = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(of) = within('[', ']') {
        return Shape::List(Box::new(shape(of)));
    }
    if let Some(of) = within('{', '}') {
        return Shape::Map(Box::new(shape(of)));
    }
    match text {
        "any" => Shape::Anything,
        "object" => Shape::Object,
        "int-or-string" => Shape::IntOrString,
        name if name.contains('.') => Shape::Named(name.to_owned()),
        scalar => {
            let (of, format) = scalar.split_once('(').unwrap_or((scalar, ""));
            let format = Some(format.trim_end_matches(')').to_owned()).filter(|format| !format.is_empty());
            Shape::Scalar { of: of.to_owned(), format }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all_about_a_field() {
        let types = types(
            "# about\nx.Pod /v1/Pod\n\tspec x.Spec required\nx.Spec\n\tports [{integer(int32)}] list=map:a,b patch=merge,retainKeys key=a one-of=A| #2.7\nx.Time = string(date-time)\n",
        );
        assert_eq!(types.kinds.get("/v1/Pod").map(String::as_str), Some("x.Pod"));
        let Some(Shape::Fields(pod)) = types.named("x.Pod") else { panic!("{types:?}") };
        assert_eq!((&pod["spec"].shape, pod["spec"].need), (&Shape::Named("x.Spec".to_owned()), Need::Required));
        let Some(Shape::Fields(spec)) = types.named("x.Spec") else { panic!("{types:?}") };
        let number = Shape::Scalar { of: "integer".to_owned(), format: Some("int32".to_owned()) };
        assert_eq!(spec["ports"].shape, Shape::List(Box::new(Shape::Map(Box::new(number)))));
        assert_eq!(spec["ports"].list, Some(("map".to_owned(), vec!["a".to_owned(), "b".to_owned()])));
        assert!(spec["ports"].strategy.merges_lists());
        assert_eq!(spec["ports"].wire, [2, 7]);
        assert_eq!(spec["ports"].one_of, ["A", ""]);
        let time = Shape::Scalar { of: "string".to_owned(), format: Some("date-time".to_owned()) };
        assert_eq!(types.named("x.Time"), Some(&time));
    }
}
