//! Families that are written as text at each scrape.
//!
//! Five thousand Machines have fifty thousand series. If they were stored as gauges, each scrape would have to update them and
//! remove those of deleted objects. Instead their series are written at each scrape from the current objects.

use std::fmt::Write;

use super::catalogue::Declared;

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A current value.
    Gauge,
    /// A value that only increases.
    Counter,
}

/// A family with `N` labels.
#[derive(Clone, Copy, Debug)]
pub struct Family<const N: usize> {
    /// Name.
    pub name: &'static str,
    /// Help text in one line.
    pub help: &'static str,
    /// Type.
    pub shape: Shape,
    /// Names of the labels.
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

/// Receives the families of a scrape.
pub struct Page<'a> {
    mode: Mode<'a>,
}

enum Mode<'a> {
    Write(&'a mut String),
    Record(Vec<Declared>),
}

impl<'a> Page<'a> {
    pub(super) fn on(text: &'a mut String) -> Self {
        Self { mode: Mode::Write(text) }
    }

    /// Returns the families that `write` writes.
    pub(super) fn families(write: &mut impl FnMut(&mut Page<'_>)) -> Vec<Declared> {
        let mut page = Page { mode: Mode::Record(Vec::new()) };
        write(&mut page);
        match page.mode {
            Mode::Record(families) => families,
            Mode::Write(_) => Vec::new(),
        }
    }

    /// Writes one family. `fill` adds its series, each once. A family without series is omitted. `fill` is not called while the
    /// page only records families.
    pub fn family<const N: usize>(&mut self, family: &Family<N>, fill: impl FnOnce(&mut Series<'_, N>)) {
        match &mut self.mode {
            Mode::Write(text) => fill(&mut Series { family, text, head: Head::Due }),
            Mode::Record(families) => families.push(family.declared()),
        }
    }
}

/// Series of one family.
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
    /// Adds a series with the values of its labels.
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
    fn dynamic_series_are_those_of_the_scrape() {
        let owners = Arc::new(Mutex::new(vec!["ann", "bob"]));
        let metrics = Metrics::new().unwrap();
        let current = owners.clone();
        let write = move |page: &mut Page<'_>| {
            page.family(&HATS, |series| current.lock().iter().for_each(|owner| series.add([owner, "red"], 2)));
            page.family(&ROOMS, |series| series.add([], 7));
        };
        metrics.register_dynamic(write).unwrap();
        let text = metrics.encode().unwrap();
        let hats = "# HELP hats Hats by owner.\n# TYPE hats gauge\n\
                    hats{owner=\"ann\",colour=\"red\"} 2\nhats{owner=\"bob\",colour=\"red\"} 2\n";
        assert!(text.contains(hats), "{text}");
        assert!(text.ends_with("# TYPE rooms_total counter\nrooms_total 7\n"), "{text}");
        owners.lock().retain(|owner| *owner == "bob");
        assert!(!metrics.encode().unwrap().contains("ann"), "the series of a removed owner is omitted");
        owners.lock().clear();
        assert!(!metrics.encode().unwrap().contains("hats"));
    }

    #[test]
    fn families_without_series_are_declared() {
        let metrics = Metrics::new().unwrap();
        metrics.register_dynamic(|page| page.family(&HATS, |_| panic!("not scraped"))).unwrap();
        let declared = metrics.declared();
        let hats = declared.iter().find(|family| family.name == "hats").unwrap();
        assert_eq!(hats.labels, ["colour", "owner"]);
        assert!(declared.iter().any(|family| family.name == "mcm_workqueue_depth"));
        let again = metrics.register_dynamic(|page| page.family(&HATS, |_| {}));
        assert!(matches!(again, Err(MetricsError::Taken(name)) if name == "hats"));
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        Page::on(&mut text).family(&HATS, |series| series.add(["a\"} 1\n", "b\\"], -4));
        assert!(text.ends_with("hats{owner=\"a\\\"} 1\\n\",colour=\"b\\\\\"} -4\n"), "{text}");
    }
}
