//! placeholder
use crate::cli::DemoArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;
pub fn run(_ui: &Ui, _args: &DemoArgs) -> Outcome {
    Ok(Exit::Done)
}
