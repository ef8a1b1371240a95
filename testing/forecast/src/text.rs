//! The result as text.

use std::fmt::Write;

use inspect::words::{count, duration};
use jiff::SignedDuration;

use crate::{Bar, Forecast};

/// Width of the chart, and maximum number of Machines in it.
const CELLS: i64 = 56;
const ROWS: usize = 40;

/// Returns the result as text.
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
    let Forecast { machines_before: before, machines_after: after, created, deleted, .. } = forecast;
    writeln!(out, "If applied at {}:", forecast.at.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
    if *created == 0 && *deleted == 0 && forecast.finished {
        writeln!(out, "  machines    no changes; {} unchanged", count(*before, "machine"))?;
    } else {
        writeln!(out, "  machines    {created} created, {deleted} deleted; {before} before, {after} after")?;
        writeln!(out, "  peak        {}, {}", count(forecast.machines_at_once, "machine"), vms(forecast))?;
        if forecast.finished {
            writeln!(out, "  duration    {}", seconds(forecast.seconds))?;
        } else {
            writeln!(out, "  duration    not finished after {} (--horizon)", seconds(forecast.seconds))?;
        }
    }
    lines(out, "incomplete", &forecast.incomplete)?;
    let delay = |delay: &crate::Delay| {
        format!("{}: {} in total, {}", delay.what, seconds(delay.seconds), count(delay.machines, "machine"))
    };
    lines(out, "delayed by", &forecast.delayed_by.iter().map(delay).collect::<Vec<_>>())?;
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
            let calls = count(forecast.quota_refusals, "create call");
            let were = if forecast.quota_refusals == 1 { "was" } else { "were" };
            format!("{vms} (quota {quota}); {calls} {were} refused by the quota")
        }
        Some(quota) => format!("{vms} (quota {quota})"),
    }
}

fn lines(out: &mut String, what: &str, all: &[String]) -> std::fmt::Result {
    for (index, line) in all.iter().enumerate() {
        writeln!(out, "  {:<12}{line}", if index == 0 { what } else { "" })?;
    }
    Ok(())
}

/// Writes a row for each Machine that is created or deleted.
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
    writeln!(out, "  . creating, # running, - deleting\n")
}

fn row(bar: &Bar, total: i64) -> String {
    let cell = |column: i64| {
        let at = column * total / CELLS;
        let after = |time: Option<i64>| time.is_some_and(|time| time <= at);
        match bar {
            _ if after(bar.deleted) => ' ',
            _ if after(bar.deleting) => '-',
            Bar { created: None, .. } => '#',
            _ if after(bar.ready) => '#',
            _ if after(bar.created) => '.',
            _ => ' ',
        }
    };
    (0..CELLS).map(cell).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(created: Option<i64>, ready: Option<i64>, deleting: Option<i64>, deleted: Option<i64>) -> Bar {
        Bar { name: "m".into(), class: "c".into(), created, ready, deleting, deleted }
    }

    #[test]
    fn row_shows_creation_and_deletion_from_left_to_right() {
        let new = row(&bar(Some(0), Some(28), None, None), 56);
        assert_eq!(new, format!("{}{}", ".".repeat(28), "#".repeat(28)));
        let old = row(&bar(None, None, Some(28), Some(42)), 56);
        assert_eq!(old, format!("{}{}", "#".repeat(28), "-".repeat(14)));
        let late = row(&bar(Some(14), Some(28), None, None), 56);
        assert!(late.starts_with(&" ".repeat(14)) && late[14..].starts_with('.'), "{late}");
    }
}
