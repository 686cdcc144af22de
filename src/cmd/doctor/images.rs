//! The images that a profile of the program has to list, as the library compares them when a device is made.

use std::path::Path;

use capgate_guest::identity;
use capgate_policy::decide::{Device, Grant, LoadedImage};
use capgate_registry::combination::{CdHash, Sha256Digest};
use capgate_registry::text::is_forbidden;
use serde::Serialize;

use super::links::{Linked, Links, Missing, When};
use super::macho;
use super::report::{Fix, Report};
use crate::ui::count;

const NAME: &str = "images";
const LATE: &str = "late images";
/// What can be said of a file that is not where its program looks for it.
const INSTALLED: &str = "look at the program where it is installed with everything that it links";
/// Most missing libraries that are named one by one.
const MOST_SHOWN: usize = 10;

/// An image that a profile has to list.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its file name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// Its cdhash.
    #[serde(serialize_with = "as_text")]
    pub cdhash: Option<CdHash>,
    /// SHA-256 of the file.
    #[serde(serialize_with = "as_text")]
    pub sha256: Option<Sha256Digest>,
    /// `start` where it is loaded with the program, `later` where it may be opened.
    pub loaded: &'static str,
    /// Whether it links Metal by itself.
    pub links_metal: bool,
}

fn as_text<T: ToString, S: serde::Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Says what cannot be loaded, and collects what must be listed.
pub fn check(links: &Links, report: &mut Report) {
    check_missing(links, report);
    let is_program = links.images.first().is_some_and(|image| image.when == When::Start);
    let touches = |image: &&Linked| image.when == When::Later || image.commands.links_metal();
    // The program itself is no image of the list.
    let listed: Vec<Listed> =
        links.images.iter().skip(usize::from(is_program)).filter(touches).map(listed).collect();
    for image in listed.iter().filter(|image| image.cdhash.is_none()) {
        let text = format!("`{}` is not signed, so no list can hold it", image.path);
        report.fail(NAME, text, Fix::Nothing("it is for its makers to sign it".to_owned()));
    }
    let own = links.images.first().filter(|_| is_program).is_some_and(|image| image.commands.links_metal());
    let later = listed.iter().filter(|image| image.loaded == "later").count();
    let at_start = listed.len() - later;
    let followed = links.images.len() - later - usize::from(is_program);
    report.ok(NAME, format!("{at_start} of {} that it links use Metal", count(followed, "image")));
    if later > 0 {
        let text = format!(
            "{} beside it may be opened later, and a profile must list them too",
            count(later, "image")
        );
        report.ok(LATE, text);
    } else if at_start > 0 || own {
        report.ok(LATE, "none stands beside it; what it opens from elsewhere must be in a profile too");
    } else {
        let fix = "look at the library that talks to Metal, such as a Python module, and list what it brings";
        report.warn(
            LATE,
            "nothing here links Metal: what touches it is opened later",
            Fix::Do(fix.to_owned()),
        );
    }
    if !listed.is_empty() {
        report.profile_lines = Some(listed.iter().filter_map(lines).collect::<Vec<_>>().join("\n"));
    }
    if let Some(findings) = &mut report.program {
        findings.images = listed;
    }
}

fn listed(image: &Linked) -> Listed {
    let path = &image.path;
    Listed {
        name: macho::name(path),
        path: path.display().to_string(),
        cdhash: image.cdhash,
        sha256: identity::of_file(path).ok().map(|file| file.sha256),
        loaded: if image.when == When::Start { "start" } else { "later" },
        links_metal: image.commands.links_metal(),
    }
}

fn check_missing(links: &Links, report: &mut Report) {
    let needed: Vec<&Missing> = links.missing.iter().filter(|missing| !missing.optional).collect();
    for Missing { name, by, why, malformed, .. } in needed.iter().take(MOST_SHOWN) {
        let by = by.display();
        if *malformed {
            let text = format!("`{by}` needs `{name}`, and {why}: it would not start");
            report.fail(NAME, text, Fix::Do("install the program again".to_owned()));
            report.malformed = true;
        } else {
            report.warn(NAME, format!("`{by}` needs `{name}`, and {why}"), Fix::Do(INSTALLED.to_owned()));
        }
    }
    if needed.len() > MOST_SHOWN {
        let text = format!("{} more are not found here", count(needed.len() - MOST_SHOWN, "image"));
        report.warn(NAME, text, Fix::Do(INSTALLED.to_owned()));
    }
    if links.cut {
        let why = "no program that capgate was made for links so many".to_owned();
        report.fail(NAME, "it links more images than are followed", Fix::Nothing(why));
    }
}

/// The lines of a profile; none for a name that no profile can hold.
fn lines(image: &Listed) -> Option<String> {
    if image.name.chars().any(is_forbidden) {
        return None;
    }
    let name = image.name.replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines = format!("[[workload.image]]\nname = \"{name}\"\n");
    if let Some(cdhash) = image.cdhash {
        lines += &format!("cdhash = \"{cdhash}\"\n");
    }
    if let Some(sha256) = image.sha256 {
        lines += &format!("sha256 = \"{sha256}\"\n");
    }
    Some(lines)
}

/// Holds the images against the list of a grant, as the library does when a device is made.
pub fn compare(grant: &Grant, listed: &[Listed], report: &mut Report) {
    let at_device = |images: Vec<LoadedImage>| grant.at_device(&Device { answers: grant.stock, images });
    let of = |when: &str| listed.iter().filter(|image| image.loaded == when).map(loaded).collect();
    let fix = "publish a profile that lists what is here (the lines below), or install what was tested";
    match (at_device(of("start")), at_device(of("later"))) {
        (Err(refusal), _) => {
            let message = format!("stock as the device is made: {}: {}", refusal.reason, refusal.detail);
            report.fail("profile", message, Fix::Do(fix.to_owned()));
        }
        (Ok(()), Err(refusal)) => {
            let message = format!("stock from when it is opened: {}: {}", refusal.reason, refusal.detail);
            report.warn("profile", message, Fix::Do(fix.to_owned()));
        }
        (Ok(()), Ok(())) => {}
    }
}

fn loaded(image: &Listed) -> LoadedImage {
    LoadedImage { name: image.name.clone(), sha256: None, cdhash: image.cdhash }
}

/// Children never see other values; programs that are known to do their work in children are named.
pub fn check_children(program: &Path, report: &mut Report) {
    let known = match macho::name(program).as_str() {
        "ollama" => Some((
            "`ollama` runs every model in a child",
            "none: start the runner itself, if it lets libraries in",
        )),
        "llama-server" => Some((
            "as a router, `llama-server` runs every model in a child",
            "start it with `--model`, and it runs the model itself",
        )),
        _ => None,
    };
    let stay = "children stay stock: the library takes itself out of what they inherit";
    match known {
        None => report.ok("children", stay),
        Some((what, fix)) => report.warn("children", format!("{stay}; {what}"), Fix::Do(fix.to_owned())),
    }
}
