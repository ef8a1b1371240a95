//! The answer, for people.

use std::fmt::Write;

use inspect::words::{count, duration};
use jiff::SignedDuration;

use crate::{Bar, Forecast};

/// How many cells the chart has, and how many machines it shows.
const CELLS: i64 = 56;
const ROWS: usize = 40;

/// The whole of it.
#[must_use]
pub fn text(forecast: &Forecast) -> String {
    let mut out = String::new();
    let _ = write(&mut out, forecast);
    out
}

pub(crate) fn seconds(seconds: i64) -> String {
    duration(SignedDuration::from_secs(seconds))
}

fn write(out: &mut String, forecast: &Forecast) -> std::fmt::Result {
    let Forecast { machines_before: before, machines_after: after, made, deleted, .. } = forecast;
    writeln!(out, "If it were applied at {}:", forecast.at.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
    if *made == 0 && *deleted == 0 && forecast.finished {
        writeln!(out, "  machines    none is made or deleted, {before} stay as they are")?;
    } else {
        writeln!(out, "  machines    {made} made, {deleted} deleted; {before} before, {after} after")?;
        writeln!(out, "  at once     {} at most, {}", count(forecast.machines_at_once, "machine"), vms(forecast))?;
        if forecast.finished {
            writeln!(out, "  takes       {}", seconds(forecast.seconds))?;
        } else {
            writeln!(out, "  takes       longer than {}: it had not come to its end", seconds(forecast.seconds))?;
        }
    }
    lines(out, "not done", &forecast.not_done)?;
    let held = |held: &crate::HoldUp| {
        format!("{}: {} in all, {}", held.what, seconds(held.seconds), count(held.machines, "machine"))
    };
    lines(out, "held up by", &forecast.held_up_by.iter().map(held).collect::<Vec<_>>())?;
    chart(out, forecast)?;
    lines(out, "assumed", &forecast.assumed)?;
    lines(out, "not read", &forecast.not_read)?;
    writeln!(out, "\nNothing was written to the cluster.")
}

fn vms(forecast: &Forecast) -> String {
    let vms = count(forecast.vms_at_once, "VM");
    match forecast.quota {
        None => vms,
        Some(quota) if forecast.quota_refusals > 0 => {
            format!("{vms} of {quota} that there is room for; {} were refused", count(forecast.quota_refusals, "order"))
        }
        Some(quota) => format!("{vms} of {quota} that there is room for"),
    }
}

fn lines(out: &mut String, what: &str, all: &[String]) -> std::fmt::Result {
    for (place, line) in all.iter().enumerate() {
        writeln!(out, "  {:<12}{line}", if place == 0 { what } else { "" })?;
    }
    Ok(())
}

/// A row for each machine that comes or goes.
fn chart(out: &mut String, forecast: &Forecast) -> std::fmt::Result {
    if forecast.machines.is_empty() || forecast.seconds == 0 {
        return Ok(());
    }
    let shown = forecast.machines.iter().take(ROWS);
    let width = shown.clone().map(|bar| bar.name.len()).max().unwrap_or_default();
    let half = seconds(forecast.seconds / 2);
    let scale = format!("0{half:^width$}", width = usize::try_from(CELLS).unwrap_or_default() - 1);
    writeln!(out, "\n  {:width$}  {scale}{}", "", seconds(forecast.seconds))?;
    for bar in shown {
        writeln!(out, "  {:width$}  {}", bar.name, row(bar, forecast.seconds))?;
    }
    let more = forecast.machines.len().saturating_sub(ROWS);
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    writeln!(out, "  . being made, # runs, - being deleted\n")
}

fn row(bar: &Bar, whole: i64) -> String {
    let cell = |place: i64| {
        let at = place * whole / CELLS;
        let after = |time: Option<i64>| time.is_some_and(|time| time <= at);
        match bar {
            _ if after(bar.gone) => ' ',
            _ if after(bar.deleting) => '-',
            Bar { made: None, .. } => '#',
            _ if after(bar.ready) => '#',
            _ if after(bar.made) => '.',
            _ => ' ',
        }
    };
    (0..CELLS).map(cell).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(made: Option<i64>, ready: Option<i64>, deleting: Option<i64>, gone: Option<i64>) -> Bar {
        Bar { name: "m".into(), class: "c".into(), made, ready, deleting, gone }
    }

    #[test]
    fn a_row_shows_a_life_from_left_to_right() {
        let new = row(&bar(Some(0), Some(28), None, None), 56);
        assert_eq!(new, format!("{}{}", ".".repeat(28), "#".repeat(28)));
        let old = row(&bar(None, None, Some(28), Some(42)), 56);
        assert_eq!(old, format!("{}{}", "#".repeat(28), "-".repeat(14)));
        let late = row(&bar(Some(14), Some(28), None, None), 56);
        assert!(late.starts_with(&" ".repeat(14)) && late[14..].starts_with('.'), "{late}");
    }
}
