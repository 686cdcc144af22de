//! What is measured: the program, its words and its model, the machine, the arms; or the bundle that is gone on with.

use std::path::{Path, PathBuf};

use capgate_guest::identity::{self, FileIdentity};
use capgate_registry::combination::Hex;
use capgate_registry::evidence::bench::arguments::{self, Line};
use capgate_registry::evidence::bench::contention::LIMITS;
use capgate_registry::evidence::bench::label;
use capgate_registry::evidence::bench::machine::Machine;
use capgate_registry::evidence::bench::state::{Settings, State};
use capgate_registry::evidence::ladder;
use capgate_registry::evidence::manifest::Arm;
use capgate_registry::evidence::run_record::mask;
use capgate_registry::profile::Values;

use super::folder::Bundle;
use super::trial::Trials;
use super::{Bench, Tried, also, checks, from, machine};
use crate::cli::BenchArgs;
use crate::cmd::install;
use crate::cmd::run::program;
use crate::exit::{Exit, Failure};
use crate::ui::{Ui, progress};
use crate::world::{clock, file};

/// The version that begins a bundle.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Everything that is known before anything is measured.
struct Subject {
    program: PathBuf,
    settings: Settings,
    overrides: Vec<Values>,
    library: Option<PathBuf>,
    added_output: bool,
    others: Vec<also::Other>,
    checks: Vec<checks::Planned>,
    words: Vec<String>,
}

/// Begins a bundle, or goes on with one.
pub fn prepare<'a>(ui: &'a Ui, args: &'a BenchArgs) -> Result<Bench<'a>, Failure> {
    match &args.resume {
        Some(root) => resume(ui, args, root),
        None => begin(ui, args),
    }
}

fn begin<'a>(ui: &'a Ui, args: &'a BenchArgs) -> Result<Bench<'a>, Failure> {
    let out = args.out.as_deref().ok_or_else(|| Failure::usage("no folder is named with `--out`"))?;
    let followed = from::followed(ui, args)?;
    let subject = subject(args, &followed)?;
    let arms = arms(args, &subject.overrides)?;
    let machine = machine::read(ui, args, followed.as_ref())?;
    let tried = tried(subject.library.clone(), &machine)?;
    let bundle = Bundle::create(out)?;
    if subject.added_output {
        ui.hint("`-o json` is added: the other formats hold no samples");
    }
    let began = clock::now(None);
    let state = State::new(VERSION, began, subject.settings, &machine, &arms, LIMITS);
    bundle.save(&state)?;
    let Subject { program, words, others, checks, .. } = subject;
    Ok(Bench { ui, args, bundle, state, program, words, others, checks, tried })
}

fn arms(args: &BenchArgs, overrides: &[Values]) -> Result<Vec<Arm>, Failure> {
    if args.host {
        return Ok(vec![Arm::Host]);
    }
    let mut arms = vec![Arm::Stock];
    arms.extend(overrides.iter().map(|values| Arm::Override(*values)));
    arms.extend(args.cpu.then_some(Arm::Cpu));
    if arms.len() == 1 {
        return Err(Failure::usage("there is nothing to compare stock with")
            .help("add `--override FAMILY/MEMORY`, `--ladder`, `--from ID` or `--cpu`"));
    }
    Ok(arms)
}

/// The sets, each once: those of the profile that is followed, those that were named, those of the ladder.
fn overrides(args: &BenchArgs, followed: &Option<from::Followed>) -> Vec<Values> {
    let mut sets: Vec<Values> = Vec::new();
    let published = followed.iter().flat_map(|followed| followed.values.iter().copied());
    let named = args.overrides.iter().copied().chain(published.filter(|_| !args.host));
    for values in named.chain(ladder::sets().into_iter().filter(|_| args.ladder)) {
        if !sets.contains(&values) {
            sets.push(values);
        }
    }
    sets
}

fn subject(args: &BenchArgs, followed: &Option<from::Followed>) -> Result<Subject, Failure> {
    let (program, identity) = find_program(args)?;
    let mut words = args.program.iter().skip(1).cloned().collect::<Vec<_>>();
    if let Some(followed) = followed {
        followed.add_words(&mut words);
    }
    let line = command_line(&words)?;
    let model_sha256 = hash("the model", Path::new(&line.model))?;
    if let Some(followed) = followed {
        followed.check_model(&model_sha256)?;
    }
    let overrides = overrides(args, followed);
    let others = others(args, &line.model, !overrides.is_empty())?;
    let checks = checks::find(args, &line.model, &program)?;
    let library = if overrides.is_empty() { None } else { Some(library(args)?) };
    let shim_sha256 = library.as_deref().map(|path| hash("the library", path)).transpose()?;
    let settings = Settings {
        program: name_of(&program),
        program_sha256: identity.sha256.to_string(),
        program_cdhash: identity.own_cdhash().map(|hash| hash.to_string()),
        model: name_of(Path::new(&line.model)),
        words: mask::arguments(&line.words).0,
        model_sha256,
        shim_sha256,
        rounds: args.rounds.into(),
        timeout: args.timeout.into(),
        from: args.from.clone(),
        source: args.source.clone(),
        ladder: args.ladder,
        readings: args.readings.as_ref().map(|path| path.display().to_string()),
    };
    Ok(Subject {
        program,
        settings,
        overrides,
        library,
        added_output: line.added_output,
        others,
        checks,
        words: line.words,
    })
}

