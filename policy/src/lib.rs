//! capgate's one evaluator.

pub mod decide;
pub mod facts;
pub mod host;
pub mod reason;
pub mod site;
