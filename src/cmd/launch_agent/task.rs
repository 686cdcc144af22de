//! From the command line to an agent: what it starts must exist, be named from the root on, and be able to run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Parser;

use super::place::Place;
use crate::agents::{Agent, Task};
use crate::cli::{AgentNameArgs, AgentTaskArgs, Cli, Command, HostCommand, KeyArg};
use crate::cmd::{keys, prefix};
use crate::exit::Failure;
use crate::ui::Ui;

/// The agent that is wanted and its place; `None` where the command line names nothing to start.
pub fn wanted(name: &AgentNameArgs, args: &AgentTaskArgs) -> Result<Option<(Agent, Place)>, Failure> {
    let Some((task, otherwise)) = task(args)? else { return Ok(None) };
    let place = Place::new(name, otherwise.as_deref())?;
    let logs = match &args.logs {
        Some(logs) => prefix::plain(logs)?,
        None => match std::env::home_dir() {
            Some(home) if home.is_absolute() => home.join("Library/Logs/capgate"),
            _ => {
                return Err(
                    Failure::failed("the home folder of this user is not known").help("give `--logs DIR`")
                );
            }
        },
    };
    let log = |end: &str| text(&logs.join(format!("{}.{end}.log", place.label)));
    let agent = Agent {
        label: place.label.clone(),
        capgate: text(&capgate(args)?)?,
        keep_alive: args.keep_alive || !matches!(task, Task::Program(_)),
        task,
        out: log("out")?,
        err: log("err")?,
    };
    Ok(Some((agent, place)))
}

/// What is started, and the agent's name where none was given.
fn task(args: &AgentTaskArgs) -> Result<Option<(Task, Option<String>)>, Failure> {
    let words = args.words.clone();
    if args.sync {
        let words = sync_words(words, args.prefix.as_deref())?;
        return Ok(Some((Task::Sync(words), Some("sync".to_owned()))));
    }
    if args.host_attest {
        check_attest(&words)?;
        return Ok(Some((Task::HostAttest(words), Some("host-attest".to_owned()))));
    }
    let Some(program) = words.first() else { return Ok(None) };
    let path = Path::new(program);
    if !path.is_absolute() {
        return Err(Failure::usage(format!("the program `{program}` is not an absolute path"))
            .help("launchd knows neither this folder nor your PATH; give the path from `/` on"));
    }
    refuse_unless_runs(path, "program")?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Some((Task::Program(words), name.as_deref().and_then(as_name))))
}

/// The name of a program as a part of a label.
fn as_name(text: &str) -> Option<String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let name: String = text.chars().take(100).map(letter).collect();
    (!name.is_empty()).then_some(name)
}

/// The path of a program that there is and that may be run.
pub fn refuse_unless_runs(path: &Path, what: &str) -> Result<(), Failure> {
    let shown = path.display();
    let metadata = fs::metadata(path)
        .map_err(|e| Failure::failed(format!("the {what} `{shown}` cannot be started: {e}")))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(Failure::failed(format!(
            "the {what} `{shown}` cannot be started: it is no executable file"
        )));
    }
    Ok(())
}

/// `bin/capgate` of the prefix, or the program that runs as this process.
fn capgate(args: &AgentTaskArgs) -> Result<PathBuf, Failure> {
    let path = match &args.prefix {
        Some(prefix) => prefix::plain(prefix)?.join("bin/capgate"),
        None => {
            let own = std::env::current_exe().and_then(fs::canonicalize);
            own.map_err(|e| Failure::failed(format!("where this program lies is not known: {e}")))?
        }
    };
    if path.file_name().is_none_or(|name| name != "capgate") {
        let message =
            format!("this program is `{}`, and an agent starts one named `capgate`", path.display());
        return Err(Failure::failed(message).help("give `--prefix DIR`"));
    }
    let failure = refuse_unless_runs(&path, "command");
    failure
        .map_err(|failure| failure.help("give the prefix that `capgate install` made with `--prefix DIR`"))?;
    Ok(path)
}

