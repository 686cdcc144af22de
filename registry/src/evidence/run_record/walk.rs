//! Every text that a record holds, so that no secret and nothing misleading is written, whatever gathered it.

use super::mask::{self, Mask};
use super::{Capabilities, RunRecord};
use crate::text::is_forbidden;

impl RunRecord {
    /// Takes out what [`mask::text`] finds in any text, and characters that could mislead on a terminal. What was
    /// masked is added to `run.masked`.
    ///
    /// Whoever gathers a record masks variables and arguments first, since only there a name says more than a shape.
    pub fn clean(&mut self) {
        let mut masks = Vec::new();
        self.each_text(&mut |place, said| {
            // First, for a tab or an invisible character may stand between a name and its secret.
            let plain = said.replace(|c| c != '\n' && is_forbidden(c), "\u{fffd}");
            let cleaned = mask::text(&plain);
            masks.extend(cleaned.rules.iter().map(|&rule| Mask { place: place.to_owned(), rule }));
            *said = cleaned.text;
        });
        self.run.masked.extend(masks);
        self.run.masked.sort();
        self.run.masked.dedup();
    }

    /// Where a text stands that holds what looks like a secret, and the rule that says so.
    pub fn secrets(&self) -> Vec<Mask> {
        let mut copy = self.clone();
        copy.run.masked.clear();
        copy.clean();
        copy.run.masked
    }

    /// Hands out every text that does not come from a fixed list of words.
    fn each_text(&mut self, take: &mut dyn FnMut(&str, &mut String)) {
        let machine = &mut self.machine;
        for said in [&mut machine.chip, &mut machine.model].into_iter().flatten() {
            take("machine", said);
        }
        let here = &mut self.os.here;
        let systems = [&mut here.name, &mut here.version, &mut here.build, &mut here.kernel];
        systems.into_iter().flatten().for_each(|said| take("os.here", said));
        if let Some(host) = &mut self.os.host {
            [&mut host.chip, &mut host.version, &mut host.build].into_iter().for_each(|s| take("os.host", s));
        }
        each_capability(&mut self.capabilities, take);
        self.files.iter_mut().for_each(|file| take("files", &mut file.path));
        let run = &mut self.run;
        for (at, word) in run.command.iter_mut().enumerate() {
            take(&format!("argument {at}"), word);
        }
        take("directory", &mut run.directory);
        for variable in &mut run.environment {
            let place = format!("environment {}", variable.name);
            take(&place, &mut variable.value);
            take("environment", &mut variable.name);
        }
        run.samples.iter_mut().for_each(|samples| take("samples", &mut samples.file));
        let rollback = run.rollback.unset.iter_mut().chain(&mut run.rollback.leave_out);
        rollback.for_each(|said| take("rollback", said));
        for unknown in &mut self.unknown {
            take("unknown", &mut unknown.what);
            take("unknown", &mut unknown.why);
        }
        self.notes.iter_mut().for_each(|said| take("notes", said));
    }
}

fn each_capability(capabilities: &mut Capabilities, take: &mut dyn FnMut(&str, &mut String)) {
    for answer in &mut capabilities.metal {
        [&mut answer.section, &mut answer.device].into_iter().flatten().for_each(|said| take("metal", said));
    }
    if let Some(linux) = &mut capabilities.linux {
        let flags = linux.cpu_flags.iter_mut().chain(&mut linux.cpu_masked);
        flags.chain(&mut linux.transparent_huge_pages).for_each(|said| take("linux", said));
        for gpu in &mut linux.gpus {
            take("gpus", &mut gpu.device);
            gpu.name.iter_mut().for_each(|said| take("gpus", said));
        }
    }
    for library in &mut capabilities.libraries {
        take("libraries", &mut library.name);
        take("libraries", &mut library.path);
        library.version.iter_mut().for_each(|said| take("libraries", said));
    }
}
