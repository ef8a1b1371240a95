//! The files of the page, compiled in.

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asset {
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
}

/// Returns the file of this path.
pub(super) fn at(path: &str) -> Option<Asset> {
    let (content_type, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "/view.js" => ("text/javascript; charset=utf-8", include_str!("page/view.js")),
        "/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => return None,
    };
    Some(Asset { content_type, text })
}
