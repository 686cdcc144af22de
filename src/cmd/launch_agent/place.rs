//! Which file an agent is, and the commands by which launchd takes it and lets it go.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::agents::{Agent, Folders, Found, LABELS};
use crate::cli::AgentNameArgs;
use crate::cmd::prefix::quoted;
use crate::exit::Failure;

/// An agent's label and file.
#[derive(Debug)]
pub struct Place {
    pub label: String,
    pub file: PathBuf,
    pub folders: Folders,
}

impl Place {
    /// By the name that was given, or else by that of what it starts.
    pub fn new(args: &AgentNameArgs, otherwise: Option<&str>) -> Result<Self, Failure> {
        let named = args.name.as_deref().or(otherwise).map(|name| format!("{LABELS}{name}"));
        let Some(label) = args.label.clone().or(named) else {
            return Err(
                Failure::usage("which agent is not said").help("give `--name NAME` or `--label LABEL`")
            );
        };
        let Some(folders) = Folders::new(args.agents.as_deref()) else {
            return Err(
                Failure::failed("the home folder of this user is not known").help("give `--agents DIR`")
            );
        };
        let folder = folders.all.first().cloned().unwrap_or_default();
        Ok(Self { file: folder.join(format!("{label}.plist")), label, folders })
    }

    /// The folder that the file is in.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }

    /// What is there: nothing, or an agent of ours. Anybody else's is an error, and so is what cannot be read.
    pub fn ours(&self) -> Result<Option<(Agent, plist::Value)>, Failure> {
        let shown = self.file.display();
        let foreign = |why: &str| {
            Failure::failed(format!("`{shown}` {why}, so it is not touched"))
                .help("choose another label with `--name` or `--label`")
        };
        match Found::read(&self.file) {
            Found::Nothing => Ok(None),
            Found::Other(why) => Err(foreign(&why)),
            Found::List(value) => match Agent::recognise(&value) {
                Some(agent) if agent.label == self.label => Ok(Some((agent, value))),
                Some(_) => Err(foreign("has another label than its name says")),
                None => Err(foreign("starts something else than `capgate run`, `sync` or `host attest`")),
            },
        }
    }

    /// Permission bits of the file, where there is one.
    pub fn mode(&self) -> Option<u32> {
        fs::symlink_metadata(&self.file).ok().map(|metadata| metadata.mode() & 0o7777)
    }

    /// Refuses where another file has the label: launchd would take only one of the two.
    pub fn refuse_double(&self) -> Result<(), Failure> {
        match self.folders.other_with(&self.label, &self.file) {
            Ok(None) => Ok(()),
            Ok(Some(other)) => Err(Failure::failed(format!(
                "the label `{}` is already used by `{}`",
                self.label,
                other.display()
            ))
            .help("choose another label with `--name` or `--label`")),
            Err((folder, e)) => Err(unreadable(&folder, &e)),
        }
    }

    /// How launchd is told to take the agent.
    pub fn bootstrap(&self) -> String {
        format!("{} {}", self.launchctl("bootstrap"), quoted(&self.file))
    }

    /// How launchd is told to let it go.
    pub fn bootout(&self) -> String {
        format!("{}/{}", self.launchctl("bootout"), self.label)
    }

    fn launchctl(&self, verb: &str) -> String {
        if self.folder().ends_with("LaunchDaemons") {
            return format!("sudo launchctl {verb} system");
        }
        format!("launchctl {verb} gui/{}", rustix::process::getuid().as_raw())
    }
}

/// A folder of agents that cannot be read.
pub fn unreadable(folder: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("the folder `{}` cannot be read: {error}", folder.display()))
}
