//! What the live view of the demo shows at one moment: a snapshot in, lines out.
//!
//! Nothing is told by colour alone: [`Style`] only repeats what the words say.

use std::collections::BTreeMap;

use inspect::picture::{Cell, Group, Picture, Pool};

/// How many machines have a line of their own.
const MACHINES: usize = 8;
/// From which line on the reasons stand, as far as the terminal is high enough: they must not jump while they are read.
const STEADY: usize = 9;
const BAR: usize = 20;
/// Who decides.
pub(super) const MILLWRIGHT: &str = "millwright";

/// How much fits on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) seconds: f64,
    pub(super) who: &'static str,
    pub(super) what: String,
    pub(super) because: Option<String>,
}

/// What there is to show.
pub(super) struct Scene<'a> {
    pub(super) seconds: f64,
    pub(super) act: &'a str,
    pub(super) picture: &'a Picture,
    /// The last operation of each machine, by name.
    pub(super) operations: &'a BTreeMap<String, String>,
    /// Oldest first.
    pub(super) told: &'a [Told],
}

/// How a line looks where colours are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Reason,
}

/// A line, no wider than the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// All lines of a moment. One row stays free for the cursor: a terminal that scrolls would put the next frame in the wrong place.
pub(super) fn frame(scene: &Scene<'_>, size: Size) -> Vec<Line> {
    let rows = size.rows.saturating_sub(1);
    let mut lines = vec![line(Style::Heading, format!("{:5.1} s  {}", scene.seconds, scene.act)), blank()];
    lines.extend(scene.picture.pools.iter().flat_map(|pool| of_pool(scene.picture, pool)));
    lines.extend(of_machines(scene, MACHINES.min(size.rows / 3)));
    while lines.len() < STEADY.min(rows / 2) {
        lines.push(blank());
    }
    lines.push(blank());
    let reasons: Vec<Line> = scene.told.iter().flat_map(of_told).collect();
    let room = rows.saturating_sub(lines.len());
    // A reason whose decision is out of sight says nothing.
    let in_sight = reasons.into_iter().rev().take(room).rev().skip_while(|line| line.style == Style::Reason);
    lines.extend(in_sight);
    lines.truncate(rows);
    for line in &mut lines {
        line.text = cut(&line.text, size.columns);
    }
    lines
}

