//! `capgate record diff`: in what two runs differ, the most suspicious first.

use capgate_registry::evidence::run_record::diff::{Comparison, compare};

use super::read;
use crate::cli::RecordDiffArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::table::Rows;
use crate::ui::{BAD, GOOD, Ui, count, styled};

/// A difference that weighs less is no reason for anything by itself.
const SUSPICIOUS: u32 = 500;
/// Longest value that is shown whole.
const LONGEST: usize = 60;

pub fn run(ui: &Ui, args: &RecordDiffArgs) -> Outcome {
    let found = compare(&read(&args.a)?, &read(&args.b)?);
    if ui.is_json() {
        ui.json(&found);
    } else {
        print(ui, &found);
    }
    Ok(Exit::Done)
}

fn print(ui: &Ui, found: &Comparison) {
    let mut outcomes = Rows::new(&["measured", "a", "b", "times slower"]);
    for outcome in &found.outcomes {
        outcomes.row([
            outcome.test.clone(),
            format!("{:.4}", outcome.a),
            format!("{:.4}", outcome.b),
            format!("{:.2}", outcome.times_slower),
        ]);
    }
    if !outcomes.is_empty() {
        ui.stdout(&outcomes.right(&[1, 2, 3]).render());
        ui.line("");
    }
    if found.differences.is_empty() {
        return ui.line(styled(GOOD, "nothing that is recorded differs"));
    }
    let mut rows = Rows::new(&["weight", "code", "what", "a", "b"]);
    for difference in &found.differences {
        let value = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), shortened);
        rows.row([
            difference.weight.to_string(),
            difference.code.to_owned(),
            shortened(&difference.what),
            value(&difference.a),
            value(&difference.b),
        ]);
    }
    ui.stdout(&rows.right(&[0]).render());
    let suspicious = found.differences.iter().filter(|difference| difference.weight >= SUSPICIOUS).count();
    let text = format!(
        "{}, {suspicious} of them suspicious (weight {SUSPICIOUS} or more)",
        count(found.differences.len(), "difference")
    );
    ui.line(styled(BAD, text));
}

/// The beginning and the end of a long value: paths differ at their ends.
fn shortened(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= LONGEST {
        return text.to_owned();
    }
    let half = LONGEST / 2;
    let start: String = characters.iter().take(half).collect();
    let end: String = characters.iter().skip(characters.len() - half).collect();
    format!("{start}…{end}")
}
