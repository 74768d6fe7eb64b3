//! Recorded and recomputed figures side by side.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::error::Exit;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    /// Where it stands in its event, such as `cells[0].busbw_gbps`.
    path: String,
    recorded: Value,
    recomputed: Value,
}

impl Figure {
    fn agrees(&self) -> bool {
        self.recorded == self.recomputed
    }
}

/// The figures of one event.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    figures: Vec<Figure>,
}

/// All that was compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    parts: Vec<Part>,
    /// What could not be compared, and why.
    pub(super) remarks: Vec<String>,
    /// Whether something could not be compared that a whole record has.
    incomplete: bool,
}

impl Account {
    /// Compares two values of one form, leaf by leaf; bit by bit, since a record keeps every digit.
    pub(super) fn compare<T: Serialize>(&mut self, name: String, recorded: &T, recomputed: &T) {
        let value = |of: &T| serde_json::to_value(of).unwrap_or_default();
        let mut figures = Vec::new();
        walk("", &value(recorded), &value(recomputed), &mut figures);
        self.parts.push(Part { name, figures });
    }

    /// Something that a whole record has could not be compared.
    pub(super) fn leaves_out(&mut self, remark: String) {
        self.remarks.push(remark);
        self.incomplete = true;
    }

    /// An earlier version did not keep this.
    pub(super) fn lacks(&mut self, what: &str) {
        self.leaves_out(format!("the record holds no {what}"));
    }

    fn count(&self, agree: bool) -> usize {
        let figures = self.parts.iter().flat_map(|part| &part.figures);
        figures.filter(|figure| figure.agrees() == agree).count()
    }

    /// A line for each part, each figure that differs, and the sum; with `all` each figure.
    pub(super) fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for Part { name, figures } in &self.parts {
            let differ = figures.iter().filter(|figure| !figure.agrees()).count();
            let word = if differ == 0 { "agree".to_owned() } else { format!("of which {differ} differ") };
            let _ = writeln!(text, "{name}: {} figures {word}", figures.len());
            for Figure { path, recorded, recomputed } in figures.iter().filter(|f| all || !f.agrees()) {
                let _ = if recorded == recomputed {
                    writeln!(text, "  {path}: {recorded} agrees")
                } else {
                    writeln!(text, "  {path}: recorded {recorded}, recomputed {recomputed}: DIFFERS")
                };
            }
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "{remark}");
        }
        let (agree, differ) = (self.count(true), self.count(false));
        let _ = writeln!(text, "{agree} figures agree, {differ} differ");
        text
    }

    /// 7 where figures differ, 9 where nothing or not everything could be compared, else 0.
    pub(super) fn exit(&self) -> Exit {
        match (self.count(false), self.count(true)) {
            (0, 0) => Exit::Inconclusive,
            (0, _) if self.incomplete => Exit::Inconclusive,
            (0, _) => Exit::Success,
            _ => Exit::Wrong,
        }
    }
}

/// Every leaf of either value; what one side lacks is null there.
fn walk(path: &str, recorded: &Value, recomputed: &Value, into: &mut Vec<Figure>) {
    match (recorded, recomputed) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let more = theirs.keys().filter(|name| !ours.contains_key(*name));
            for name in ours.keys().chain(more) {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(
                    &inner,
                    ours.get(name).unwrap_or(&Value::Null),
                    theirs.get(name).unwrap_or(&Value::Null),
                    into,
                );
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for at in 0..ours.len().max(theirs.len()) {
                let side = |of: &[Value]| of.get(at).cloned().unwrap_or_default();
                walk(&format!("{path}[{at}]"), &side(ours), &side(theirs), into);
            }
        }
        _ => into.push(Figure {
            path: path.to_owned(),
            recorded: recorded.clone(),
            recomputed: recomputed.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(recorded: &Value, recomputed: &Value) -> Account {
        let mut account = Account::default();
        account.compare("row 8".to_owned(), recorded, recomputed);
        account
    }

    #[test]
    fn what_differs_is_shown_with_its_place() {
        let account =
            compared(&json!({"a": [1.5, {"b": 2}], "c": 3}), &json!({"a": [1.5, {"b": 4}], "d": 5}));
        let text = account.text(false);
        assert_eq!(
            text,
            "row 8: 4 figures of which 3 differ\n\
             \u{20} a[1].b: recorded 2, recomputed 4: DIFFERS\n\
             \u{20} c: recorded 3, recomputed null: DIFFERS\n\
             \u{20} d: recorded null, recomputed 5: DIFFERS\n\
             1 figures agree, 3 differ\n"
        );
        assert_eq!(account.exit(), Exit::Wrong);
        assert!(account.text(true).contains("  a[0]: 1.5 agrees\n"));
    }

    #[test]
    fn the_last_bit_counts() {
        let next = f64::from_bits(1.1_f64.to_bits() + 1);
        assert_eq!(compared(&json!(1.1), &json!(next)).exit(), Exit::Wrong);
        assert_eq!(compared(&json!(1.1), &json!(1.1)).exit(), Exit::Success);
        assert_eq!(compared(&json!([1]), &json!([1, 2])).exit(), Exit::Wrong);
    }

    #[test]
    fn nothing_compared_is_no_agreement() {
        assert_eq!(Account::default().exit(), Exit::Inconclusive);
        let incomplete = Account { incomplete: true, ..compared(&json!(1), &json!(1)) };
        assert_eq!(incomplete.exit(), Exit::Inconclusive);
    }
}