fn of_pool(picture: &Picture, pool: &Pool) -> Vec<Line> {
    let cells = |set: &Group| picture.machines.values().filter(|cell| cell.set == set.name).collect::<Vec<&Cell>>();
    let run = |set: &Group| cells(set).iter().filter(|cell| cell.phase == "Running").count();
    let (new, old): (Vec<&Group>, Vec<&Group>) = pool.sets.iter().partition(|set| set.current);
    let done: usize = new.iter().map(|set| run(set)).sum();
    let left: usize = old.iter().map(|set| cells(set).len()).sum();
    let wanted = usize::try_from(pool.replicas).unwrap_or_default();
    let progress = match left {
        0 => format!("{done} of {wanted} run"),
        _ => format!("roll-out: {done} of {wanted} new run, {left} old left"),
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

/// A line for each machine that does not run, up to so many.
fn of_machines(scene: &Scene<'_>, most: usize) -> Vec<Line> {
    let on_their_way: Vec<_> = scene.picture.machines.iter().filter(|(_, cell)| cell.phase != "Running").collect();
    let operation = |name: &String| scene.operations.get(name).map(String::as_str).unwrap_or_default();
    let of_machine = |(name, cell): &(&String, &Cell)| {
        let text = format!("  {name} {} {}  {}", steps(cell), phase(cell), operation(name));
        plain(text.trim_end().to_owned())
    };
    let mut lines: Vec<Line> = on_their_way.iter().take(most).map(of_machine).collect();
    if let Some(more) = on_their_way.len().checked_sub(most).filter(|more| *more > 0) {
        lines.push(plain(format!("  and {more} more")));
    }
    lines
}

fn of_told(told: &Told) -> Vec<Line> {
    let Told { seconds, who, what, because } = told;
    // Most of it is Millwright's, and room is scarce.
    let what = match *who {
        MILLWRIGHT => plain(format!("{seconds:5.1} s  {what}")),
        who => plain(format!("{seconds:5.1} s  {who}: {what}")),
    };
    let why = because.iter().map(|why| line(Style::Reason, format!("{:9}because {why}", "")));
    std::iter::once(what).chain(why).collect()
}

fn phase(cell: &Cell) -> &str {
    if cell.phase.is_empty() { "New" } else { &cell.phase }
}

/// How far a machine is on its way to run, of three steps: there is an object, there is a VM, there is a node that is ready. One that goes has the way back.
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

    fn told() -> Vec<Told> {
        let person = Told { seconds: 0.25, who: "you", what: "change the class".into(), because: None };
        let why = Some("Drain in progress: 1 pod left".to_owned());
        vec![person, Told { seconds: 1.0, who: MILLWRIGHT, what: "machine pool-a-2: evict pod".into(), because: why }]
    }

    fn drawn(picture: &Picture, told: &[Told], size: Size) -> Vec<Line> {
        let operations = BTreeMap::from([("pool-a-2".to_owned(), "Drain in progress".to_owned())]);
        frame(&Scene { seconds: 1.5, act: "all of them roll", picture, operations: &operations, told }, size)
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect()
    }

    /// Shows OPR-16.
    #[rstest]
    #[case::nothing_yet(
        &Picture::default(),
        &[],
        "  1.5 s  all of them roll\n\n\n\n\n\n\n\n\n\n"
    )]
    #[case::they_come_up(
        &coming(),
        &[],
        "  1.5 s  all of them roll\n\
         \n\
         pool [....................] 0 of 2 run\n  \
           new v1 pool-a  P N\n  \
           pool-a-1 [##.] Pending\n  \
           pool-a-2 [#..] New  Drain in progress\n\
         \n\n\n\n"
    )]
    #[case::a_roll_out(
        &rolling(),
        &told(),
        "  1.5 s  all of them roll\n\
         \n\
         pool [##########..........] roll-out: 1 of 2 new run, 2 old left\n  \
           old v1 pool-a  R T\n  \
           new v2 pool-b  R P\n  \
           pool-a-2 [#..] Terminating  Drain in progress\n  \
           pool-b-2 [##.] Pending\n\
         \n\n\n  \
           0.2 s  you: change the class\n  \
           1.0 s  machine pool-a-2: evict pod\n         \
                  because Drain in progress: 1 pod left\n"
    )]
    fn a_frame_shows_roll_outs_machines_on_their_way_and_reasons_below(
        #[case] picture: &Picture,
        #[case] told: &[Told],
        #[case] expected: &str,
    ) {
        assert_eq!(text(&drawn(picture, told, WIDE)), expected);
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
    fn no_frame_is_larger_than_the_terminal(#[case] columns: usize, #[case] rows: usize) {
        let many: Vec<Told> = (0..50).flat_map(|_| told()).collect();
        let lines = drawn(&rolling(), &many, Size { columns, rows });
        assert!(lines.len() <= rows.saturating_sub(1), "{lines:?}");
        assert!(lines.iter().all(|line| line.text.chars().count() <= columns.max(1)), "{lines:?}");
    }

    #[test]
    fn the_last_reasons_stay_in_sight() {
        let mut many: Vec<Told> = (0..50).flat_map(|_| told()).collect();
        many.push(Told { seconds: 9.0, who: "world", what: "it is replaced".into(), because: None });
        let lines = drawn(&rolling(), &many, WIDE);
        assert!(lines.len() >= WIDE.rows - 2, "{lines:?}");
        assert_eq!(lines.last().map(|line| line.text.as_str()), Some("  9.0 s  world: it is replaced"));
    }

    #[test]
    fn a_reason_whose_decision_is_out_of_sight_is_out_of_sight_too() {
        let two: Vec<Told> = told().into_iter().skip(1).cycle().take(2).collect();
        let shown = |rows| text(&drawn(&Picture::default(), &two, Size { columns: 100, rows }));
        // Five lines above, then three or four for two decisions with their reasons.
        let count = |rows| (shown(rows).matches("evict pod").count(), shown(rows).matches("because").count());
        assert_eq!((count(9), count(10)), ((1, 1), (2, 2)), "{}", shown(9));
    }

    #[test]
    fn machines_without_a_line_are_counted() {
        let names: Vec<String> = (10..22).map(|number| format!("pool-a-{number}")).collect();
        let machines: Vec<_> = names.iter().map(|name| (name.as_str(), "pool-a", "Pending")).collect();
        let shown = text(&drawn(&picture(&[("pool-a", "v1", true)], &machines), &[], WIDE));
        assert!(shown.contains("  pool-a-17 [##.] Pending\n  and 4 more\n"), "{shown}");
    }

    #[test]
    fn reasons_and_the_heading_are_marked_for_whoever_wants_colours() {
        let lines = drawn(&rolling(), &told(), WIDE);
        assert_eq!(lines.first().map(|line| line.style), Some(Style::Heading));
        assert_eq!(lines.last().map(|line| line.style), Some(Style::Reason));
        assert_eq!(lines.iter().filter(|line| line.style != Style::Plain).count(), 2);
    }
}
