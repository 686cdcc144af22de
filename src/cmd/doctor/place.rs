//! This machine and what is installed on it: state, registry, host statement, each with what mends it.

use std::path::{Path, PathBuf};

use capgate_guest::facts;
use capgate_guest::prefix::{Prefix, check_library};
use capgate_guest::session::State;
use capgate_guest::system;
use capgate_policy::facts::{Fact, Source};
use capgate_policy::host::HostState;
use capgate_policy::reason::Reason;
use capgate_policy::site::Mode;
use capgate_registry::latest::nearly_expired;

use super::report::{Fix, Report};
use crate::cli::{DoctorArgs, RegistryArgs, SceneArgs};
use crate::cmd::prefix::{plain, quoted, unusable};
use crate::cmd::run::own_prefix;
use crate::cmd::scene::{Scene, facts_file, unknown_program};
use crate::exit::Failure;
use crate::installed::STATE;
use crate::ui::Ui;
use crate::world::{clock, file};

/// What was found of it.
pub struct Place {
    /// What a decision would be made of; none where nobody said which registry.
    pub scene: Option<Scene>,
    /// The library that would be inserted.
    pub library: Option<PathBuf>,
    /// Decision logs; none where nobody said which.
    pub logs: Option<Vec<PathBuf>>,
}

/// Looks at the prefix or the registry, and says in `report` how they are.
pub fn look(ui: &Ui, args: &DoctorArgs, report: &mut Report) -> Result<Place, Failure> {
    let own = if args.registry.is_some() { None } else { own_prefix() };
    let place = match (args.prefix.clone().or(own), &args.registry, args.root) {
        (Some(root), ..) => installed(ui, args, &plain(&root)?, report)?,
        (None, Some(registry), Some(root)) => {
            let scene = SceneArgs {
                registry: RegistryArgs { registry: registry.clone(), root, now: args.now },
                facts: args.facts.clone(),
                policy: args.policy.clone(),
                host_note: args.host_note.clone(),
            };
            let scene = Scene::gather(ui, &scene, None)?;
            Place { scene: Some(scene), library: args.library.clone(), logs: named(&args.log) }
        }
        _ => {
            let fix =
                "name a prefix with `--prefix`, or a registry with `--registry` and `--root`".to_owned();
            report.warn("prefix", "none was named, so no registry is asked", Fix::Do(fix));
            Place { scene: None, library: args.library.clone(), logs: named(&args.log) }
        }
    };
    if std::env::var_os("CAPGATE_DISABLE").is_some_and(|value| !value.is_empty()) {
        let fix = "unset it: programs that are started from here stay stock".to_owned();
        report.warn("environment", "`CAPGATE_DISABLE` is set", Fix::Do(fix));
    }
    if let Some(scene) = &place.scene {
        check_registry(scene, report);
        check_site(scene, report);
        check_host(scene, report);
    }
    Ok(place)
}

fn named(logs: &[PathBuf]) -> Option<Vec<PathBuf>> {
    (!logs.is_empty()).then(|| logs.to_vec())
}

fn installed(ui: &Ui, args: &DoctorArgs, root: &Path, report: &mut Report) -> Result<Place, Failure> {
    let now = clock::now(args.now);
    let prefix = Prefix::at(root);
    let state = State::read(prefix.as_ref(), now);
    let mut facts = match &args.facts {
        Some(path) => facts_file(ui, path)?,
        None => facts::of_machine(unknown_program()),
    };
    facts.program = unknown_program();
    let mut library = args.library.clone();
    let mut logs = named(&args.log);
    match &prefix {
        Err(e) => mend("prefix", root, Some(unusable(e)), "", report),
        Ok(prefix) => {
            let own = prefix.library();
            let fault = Prefix::at(&prefix.root().join(STATE)).err();
            let fault = fault.or(check_library(library.as_ref().unwrap_or(&own)).err());
            let sound = format!("`{}` and its library are safe to use", root.display());
            mend("prefix", root, fault.as_ref().map(unusable), &sound, report);
            let log = prefix.log(system::user());
            let to = log.as_ref().map(|path| format!("decisions go to `{}`", path.display()));
            mend("log", root, log.as_ref().err().map(unusable), &to.unwrap_or_default(), report);
            library = library.or(Some(own));
            let found = || file::in_folder(&prefix.root().join("var/log/capgate"), "jsonl");
            logs = logs.or_else(|| Some(found()));
        }
    }
    let scene = Scene {
        registry: state.registry,
        site: state.site,
        facts,
        host: state.host,
        program: None,
        now,
        seen: state.seen,
    };
    Ok(Place { scene: Some(scene), library, logs })
}

