//! One frame of the live view of the demo: computes lines from a snapshot.
//!
//! No information depends on colour alone: [`Style`] only emphasizes.

use std::collections::BTreeMap;

use inspect::picture::{Cell, Group, Picture, Pool};

/// Maximum number of Machines that have their own line.
const MAX_MACHINE_LINES: usize = 8;
/// Line at which the decisions start, if the terminal is high enough. A fixed line keeps them readable.
const DECISIONS_LINE: usize = 9;
const BAR: usize = 20;
/// Actor of the controllers' decisions.
pub(super) const MILLWRIGHT: &str = "millwright";

/// Size of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) seconds: f64,
    pub(super) actor: &'static str,
    pub(super) action: String,
    pub(super) reason: Option<String>,
}

/// Data of a frame.
pub(super) struct Snapshot<'a> {
    pub(super) seconds: f64,
    pub(super) step: &'a str,
    pub(super) picture: &'a Picture,
    /// Description of the last operation of each Machine, by name.
    pub(super) operations: &'a BTreeMap<String, String>,
    /// Oldest first.
    pub(super) entries: &'a [Entry],
}

/// Style of a line, if colours are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Reason,
}

/// A line, not wider than the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// Returns all lines of a frame. One row stays free for the cursor, because scrolling would misplace the next frame.
pub(super) fn frame(snapshot: &Snapshot<'_>, size: Size) -> Vec<Line> {
    let rows = size.rows.saturating_sub(1);
    let mut lines = vec![line(Style::Heading, format!("{:5.1} s  {}", snapshot.seconds, snapshot.step)), blank()];
    lines.extend(snapshot.picture.pools.iter().flat_map(|pool| pool_lines(snapshot.picture, pool)));
    lines.extend(machine_lines(snapshot, MAX_MACHINE_LINES.min(size.rows / 3)));
    while lines.len() < DECISIONS_LINE.min(rows / 2) {
        lines.push(blank());
    }
    lines.push(blank());
    let reasons: Vec<Line> = snapshot.entries.iter().flat_map(entry_lines).collect();
    let room = rows.saturating_sub(lines.len());
    // Do not show a reason without its decision.
    let visible = reasons.into_iter().rev().take(room).rev().skip_while(|line| line.style == Style::Reason);
    lines.extend(visible);
    lines.truncate(rows);
    for line in &mut lines {
        line.text = cut(&line.text, size.columns);
    }
    lines
}

fn pool_lines(picture: &Picture, pool: &Pool) -> Vec<Line> {
    let cells = |set: &Group| picture.machines.values().filter(|cell| cell.set == set.name).collect::<Vec<&Cell>>();
    let run = |set: &Group| cells(set).iter().filter(|cell| cell.phase == "Running").count();
    let (new, old): (Vec<&Group>, Vec<&Group>) = pool.sets.iter().partition(|set| set.current);
    let done: usize = new.iter().map(|set| run(set)).sum();
    let left: usize = old.iter().map(|set| cells(set).len()).sum();
    let wanted = usize::try_from(pool.replicas).unwrap_or_default();
    let progress = match left {
        0 => format!("{done} of {wanted} Running"),
        _ => format!("rollout: {done} of {wanted} new Running, {left} old left"),
    };
    let mut lines = vec![plain(format!("{} {} {progress}", pool.name, bar(done, wanted)))];
    for set in &pool.sets {
        let phases: Vec<String> = cells(set).iter().map(|cell| phase(cell).chars().take(1).collect()).collect();
        if !phases.is_empty() {
            let age = if set.current { "new" } else { "old" };
            lines.push(plain(format!("  {age} {} {}  {}", set.class, set.name, phases.join(" "))));
        }
    }
    lines
}

