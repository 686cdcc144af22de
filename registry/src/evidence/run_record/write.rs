//! From a record to its one spelling.

use serde::Serialize;

use super::{RunRecord, SCHEMA};

#[derive(Serialize)]
struct Versioned<'r> {
    schema: &'static str,
    #[serde(flatten)]
    record: &'r RunRecord,
}

impl RunRecord {
    /// The record as it is written to a file: indented JSON, one newline at its end.
    pub fn to_json(&self) -> String {
        let versioned = Versioned { schema: SCHEMA, record: self };
        // Strings, numbers and lists always can be written.
        serde_json::to_string_pretty(&versioned).map(|text| text + "\n").unwrap_or_default()
    }
}