/// Says that a part is sound, or what is wrong with it and which command mends it.
fn mend(name: &'static str, root: &Path, fault: Option<Failure>, sound: &str, report: &mut Report) {
    match fault {
        None => report.ok(name, sound),
        Some(Failure { message, help, .. }) => {
            let fix = help.unwrap_or_else(|| {
                format!(
                    "capgate install {} --root sha256:…, with the digest that its publishers give",
                    quoted(root)
                )
            });
            report.fail(name, message, Fix::Do(fix));
        }
    }
}

fn check_registry(scene: &Scene, report: &mut Report) {
    const NAME: &str = "registry";
    match &scene.registry {
        Err(doubt) => {
            let advice = Reason::from_code(doubt.code()).map_or("fetch it again", |reason| reason.advice());
            report.fail(NAME, doubt.to_string(), Fix::Do(advice.to_owned()));
        }
        Ok(reader) => {
            let latest = reader.latest();
            let message = format!(
                "`{}`, version {}, until {}",
                reader.chain().origin(),
                latest.version,
                latest.expires
            );
            if latest.nearly_expired(scene.now) {
                let fix = "its maintainer runs `capgate renew`, and then this machine fetches it again";
                report.warn(NAME, message, Fix::Do(fix.to_owned()));
            } else {
                report.ok(NAME, message);
            }
        }
    }
}

fn check_site(scene: &Scene, report: &mut Report) {
    const NAME: &str = "site policy";
    match &scene.site {
        Err(doubt) => {
            let fix = "`capgate policy check` names every problem of it".to_owned();
            report.fail(NAME, doubt.to_string(), Fix::Do(fix));
        }
        Ok(Some(site)) => match site.mode {
            Mode::Enforce => report.ok(NAME, "it is understood"),
            Mode::Observe => {
                let fix = Reason::Observed.advice().to_owned();
                report.warn(
                    NAME,
                    "`mode = \"observe\"`: decisions are logged, and every program stays stock",
                    Fix::Do(fix),
                );
            }
            Mode::Off => {
                let fix = "set `mode = \"enforce\"`, or leave it away".to_owned();
                report.fail(NAME, "`mode = \"off\"`: every program stays stock", Fix::Do(fix));
            }
        },
        Ok(None) => {
            let fix = "write one with `host_keys`: without a key no host statement counts".to_owned();
            report.warn(NAME, "there is none", Fix::Do(fix));
        }
    }
}

fn check_host(scene: &Scene, report: &mut Report) {
    const NAME: &str = "host statement";
    let Source::Machine { mac_addresses, .. } = &scene.facts.source else {
        return report.ok(NAME, "the facts file stands in for the host statement");
    };
    let judged = scene.host.signed().and_then(|statement| {
        statement.check_time(scene.now)?;
        if let Fact::Known(chip) = &scene.facts.host_chip {
            statement.check_chip(chip)?;
        }
        statement.check_guest(mac_addresses)
    });
    match (judged, &scene.host) {
        (Ok(()), HostState::Signed(statement)) => {
            let message = format!("{} {}, until {}", statement.chip, statement.os.build, statement.expires);
            if nearly_expired(statement.issued, statement.expires, scene.now) {
                let fix =
                    "see that `capgate host attest --watch` runs on the host, and fetch its statement again";
                report.warn(NAME, message, Fix::Do(fix.to_owned()));
            } else {
                report.ok(NAME, message);
            }
        }
        (Err(refusal), _) => {
            let message = format!("{}: {}", refusal.reason, refusal.detail);
            report.fail(NAME, message, Fix::Do(refusal.reason.advice().to_owned()));
        }
        (Ok(()), _) => {}
    }
}
