//! Tables for people.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table, Width, presets};

use super::visible;

/// Builds a table without borders; it is as wide as its content, so that lines can be cut and searched.
#[derive(Debug)]
pub struct Rows {
    table: Table,
}

impl Rows {
    /// With that header.
    pub fn new(header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header.iter().map(|name| Cell::new(name.to_uppercase())));
        Self { table }
    }

    /// Adds a row.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.table
            .add_row(cells.into_iter().map(|cell| Cell::new(visible(cell.as_ref()).replace('\n', " "))));
    }

    /// Aligns columns of numbers to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        for &column in columns {
            if let Some(column) = self.table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    /// Tells whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The text, ending in a newline, without spaces at the ends of lines.
    pub fn render(&self) -> String {
        self.table
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end()))
            .collect()
    }
}

/// `NAME: value` lines with the values under each other.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in facts {
        table.add_row([format!("{name}:"), visible(&value)]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(12)));
    }
    table.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end())).collect()
}
