//! An XML answer as its leaves: the paths of the elements that hold no others, with their text.

use quick_xml::Reader;
use quick_xml::events::Event;

/// The leaves, in their order. The root is not part of the paths: it is the name of the action.
pub(crate) fn leaves(xml: &str) -> Vec<(String, String)> {
    let (mut reader, mut path, mut found) = (Reader::from_str(xml), Vec::<String>::new(), Vec::new());
    let (mut text, mut is_leaf) = (String::new(), false);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                path.push(AsRef::<str>::as_ref(&start.local_name()).to_owned());
                text.clear();
                is_leaf = true;
            }
            Event::Empty(empty) => {
                let name = AsRef::<str>::as_ref(&empty.local_name()).to_owned();
                found.push((below_root(&path, Some(name)), String::new()));
                is_leaf = false;
            }
            Event::Text(part) => text.push_str(&part),
            Event::End(_) => {
                if is_leaf {
                    found.push((below_root(&path, None), text.trim().to_owned()));
                }
                path.pop();
                is_leaf = false;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    found
}

fn below_root(path: &[String], last: Option<String>) -> String {
    path.iter().skip(1).cloned().chain(last).collect::<Vec<_>>().join(".")
}

#[test]
fn leaves_have_paths_below_the_root() {
    let found = leaves("<?xml version='1.0'?><R xmlns='x'><b>2</b><a>\n<item><c>1</c></item><item/></a></R>");
    let expected = [("b", "2"), ("a.item.c", "1"), ("a.item", "")];
    assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
}