/// Returns one line for each Machine that is not Running, up to a maximum.
fn machine_lines(snapshot: &Snapshot<'_>, most: usize) -> Vec<Line> {
    let not_running: Vec<_> = snapshot.picture.machines.iter().filter(|(_, cell)| cell.phase != "Running").collect();
    let operation = |name: &String| snapshot.operations.get(name).map(String::as_str).unwrap_or_default();
    let of_machine = |(name, cell): &(&String, &Cell)| {
        let text = format!("  {name} {} {}  {}", steps(cell), phase(cell), operation(name));
        plain(text.trim_end().to_owned())
    };
    let mut lines: Vec<Line> = not_running.iter().take(most).map(of_machine).collect();
    if let Some(more) = not_running.len().checked_sub(most).filter(|more| *more > 0) {
        lines.push(plain(format!("  and {more} more")));
    }
    lines
}

fn entry_lines(entry: &Entry) -> Vec<Line> {
    let Entry { seconds, actor, action, reason } = entry;
    // Omit the actor of most lines, because space is limited.
    let action = match *actor {
        MILLWRIGHT => plain(format!("{seconds:5.1} s  {action}")),
        actor => plain(format!("{seconds:5.1} s  {actor}: {action}")),
    };
    let why = reason.iter().map(|why| line(Style::Reason, format!("{:9}reason: {why}", "")));
    std::iter::once(action).chain(why).collect()
}

fn phase(cell: &Cell) -> &str {
    if cell.phase.is_empty() { "New" } else { &cell.phase }
}

/// Returns the progress of a Machine in three steps: object created, VM created, Node ready. A terminating Machine
/// takes the steps backwards.
fn steps(cell: &Cell) -> &'static str {
    match cell.phase.as_str() {
        "Running" => "[###]",
        "Pending" | "Unknown" => "[##.]",
        _ => "[#..]",
    }
}