/// Reads the arguments as the command itself will, so that a slip is found before launchd repeats it for ever.
fn parsed(start: &[&str], words: &[String], help: &str) -> Result<Command, Failure> {
    let all = ["capgate"].iter().chain(start).chain(&["--watch"]).map(OsString::from);
    let parsed = Cli::try_parse_from(all.chain(words.iter().map(OsString::from)));
    parsed.map(|cli| cli.command).map_err(|e| {
        let text = e.to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text);
        let message = message.split("\n\nUsage").next().unwrap_or(message);
        Failure::usage(format!("`capgate {}` would refuse its arguments: {message}", start.join(" ")))
            .help(help)
    })
}

/// The arguments of `sync`: the prefix whose command is started is the one that follows, unless they say otherwise.
fn sync_words(mut words: Vec<String>, prefix: Option<&Path>) -> Result<Vec<String>, Failure> {
    let named = |word: &String| word == "--to" || word.starts_with("--to=") || word.starts_with("--prefix");
    if let Some(prefix) = prefix.filter(|_| !words.iter().any(named)) {
        words.extend(["--prefix".to_owned(), text(&prefix::plain(prefix)?)?]);
    }
    let help = "give them behind `--`: capgate launch-agent write --sync --prefix PREFIX -- URL";
    let Command::Sync(args) = parsed(&["sync"], &words, help)? else {
        return Err(Failure::usage("these are no arguments of `capgate sync`"));
    };
    let source = Path::new(&args.source);
    if !args.source.contains("://") && !source.is_absolute() {
        let message = format!("the source `{}` is neither a URL nor an absolute path", args.source);
        return Err(
            Failure::usage(message).help("launchd does not know this folder; give the path from `/` on")
        );
    }
    for (option, path) in [("--prefix", &args.prefix), ("--to", &args.to)] {
        path.iter().try_for_each(|path| refuse_relative(option, path))?;
    }
    Ok(words)
}

fn refuse_relative(option: &str, path: &Path) -> Result<(), Failure> {
    if path.is_absolute() {
        return Ok(());
    }
    let message = format!("`{option} {}` is not an absolute path", path.display());
    Err(Failure::usage(message).help("launchd does not know this folder; give the path from `/` on"))
}

fn check_attest(words: &[String]) -> Result<(), Failure> {
    let help = "give them behind `--`: capgate launch-agent write --host-attest -- --key FILE …";
    let Command::Host(HostCommand::Attest(args)) = parsed(&["host", "attest"], words, help)? else {
        return Err(Failure::usage("these are no arguments of `capgate host attest`"));
    };
    if let KeyArg::File(path) = &args.key {
        refuse_relative("--key", path)?;
    }
    refuse_relative("--out", &args.out)?;
    keys::read(&args.key, &[]).map(drop)
}

/// A path as the text that stands in a property list.
fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// Says what would keep it from working although it can be written.
pub fn warn(ui: &Ui, agent: &Agent) {
    let prefix = Path::new(&agent.capgate).parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let state = prefix.join("etc/capgate");
    let Ok(metadata) = fs::metadata(&state) else {
        // A host signs statements without being anybody's guest.
        if !matches!(agent.task, Task::HostAttest(_)) {
            ui.warn(format!(
                "`{}` is in no prefix that `capgate install` made, so nothing can be granted; name one with `--prefix DIR`",
                agent.capgate
            ));
        }
        return;
    };
    let own = rustix::process::getuid().as_raw();
    if matches!(agent.task, Task::Sync(_)) && metadata.uid() != own {
        ui.warn(format!(
            "`{}` belongs to user {}, so an agent of user {own} cannot write it; \
             as root, use `--agents /Library/LaunchDaemons`",
            state.display(),
            metadata.uid()
        ));
    }
}