fn others(args: &BenchArgs, model: &str, has_overrides: bool) -> Result<Vec<also::Other>, Failure> {
    if !args.also.is_empty() && !has_overrides {
        return Err(Failure::usage("`--also` has no values to be tried with")
            .help("add `--override FAMILY/MEMORY`, `--ladder` or `--from ID`"));
    }
    also::find(&args.also, model)
}

fn find_program(args: &BenchArgs) -> Result<(PathBuf, FileIdentity), Failure> {
    let name = args.program.first().ok_or_else(|| Failure::usage("no program was given"))?;
    let failed = |failure: Failure| Failure { exit: Exit::Failed, ..failure };
    let found = program::find(name.as_ref()).map_err(failed)?;
    let identity = identity::of_file(&found.identified)
        .map_err(|e| Failure::failed(format!("`{}` {e}", found.identified.display())))?;
    Ok((found.path, identity))
}

fn command_line(words: &[String]) -> Result<Line, Failure> {
    arguments::prepare(words).map_err(|unfit| Failure::usage(unfit.message).help(unfit.help))
}

fn library(args: &BenchArgs) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let own = own.map_err(|e| Failure::failed(format!("where this program lies is not known: {e}")))?;
    install::library(args.library.as_deref(), &own)
}

fn hash(what: &str, path: &Path) -> Result<String, Failure> {
    let unreadable = |e| Failure::failed(format!("{what} `{}` cannot be read: {e}", path.display()));
    let size = path.metadata().map_err(unreadable)?.len();
    let bar = progress::bytes("hashing", size);
    let digest = file::sha256(path, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    digest.map(|digest| Hex(digest).to_string()).map_err(unreadable)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// What trials need, where there are any.
fn tried(library: Option<PathBuf>, machine: &Machine) -> Result<Option<Tried>, Failure> {
    let Some(library) = library else { return Ok(None) };
    let host = machine.host.clone().ok_or_else(machine::no_host)?;
    let guest = machine.guest.as_ref();
    let stock = (
        guest.and_then(|guest| guest.stock_family).or(Some(1005)),
        guest.and_then(|guest| guest.stock_memory).unwrap_or(32_768),
    );
    Ok(Some(Tried { trials: Trials::open()?, library, host, identity: None, stock }))
}

fn resume<'a>(ui: &'a Ui, args: &'a BenchArgs, root: &Path) -> Result<Bench<'a>, Failure> {
    let (bundle, state) = Bundle::resume(root)?;
    let (program, identity) = find_program(args)?;
    let words = args.program.iter().skip(1).cloned().collect::<Vec<_>>();
    // What a followed profile added is in the bundle; the words that were typed need not be.
    let typed = command_line(&words)?;
    let settings = &state.settings;
    let mut changed = Vec::new();
    let mut compare = |what: &str, before: &str, now: &str| {
        if before != now {
            changed.push(format!("{what}: `{before}` before, `{now}` now"));
        }
    };
    compare("program", &settings.program, &name_of(&program));
    compare("program's SHA-256", &settings.program_sha256, &identity.sha256.to_string());
    // A secret stands in no bundle, so what was typed is held against it without one.
    let shown = mask::arguments(&typed.words).0;
    let words = if settings.from.is_some() && shown.iter().all(|word| settings.words.contains(word)) {
        settings.words.clone()
    } else {
        compare("arguments", &settings.words.join(" "), &shown.join(" "));
        typed.words
    };
    compare("model's SHA-256", &settings.model_sha256, &hash("the model", Path::new(&typed.model))?);
    let machine = state.known_machine().map_err(|e| Failure::invalid(format!("the bundle {e}")))?;
    let here = machine::builds(args);
    let builds = [
        ("host's build", machine.host.as_ref().map(|host| &host.os)),
        ("guest's build", machine.guest.as_ref().map(|guest| &guest.os)),
    ];
    for ((what, before), now) in builds.into_iter().zip(here) {
        if let (Some(before), Some(now)) = (before, now) {
            compare(what, before.build.as_str(), &now);
        }
    }
    let has_overrides = state.arms.iter().any(|name| matches!(label::arm(name), Some(Arm::Override(_))));
    let library = if has_overrides { Some(library(args)?) } else { None };
    if let (Some(before), Some(library)) = (&settings.shim_sha256, &library) {
        compare("library's SHA-256", before, &hash("the library", library)?);
    }
    if !changed.is_empty() {
        return Err(Failure::invalid(format!("this is no longer what was measured: {}", changed.join("; ")))
            .help("begin a new bundle: samples of two different things say nothing together"));
    }
    let others = others(args, &typed.model, has_overrides)?;
    let checks = checks::find(args, &typed.model, &program)?;
    let tried = tried(library, &machine)?;
    Ok(Bench { ui, args, bundle, state, program, words, others, checks, tried })
}
