//! Keys in the ssh-agent: which one is meant, and what to do where it is not there.

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_ssh::agent::{AnswerError, Identity};

use crate::exit::Failure;
use crate::world::agent::{Agent, AgentError, HeldKey};

/// What a key signs before it is named. It is nothing that any role signs.
const TRIAL: &[u8] = b"# capgate trial v1\nthis shows that a key is held, and says nothing\n";
/// Most keys that an error names.
const SHOWN: usize = 8;

/// The key of that name among those that are known here.
pub fn named(name: &str, known: &[VerifierKey]) -> Result<SigningKey, Failure> {
    if known.is_empty() {
        let message = format!("which key `agent:{name}` is cannot be known here");
        return Err(Failure::usage(message).help(format!(
            "give the whole public key, `agent:{name}+HASH+BASE64`, as `capgate keygen {name} --agent COMMENT` prints it"
        )));
    }
    let meant: Vec<VerifierKey> = known.iter().filter(|key| key.name() == name).cloned().collect();
    if meant.is_empty() {
        let names: Vec<String> = known.iter().map(|key| format!("`{}`", key.name())).collect();
        return Err(Failure::failed(format!("no key that may sign here is named `{name}`"))
            .help(format!("those that may are {}", names.join(", "))));
    }
    one_of(&meant)
}

/// The one among these keys that the agent holds.
pub fn one_of(meant: &[VerifierKey]) -> Result<SigningKey, Failure> {
    let agent = agent()?;
    let held = identities(&agent)?;
    let is_held = |key: &&VerifierKey| held.iter().any(|one| one.public.as_ref() == Some(key.public()));
    let mut found = meant.iter().filter(is_held);
    let Some(key) = found.next() else { return Err(not_held(meant, &held)) };
    if found.next().is_some() {
        let message = format!("the ssh-agent holds several keys named `{}`", key.name());
        return Err(Failure::failed(message).help(format!("say which: `agent:{key}`")));
    }
    let public = *key.public();
    Ok(SigningKey::elsewhere(key.clone(), Box::new(HeldKey { agent, public })))
}

/// Gives a name to the key with that comment or fingerprint.
pub fn name_it(name: &str, which: &str) -> Result<VerifierKey, Failure> {
    let agent = agent()?;
    let held = identities(&agent)?;
    let found: Vec<&Identity> =
        held.iter().filter(|one| one.comment == which || one.fingerprint == which).collect();
    let one = match found.as_slice() {
        [one] => one,
        [] => {
            let message = format!("no key in the ssh-agent has the comment or fingerprint `{which}`");
            return Err(Failure::failed(message).help(list(&held)));
        }
        several => {
            let prints: Vec<&str> = several.iter().map(|one| one.fingerprint.as_str()).collect();
            let message = format!("several keys in the ssh-agent have the comment `{which}`");
            return Err(Failure::failed(message).help(format!("say which: {}", prints.join(" or "))));
        }
    };
    let Some(public) = &one.public else {
        let message =
            format!("the key `{which}` is a `{}` key, only `ssh-ed25519` is accepted", cut(&one.kind));
        return Err(Failure::failed(message).help("make one: ssh-keygen -t ed25519"));
    };
    let key = VerifierKey::new(name, public).map_err(|e| Failure::usage(e.to_string()))?;
    let held = HeldKey { agent, public: *public };
    // A comment is what somebody wrote there: only a signature shows that the private half is in reach.
    SigningKey::elsewhere(key.clone(), Box::new(held))
        .sign(TRIAL)
        .map_err(|e| Failure::failed(format!("the key `{which}` does not sign: {e}")))?;
    Ok(key)
}

fn agent() -> Result<Agent, Failure> {
    Agent::of_environment().map_err(|e| useless(&e))
}

/// What the agent holds; nothing at all is an error, since what is looked for cannot be there.
fn identities(agent: &Agent) -> Result<Vec<Identity>, Failure> {
    let held = agent.identities().map_err(|e| useless(&e))?;
    if held.is_empty() {
        let message = format!(
            "the ssh-agent at `{}` shows no key: it holds none, or it is locked",
            agent.socket().display()
        );
        return Err(
            Failure::failed(message).help("`ssh-add FILE` puts a key into it, `ssh-add -X` unlocks it")
        );
    }
    Ok(held)
}

fn useless(error: &AgentError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        AgentError::Unset => failure.help("start one: eval \"$(ssh-agent)\", then ssh-add FILE"),
        AgentError::Connect { .. } => {
            failure.help("the agent has ended, or SSH_AUTH_SOCK is left from another login")
        }
        AgentError::Answer { source: AnswerError::Refused, .. } => {
            failure.help("it may be locked: unlock it with `ssh-add -X`")
        }
        AgentError::Silent { .. } | AgentError::Broken { .. } | AgentError::Answer { .. } => failure,
    }
}

fn not_held(meant: &[VerifierKey], held: &[Identity]) -> Failure {
    let keys: Vec<String> = meant
        .iter()
        .map(|key| {
            format!("`{}` ({})", key.name(), capgate_ssh::fingerprint(&capgate_ssh::blob(key.public())))
        })
        .collect();
    Failure::failed(format!("the ssh-agent does not hold the key {}", keys.join(" or "))).help(list(held))
}

fn list(held: &[Identity]) -> String {
    let shown = held
        .iter()
        .take(SHOWN)
        .map(|one| format!("{} `{}` ({})", one.fingerprint, cut(&one.comment), cut(&one.kind)));
    let mut text = format!("it holds {}", shown.collect::<Vec<_>>().join(", "));
    if held.len() > SHOWN {
        text += &format!(" and {} more", held.len() - SHOWN);
    }
    text
}

/// Free text of somebody else, as far as an error shows it.
fn cut(text: &str) -> String {
    text.chars().take(64).collect::<String>().escape_debug().to_string()
}
