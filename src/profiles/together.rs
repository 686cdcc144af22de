//! Rules that no profile can break alone: names, ids and combinations across files.

use capgate_registry::document::{self, Problem, Severity};
use capgate_registry::profile::{MAX_BYTES, Profile};

use super::{Linted, Profiles};

/// Adds what is wrong between files to what is wrong in each.
pub(super) fn lint(mut files: Vec<Linted>) -> Profiles {
    let found: Vec<(usize, Problem)> = (0..)
        .zip(&files)
        .filter_map(|(at, file)| Some((at, file, file.profile.as_ref()?)))
        .flat_map(|(at, file, profile)| {
            let all = [name(file, profile), id(&files, at, profile), superseded(&files, profile)];
            let single = all.into_iter().flatten();
            let found: Vec<Found> = single.chain(combinations(&files, at, profile)).collect();
            found.into_iter().map(move |found| (at, found.in_document(&file.bytes)))
        })
        .collect();
    let hints =
        files.iter().filter_map(|file| file.profile.as_ref()).filter_map(|p| hint(&files, p)).collect();
    for (at, problem) in found {
        if let Some(file) = files.get_mut(at) {
            file.problems.push(problem);
        }
    }
    for file in &mut files {
        file.problems.sort_by_key(|problem| problem.span.start);
    }
    Profiles { files, hints }
}

/// A problem at a key of the root table.
struct Found {
    key: &'static str,
    message: String,
    help: String,
}

impl Found {
    fn in_document(self, bytes: &[u8]) -> Problem {
        let (span, _) = document::read(bytes, MAX_BYTES, |root| Some(root.span_of(self.key)));
        let span = span.unwrap_or(0..0);
        Problem { severity: Severity::Rule, span, message: self.message, help: Some(self.help) }
    }
}

fn name(file: &Linted, profile: &Profile) -> Option<Found> {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = format!("{}.toml", profile.id);
    (name != wanted).then(|| Found {
        key: "id",
        message: format!("the file is named `{name}`, its id is `{}`", profile.id),
        help: format!("rename the file to `{wanted}`"),
    })
}

fn id(files: &[Linted], at: usize, profile: &Profile) -> Option<Found> {
    let same = |file: &&Linted| file.profile.as_ref().is_some_and(|other| other.id == profile.id);
    let other = files.iter().take(at).find(same)?;
    Some(Found {
        key: "id",
        message: format!("the id `{}` is also that of `{}`", profile.id, other.name),
        help: "give each profile an id of its own".to_owned(),
    })
}

fn by_id<'f>(files: &'f [Linted], id: &str) -> Option<&'f Profile> {
    files.iter().filter_map(|file| file.profile.as_ref()).find(|profile| profile.id.as_str() == id)
}

/// What it supersedes must have been tested on the same combination.
fn superseded(files: &[Linted], profile: &Profile) -> Option<Found> {
    let earlier = by_id(files, profile.supersedes.as_ref()?.as_str())?;
    if earlier.combinations().is_empty() || shares_a_key(earlier, profile) {
        return None;
    }
    Some(Found {
        key: "supersedes",
        message: format!("cannot supersede `{}`: they were not tested on the same combination", earlier.id),
        help: "leave `supersedes` out; both can be in force".to_owned(),
    })
}

/// Two live profiles about one combination are ambiguous, so neither would be granted.
fn combinations(files: &[Linted], at: usize, profile: &Profile) -> Vec<Found> {
    let profiles = || files.iter().filter_map(|file| file.profile.as_ref());
    let is_live = |one: &Profile| !profiles().any(|other| other.supersedes.as_ref() == Some(&one.id));
    if !is_live(profile) {
        return Vec::new();
    }
    let earlier = files.iter().take(at).filter_map(|file| file.profile.as_ref());
    let conflicting =
        earlier.filter(|&other| other.id != profile.id && is_live(other) && shares_a_key(other, profile));
    conflicting
        .map(|other| Found {
            key: "id",
            message: format!("`{}` and `{}` are about the same combination", other.id, profile.id),
            help: format!("add `supersedes = \"{}\"` to the newer one", other.id),
        })
        .collect()
}

fn shares_a_key(one: &Profile, other: &Profile) -> bool {
    let keys = other.keys();
    one.keys().iter().any(|key| keys.contains(key))
}

/// The earlier profile may well be published already, and its file gone.
fn hint(files: &[Linted], profile: &Profile) -> Option<String> {
    let earlier = profile.supersedes.as_ref()?;
    let known = by_id(files, earlier.as_str()).is_some();
    (!known).then(|| format!("`{}` supersedes `{earlier}`, which is in none of these files", profile.id))
}