fn bar(done: usize, of: usize) -> String {
    let full = (done.min(of) * BAR).checked_div(of).unwrap_or_default();
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn line(style: Style, text: String) -> Line {
    Line { style, text }
}

fn plain(text: String) -> Line {
    line(Style::Plain, text)
}

fn blank() -> Line {
    plain(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const WIDE: Size = Size { columns: 100, rows: 30 };

    fn group(name: &str, class: &str, current: bool) -> Group {
        Group { name: name.into(), class: class.into(), revision: "1".into(), current, replicas: 1 }
    }

    fn picture(sets: &[(&str, &str, bool)], machines: &[(&str, &str, &str)]) -> Picture {
        let pool = Pool {
            kind: Some("machinedeployment"),
            name: "pool".into(),
            replicas: 2,
            strategy: "RollingUpdate".into(),
            paused: false,
            frozen: false,
            sets: sets.iter().map(|(name, class, current)| group(name, class, *current)).collect(),
        };
        let cell = |set: &str, phase: &str| Cell { set: set.into(), phase: phase.into(), since: None, node: None };
        let machines = machines.iter().map(|(name, set, phase)| ((*name).to_owned(), cell(set, phase))).collect();
        Picture { namespace: "demo".into(), pools: vec![pool], machines }
    }

    fn rolling() -> Picture {
        picture(
            &[("pool-a", "v1", false), ("pool-b", "v2", true)],
            &[
                ("pool-a-1", "pool-a", "Running"),
                ("pool-a-2", "pool-a", "Terminating"),
                ("pool-b-1", "pool-b", "Running"),
                ("pool-b-2", "pool-b", "Pending"),
            ],
        )
    }

    fn coming() -> Picture {
        picture(&[("pool-a", "v1", true)], &[("pool-a-1", "pool-a", "Pending"), ("pool-a-2", "pool-a", "")])
    }

    fn entries() -> Vec<Entry> {
        let user = Entry { seconds: 0.25, actor: "you", action: "change the class".into(), reason: None };
        let why = Some("Drain in progress: 1 pod left".to_owned());
        vec![user, Entry { seconds: 1.0, actor: MILLWRIGHT, action: "machine pool-a-2: evict pod".into(), reason: why }]
    }

    fn drawn(picture: &Picture, entries: &[Entry], size: Size) -> Vec<Line> {
        let operations = BTreeMap::from([("pool-a-2".to_owned(), "Drain in progress".to_owned())]);
        frame(&Snapshot { seconds: 1.5, step: "roll out", picture, operations: &operations, entries }, size)
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect()
    }

    /// Shows OPR-16.
    #[rstest]
    #[case::empty(
        &Picture::default(),
        &[],
        "  1.5 s  roll out\n\n\n\n\n\n\n\n\n\n"
    )]
    #[case::machines_are_created(
        &coming(),
        &[],
        "  1.5 s  roll out\n\
         \n\
         pool [....................] 0 of 2 Running\n  \
           new v1 pool-a  P N\n  \
           pool-a-1 [##.] Pending\n  \
           pool-a-2 [#..] New  Drain in progress\n\
         \n\n\n\n"
    )]
    #[case::rollout(
        &rolling(),
        &entries(),
        "  1.5 s  roll out\n\
         \n\
         pool [##########..........] rollout: 1 of 2 new Running, 2 old left\n  \
           old v1 pool-a  R T\n  \
           new v2 pool-b  R P\n  \
           pool-a-2 [#..] Terminating  Drain in progress\n  \
           pool-b-2 [##.] Pending\n\
         \n\n\n  \
           0.2 s  you: change the class\n  \
           1.0 s  machine pool-a-2: evict pod\n         \
                  reason: Drain in progress: 1 pod left\n"
    )]
    fn frame_shows_pools_then_machines_then_decisions(
        #[case] picture: &Picture,
        #[case] entries: &[Entry],
        #[case] expected: &str,
    ) {
        assert_eq!(text(&drawn(picture, entries, WIDE)), expected);
    }

    /// Shows OPR-16.
    #[rstest]
    #[case(100, 30)]
    #[case(40, 24)]
    #[case(20, 10)]
    #[case(8, 5)]
    #[case(1, 2)]
    #[case(1, 1)]
    #[case(0, 0)]
    fn frame_is_not_larger_than_the_terminal(#[case] columns: usize, #[case] rows: usize) {
        let many: Vec<Entry> = (0..50).flat_map(|_| entries()).collect();
        let lines = drawn(&rolling(), &many, Size { columns, rows });
        assert!(lines.len() <= rows.saturating_sub(1), "{lines:?}");
        assert!(lines.iter().all(|line| line.text.chars().count() <= columns.max(1)), "{lines:?}");
    }

    #[test]
    fn frame_shows_the_latest_decisions() {
        let mut many: Vec<Entry> = (0..50).flat_map(|_| entries()).collect();
        many.push(Entry { seconds: 9.0, actor: "cluster", action: "the machine is replaced".into(), reason: None });
        let lines = drawn(&rolling(), &many, WIDE);
        assert!(lines.len() >= WIDE.rows - 2, "{lines:?}");
        assert_eq!(lines.last().map(|line| line.text.as_str()), Some("  9.0 s  cluster: the machine is replaced"));
    }

    #[test]
    fn frame_hides_a_reason_without_its_decision() {
        let two: Vec<Entry> = entries().into_iter().skip(1).cycle().take(2).collect();
        let shown = |rows| text(&drawn(&Picture::default(), &two, Size { columns: 100, rows }));
        // Five lines above, then three or four lines for two decisions with their reasons.
        let count = |rows| (shown(rows).matches("evict pod").count(), shown(rows).matches("reason: ").count());
        assert_eq!((count(9), count(10)), ((1, 1), (2, 2)), "{}", shown(9));
    }

    #[test]
    fn frame_counts_machines_without_a_line() {
        let names: Vec<String> = (10..22).map(|number| format!("pool-a-{number}")).collect();
        let machines: Vec<_> = names.iter().map(|name| (name.as_str(), "pool-a", "Pending")).collect();
        let shown = text(&drawn(&picture(&[("pool-a", "v1", true)], &machines), &[], WIDE));
        assert!(shown.contains("  pool-a-17 [##.] Pending\n  and 4 more\n"), "{shown}");
    }

    #[test]
    fn frame_styles_the_heading_and_the_reasons() {
        let lines = drawn(&rolling(), &entries(), WIDE);
        assert_eq!(lines.first().map(|line| line.style), Some(Style::Heading));
        assert_eq!(lines.last().map(|line| line.style), Some(Style::Reason));
        assert_eq!(lines.iter().filter(|line| line.style != Style::Plain).count(), 2);
    }
}
