//! The text of a file, in passages: paragraphs of pages, comments and string literals of source.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// Whether users see the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Visible,
    Comment,
}

/// A piece of text that is judged as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) kind: Kind,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Whether the file contains text of this project.
pub(super) fn is_checked(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    matches!(extension, "rs" | "md" | "html" | "js") || (extension == "yaml" && file.contains("charts/"))
}

/// Returns the passages of a file.
pub(super) fn passages(file: &str, content: &str) -> Vec<Passage> {
    if file.rsplit_once('.').is_some_and(|(_, extension)| extension == "rs") {
        // Doc comments of arguments are the help that clap prints.
        let of_comments = if file.contains("/cli/") { Kind::Visible } else { Kind::Comment };
        return source(content, of_comments);
    }
    paragraphs(content)
}

/// Paragraphs, rows of tables and items of lists.
fn paragraphs(content: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut continues = false;
    for (line, text) in (1..).zip(content.lines()) {
        let text = text.trim();
        let begins = text.starts_with(['|', '-', '*', '#', '>']);
        match found.last_mut() {
            Some(last) if continues && !begins && !text.is_empty() => {
                last.text.push(' ');
                last.text.push_str(text);
            }
            _ if text.is_empty() => {}
            _ => found.push(Passage { kind: Kind::Visible, line, text: text.to_owned() }),
        }
        continues = !text.is_empty();
    }
    found
}

/// Comments on adjacent lines, and string literals of more than one word.
fn source(content: &str, of_comments: Kind) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let (mut at, mut line) = (0_usize, 1_usize);
    // The line below which the next comment continues the last one.
    let mut continues = 0;
    for token in tokenize(content, FrontmatterAllowed::No) {
        let end = at + token.len as usize;
        let text = content.get(at..end).unwrap_or_default();
        match token.kind {
            TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => {
                let words = text.trim_start_matches(['/', '!', '*']).trim();
                match found.last_mut() {
                    Some(last) if continues == line => {
                        last.text.push(' ');
                        last.text.push_str(words);
                    }
                    _ => found.push(Passage { kind: of_comments, line, text: words.to_owned() }),
                }
                continues = line + text.matches('\n').count() + 1;
            }
            TokenKind::Literal { kind: LiteralKind::Str { .. } | LiteralKind::RawStr { .. }, .. } => {
                if text.trim_matches('"').contains(' ') {
                    found.push(Passage { kind: Kind::Visible, line, text: text.to_owned() });
                }
                continues = 0;
            }
            TokenKind::Whitespace => {}
            _ => continues = 0,
        }
        line += text.matches('\n').count();
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(file: &str, content: &str) -> Vec<(Kind, usize, String)> {
        passages(file, content).into_iter().map(|passage| (passage.kind, passage.line, passage.text)).collect()
    }

    #[test]
    fn source_has_comments_of_adjacent_lines_and_literals_of_several_words() {
        let content = "//! One\n//! two.\n\n// Three.\nfn f() { g(\"four five\", \"six\"); } // seven\n";
        let expected = [
            (Kind::Comment, 1, "One two.".to_owned()),
            (Kind::Comment, 4, "Three.".to_owned()),
            (Kind::Visible, 5, "\"four five\"".to_owned()),
            (Kind::Comment, 5, "seven".to_owned()),
        ];
        assert_eq!(seen("a.rs", content), expected);
        assert_eq!(seen("src/cli/a.rs", "/// Help.\n")[0].0, Kind::Visible);
    }

    #[test]
    fn page_has_paragraphs_rows_and_items() {
        let content = "# One\n\nTwo\nthree.\n- four\n| five |\n";
        let texts: Vec<String> = seen("a.md", content).into_iter().map(|(_, _, text)| text).collect();
        assert_eq!(texts, ["# One", "Two three.", "- four", "| five |"]);
    }
}
