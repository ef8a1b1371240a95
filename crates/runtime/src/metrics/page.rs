//! Families that are written out when someone looks.
//!
//! Five thousand machines are fifty thousand series. Kept as gauges they would have to be looked up, changed and swept at each scrape,
//! and what was not swept would stay: a machine that is gone would be shown until the process ends. So such families are not kept
//! at all. Whoever knows the objects writes their series as text, from what is so at that moment.

use std::fmt::Write;

use super::catalogue::Declared;

/// What the numbers of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it is now.
    Gauge,
    /// Only ever more.
    Counter,
}

/// A family with `N` labels.
#[derive(Clone, Copy, Debug)]
pub struct Family<const N: usize> {
    /// Its name.
    pub name: &'static str,
    /// What it says, in one line.
    pub help: &'static str,
    /// What its numbers are.
    pub shape: Shape,
    /// What tells its series apart.
    pub labels: [&'static str; N],
}

impl<const N: usize> Family<N> {
    /// A family of gauges.
    pub const fn gauge(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self { name, help, shape: Shape::Gauge, labels }
    }

    /// A family of counters.
    pub const fn counter(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self { name, help, shape: Shape::Counter, labels }
    }

    fn declared(&self) -> Declared {
        let mut labels = self.labels.map(str::to_owned).to_vec();
        labels.sort_unstable();
        Declared { name: self.name.to_owned(), help: self.help.to_owned(), labels }
    }
}

/// Where families are written.
pub struct Page<'a> {
    purpose: Purpose<'a>,
}

enum Purpose<'a> {
    Show(&'a mut String),
    Rehearse(Vec<Declared>),
}

impl<'a> Page<'a> {
    pub(super) fn on(text: &'a mut String) -> Self {
        Self { purpose: Purpose::Show(text) }
    }

    /// The families that `show` would write.
    pub(super) fn rehearse(show: &mut impl FnMut(&mut Page<'_>)) -> Vec<Declared> {
        let mut page = Page { purpose: Purpose::Rehearse(Vec::new()) };
        show(&mut page);
        match page.purpose {
            Purpose::Rehearse(families) => families,
            Purpose::Show(_) => Vec::new(),
        }
    }

    /// Writes one family. `fill` adds its series, none twice; one without any is not mentioned. It is not called while the page only
    /// takes down which families there are.
    pub fn family<const N: usize>(&mut self, family: &Family<N>, fill: impl FnOnce(&mut Series<'_, N>)) {
        match &mut self.purpose {
            Purpose::Show(text) => fill(&mut Series { family, text, head: Head::Due }),
            Purpose::Rehearse(families) => families.push(family.declared()),
        }
    }
}

/// The series of one family.
pub struct Series<'a, const N: usize> {
    family: &'a Family<N>,
    text: &'a mut String,
    head: Head,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Due,
    Written,
}

impl<const N: usize> Series<'_, N> {
    /// Adds a series: a value for each label, and its number.
    pub fn add(&mut self, labels: [&str; N], value: i64) {
        let Family { name, help, shape, labels: names } = self.family;
        if self.head == Head::Due {
            self.head = Head::Written;
            let shape = match shape {
                Shape::Gauge => "gauge",
                Shape::Counter => "counter",
            };
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {shape}");
        }
        self.text.push_str(name);
        let mut mark = '{';
        for (label, value) in names.iter().zip(labels) {
            self.text.push(mark);
            mark = ',';
            self.text.push_str(label);
            self.text.push_str("=\"");
            push_escaped(self.text, value);
            self.text.push('"');
        }
        if mark == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn push_escaped(text: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        text.push_str(value);
        return;
    }
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::metrics::MetricsError;
    use parking_lot::Mutex;
    use std::sync::Arc;

    const HATS: Family<2> = Family::gauge("hats", "Hats by owner.", ["owner", "colour"]);
    const ROOMS: Family<0> = Family::counter("rooms_total", "Rooms ever built.", []);

    /// Shows MS-W14.
    #[test]
    fn series_are_as_of_the_scrape_and_a_family_without_any_is_not_mentioned() {
        let owners = Arc::new(Mutex::new(vec!["ann", "bob"]));
        let metrics = Metrics::new().unwrap();
        let shown = owners.clone();
        let show = move |page: &mut Page<'_>| {
            page.family(&HATS, |series| shown.lock().iter().for_each(|owner| series.add([owner, "red"], 2)));
            page.family(&ROOMS, |series| series.add([], 7));
        };
        metrics.exhibit(show).unwrap();
        let text = metrics.encode().unwrap();
        let hats = "# HELP hats Hats by owner.\n# TYPE hats gauge\n\
                    hats{owner=\"ann\",colour=\"red\"} 2\nhats{owner=\"bob\",colour=\"red\"} 2\n";
        assert!(text.contains(hats), "{text}");
        assert!(text.ends_with("# TYPE rooms_total counter\nrooms_total 7\n"), "{text}");
        owners.lock().retain(|owner| *owner == "bob");
        assert!(!metrics.encode().unwrap().contains("ann"), "who is gone is not shown");
        owners.lock().clear();
        assert!(!metrics.encode().unwrap().contains("hats"));
    }

    #[test]
    fn every_family_is_declared_before_it_has_a_series_and_only_once() {
        let metrics = Metrics::new().unwrap();
        metrics.exhibit(|page| page.family(&HATS, |_| panic!("nobody looks yet"))).unwrap();
        let declared = metrics.declared();
        let hats = declared.iter().find(|family| family.name == "hats").unwrap();
        assert_eq!(hats.labels, ["colour", "owner"]);
        assert!(declared.iter().any(|family| family.name == "mcm_workqueue_depth"));
        let again = metrics.exhibit(|page| page.family(&HATS, |_| {}));
        assert!(matches!(again, Err(MetricsError::Taken(name)) if name == "hats"));
    }

    #[test]
    fn no_value_of_a_label_can_break_out_of_its_quotes() {
        let mut text = String::new();
        Page::on(&mut text).family(&HATS, |series| series.add(["a\"} 1\n", "b\\"], -4));
        assert!(text.ends_with("hats{owner=\"a\\\"} 1\\n\",colour=\"b\\\\\"} -4\n"), "{text}");
    }
}
