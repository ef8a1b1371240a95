//! Completeness: a field that a junctor at the root speaks of must be part of the structure too, or it would be pruned before
//! any rule has looked at it. Junctors further down may speak of what they like; the API server has it so.

use crate::schema::causes::Cause;
use crate::schema::node::Node;

/// The fields that only the junctors of the root mention. It stands at `at`.
pub(super) fn gaps(root: &Node, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (junctor, nested) in junctors(root) {
        cover(nested, root, at, &format!("{at}.{junctor}"), &mut causes);
    }
    causes
}

/// Compares what stands below a junctor with the structure it is about.
fn cover(nested: &Node, structure: &Node, at: &str, nested_at: &str, causes: &mut Vec<Cause>) {
    for (junctor, deeper) in junctors(nested) {
        cover(deeper, structure, at, &format!("{nested_at}.{junctor}"), causes);
    }
    let mut step = |nested: &Node, structure: Option<&Node>, step: &str| {
        let (at, nested_at) = (format!("{at}.{step}"), format!("{nested_at}.{step}"));
        match structure {
            Some(structure) => cover(nested, structure, &at, &nested_at, causes),
            None => causes.push(Cause::required(at, &format!("because it is defined in {nested_at}"))),
        }
    };
    for (name, field) in &nested.properties {
        step(field, structure.properties.get(name), &format!("properties[{name}]"));
    }
    if let Some(items) = &nested.items {
        step(items, structure.items.as_deref(), "items");
    }
}

fn junctors(node: &Node) -> Vec<(String, &Node)> {
    let rules = &node.rules;
    let lists = [("allOf", &rules.all_of), ("anyOf", &rules.any_of), ("oneOf", &rules.one_of)];
    let listed = lists.into_iter().flat_map(|(keyword, nodes)| {
        nodes.iter().enumerate().map(move |(index, node)| (format!("{keyword}[{index}]"), node))
    });
    listed.chain(rules.not.as_deref().map(|not| ("not".to_owned(), not))).collect()
}
