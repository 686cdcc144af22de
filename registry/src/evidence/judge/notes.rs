//! Findings of one workload, kept apart by what they concern.

use std::collections::BTreeSet;

use crate::evidence::codes::Code;
use crate::evidence::finding::Finding;
use crate::evidence::manifest::Arm;
use crate::profile::Values;

/// Findings of one workload.
#[derive(Debug, Default)]
pub(super) struct Notes {
    said: Vec<(Option<Values>, Finding)>,
}

impl Notes {
    /// Adds a finding of an arm: one of an override arm concerns only its set, any other concerns all.
    pub(super) fn of_arm(&mut self, arm: Arm, finding: Finding) {
        let set = if let Arm::Override(values) = arm { Some(values) } else { None };
        self.said.push((set, finding));
    }

    /// Adds a finding of a file of an arm.
    pub(super) fn of_file(&mut self, arm: Arm, path: &str, finding: Finding) {
        self.of_arm(arm, finding.in_file(path));
    }

    /// Adds a finding that concerns all sets.
    pub(super) fn common(&mut self, code: Code, message: impl Into<String>) {
        self.said.push((None, Finding::new(code, message)));
    }

    /// Adds a finding that concerns all sets.
    pub(super) fn add(&mut self, finding: Finding) {
        self.said.push((None, finding));
    }

    /// Tells whether something that all sets share is refused.
    pub(super) fn refuses_all(&self) -> bool {
        self.said.iter().any(|(set, finding)| set.is_none() && finding.refuses())
    }

    /// Tells whether something of this set alone is refused.
    pub(super) fn refuses(&self, values: Values) -> bool {
        self.said.iter().any(|(set, finding)| *set == Some(values) && finding.refuses())
    }

    /// Tells whether this set alone is refused, and for nothing but its output.
    pub(super) fn refuses_only_output(&self, values: Values) -> bool {
        let mut refusals =
            self.said.iter().filter(|(set, finding)| *set == Some(values) && finding.refuses()).peekable();
        refusals.peek().is_some() && refusals.all(|(_, finding)| finding.code == Code::CorrectnessFailed)
    }

    /// Every finding once, said of the workload.
    pub(super) fn finish(self, workload: &str) -> Vec<Finding> {
        let mut seen = BTreeSet::new();
        let said = self.said.into_iter().map(|(_, finding)| finding.in_workload(workload));
        said.filter(|finding| seen.insert((finding.code, finding.file.clone(), finding.message.clone())))
            .collect()
    }
}
