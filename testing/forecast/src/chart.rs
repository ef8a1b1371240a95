//! The chart of a forecast as SVG.

use std::fmt::Write;

use crate::text::seconds;
use crate::{Bar, Forecast};

const ROW: usize = 18;
const LEFT: usize = 260;
const WIDTH: usize = 720;
const TOP: usize = 64;

/// Returns a standalone SVG. Patterns repeat the meaning of the colours.
#[must_use]
pub fn svg(forecast: &Forecast) -> String {
    let mut out = String::new();
    let _ = draw(&mut out, forecast);
    out
}

fn draw(out: &mut String, forecast: &Forecast) -> std::fmt::Result {
    let height = TOP + forecast.machines.len() * ROW + 24;
    let total = forecast.seconds.max(1);
    let (full, takes) = (LEFT + WIDTH + 40, seconds(forecast.seconds));
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {height}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{} machines at peak, {takes}">"#,
        forecast.machines_at_once
    )?;
    out.push_str(concat!(
        r##"<defs><pattern id="created" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="#dbeafe"/><circle cx="3" cy="3" r="1.2" fill="#1d4ed8"/></pattern>"##,
        r##"<pattern id="deleted" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#fef3c7"/><rect width="2" height="6" fill="#b45309"/></pattern></defs>"##,
        "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
    ));
    writeln!(
        out,
        r##"<text x="16" y="24" font-size="15" font-weight="bold" fill="#16181d">{} created, {} deleted, {} machines at peak, {takes}</text>"##,
        forecast.created, forecast.deleted, forecast.machines_at_once
    )?;
    for (column, (fill, word)) in
        [("url(#created)", "creating"), ("#1d4ed8", "running"), ("url(#deleted)", "deleting")].iter().enumerate()
    {
        let x = LEFT + column * 130;
        writeln!(
            out,
            r##"<rect x="{x}" y="34" width="14" height="12" fill="{fill}"/><text x="{}" y="45" fill="#16181d">{word}</text>"##,
            x + 20
        )?;
    }
    for part in 0..=4_i64 {
        let x = x_of(total * part / 4, total);
        writeln!(
            out,
            r##"<line x1="{x}" y1="{TOP}" x2="{x}" y2="{}" stroke="#d9dde4"/><text x="{x}" y="{}" text-anchor="middle" fill="#5b6270">{}</text>"##,
            height - 20,
            height - 6,
            seconds(total * part / 4)
        )?;
    }
    for (number, bar) in forecast.machines.iter().enumerate() {
        let y = TOP + number * ROW;
        writeln!(
            out,
            r##"<text x="{}" y="{}" text-anchor="end" fill="#16181d">{}</text>"##,
            LEFT - 8,
            y + 12,
            bar.name
        )?;
        for (from, to, fill) in parts(bar, total) {
            let (x, end) = (x_of(from, total), x_of(to, total));
            writeln!(
                out,
                r#"<rect x="{x}" y="{}" width="{}" height="{}" fill="{fill}"/>"#,
                y + 2,
                end.saturating_sub(x).max(1),
                ROW - 4
            )?;
        }
    }
    writeln!(out, "</svg>")
}

/// Returns the x coordinate of a second.
fn x_of(second: i64, total: i64) -> usize {
    let width = i64::try_from(WIDTH).unwrap_or_default();
    LEFT + usize::try_from(second.clamp(0, total) * width / total).unwrap_or_default()
}

/// Returns the sections of a bar: start, end and fill.
fn parts(bar: &Bar, total: i64) -> Vec<(i64, i64, &'static str)> {
    let end = bar.deleted.unwrap_or(total);
    let leaves = bar.deleting.unwrap_or(end).min(end);
    let runs = if bar.created.is_none() { Some(0) } else { bar.ready };
    let mut parts = Vec::new();
    if let Some(created) = bar.created {
        parts.push((created, runs.unwrap_or(leaves).min(leaves), "url(#created)"));
    }
    if let Some(runs) = runs.filter(|runs| *runs < leaves) {
        parts.push((runs, leaves, "#1d4ed8"));
    }
    if bar.deleting.is_some() {
        parts.push((leaves, end, "url(#deleted)"));
    }
    parts
}
