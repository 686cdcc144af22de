//! Launch agents: what one of ours says, how it is recognised, and where others lie.
//!
//! An agent never sets a variable. It starts `capgate`, which decides and then starts the program, so that a program
//! whose profile was revoked yesterday starts stock today.

mod differ;
mod find;

use plist::{Dictionary, Value};

pub use differ::differences;
pub use find::{Folders, Found, naming};

/// What begins the label of every agent that has a name.
pub const LABELS: &str = "org.capgate.";
/// How long a program waits at login for statement and registry, in seconds.
const WAIT: &str = "60";

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// A program, through `capgate run`.
    Program(Vec<String>),
    /// `capgate sync --watch` with more arguments.
    Sync(Vec<String>),
    /// `capgate host attest --watch` with more arguments.
    HostAttest(Vec<String>),
}

impl Task {
    const PROGRAM: [&str; 4] = ["run", "--wait", WAIT, "--"];
    const SYNC: [&str; 2] = ["sync", "--watch"];
    const HOST_ATTEST: [&str; 3] = ["host", "attest", "--watch"];

    fn words(&self) -> impl Iterator<Item = &str> {
        let (start, rest): (&[&str], &Vec<String>) = match self {
            Self::Program(words) => (&Self::PROGRAM, words),
            Self::Sync(words) => (&Self::SYNC, words),
            Self::HostAttest(words) => (&Self::HOST_ATTEST, words),
        };
        start.iter().copied().chain(rest.iter().map(String::as_str))
    }

    fn read(words: &[String]) -> Option<Self> {
        let behind = |start: &[&str]| {
            let (head, rest) = words.split_at_checked(start.len())?;
            (head == start).then(|| rest.to_vec())
        };
        behind(&Self::PROGRAM)
            .filter(|words| !words.is_empty())
            .map(Self::Program)
            .or_else(|| behind(&Self::SYNC).map(Self::Sync))
            .or_else(|| behind(&Self::HOST_ATTEST).map(Self::HostAttest))
    }
}

/// A launch agent of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its label, which is also the name of its file.
    pub label: String,
    /// Path of the `capgate` that it starts.
    pub capgate: String,
    /// What that starts or does.
    pub task: Task,
    /// Whether it is started again whenever it ends.
    pub keep_alive: bool,
    /// File for what it says on standard output.
    pub out: String,
    /// File for what it says on standard error.
    pub err: String,
}

impl Agent {
    /// The property list.
    pub fn value(&self) -> Value {
        let words = std::iter::once(self.capgate.as_str()).chain(self.task.words());
        let mut list = Dictionary::new();
        list.insert("Label".into(), self.label.as_str().into());
        list.insert("ProgramArguments".into(), Value::Array(words.map(Value::from).collect()));
        list.insert("RunAtLoad".into(), true.into());
        list.insert("KeepAlive".into(), self.keep_alive.into());
        // What watches may wait for everyone else. A workload must not be slowed down as a helper would be.
        let process = if matches!(self.task, Task::Program(_)) { "Interactive" } else { "Background" };
        list.insert("ProcessType".into(), process.into());
        list.insert("StandardOutPath".into(), self.out.as_str().into());
        list.insert("StandardErrorPath".into(), self.err.as_str().into());
        Value::Dictionary(list)
    }

    /// The file's text.
    pub fn to_xml(&self) -> Result<Vec<u8>, String> {
        const UNSAYABLE: &str = "holds a character that a property list cannot hold";
        let paths = [&self.label, &self.capgate, &self.out, &self.err].map(String::as_str);
        if !self.task.words().chain(paths).all(|text| text.chars().all(is_xml)) {
            return Err(UNSAYABLE.to_owned());
        }
        let value = self.value();
        let mut xml = Vec::new();
        value.to_writer_xml(&mut xml).map_err(|e| e.to_string())?;
        xml.push(b'\n');
        // Whatever the writer cannot say in XML must not become something else.
        match Value::from_reader_xml(xml.as_slice()) {
            Ok(read) if read == value => Ok(xml),
            _ => Err(UNSAYABLE.to_owned()),
        }
    }

    /// Recognises an agent of ours, whatever else stands in it.
    pub fn recognise(value: &Value) -> Option<Self> {
        let list = value.as_dictionary()?;
        let text = |key: &str| list.get(key).and_then(Value::as_string).map(str::to_owned);
        let words: Vec<String> = list
            .get("ProgramArguments")?
            .as_array()?
            .iter()
            .map(|word| word.as_string().map(str::to_owned))
            .collect::<Option<_>>()?;
        let (capgate, rest) = words.split_first()?;
        if !capgate.ends_with("/capgate") {
            return None;
        }
        Some(Self {
            label: text("Label")?,
            capgate: capgate.clone(),
            task: Task::read(rest)?,
            keep_alive: list.get("KeepAlive").and_then(Value::as_boolean).unwrap_or_default(),
            out: text("StandardOutPath").unwrap_or_default(),
            err: text("StandardErrorPath").unwrap_or_default(),
        })
    }
}

/// The characters of XML 1.0 that come back as they were written; a carriage return would come back as a line feed.
fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(task: Task) -> Agent {
        Agent {
            label: "org.capgate.llama".into(),
            capgate: "/opt/capgate/bin/capgate".into(),
            task,
            keep_alive: false,
            out: "/tmp/out".into(),
            err: "/tmp/err".into(),
        }
    }

    #[test]
    fn what_was_written_is_recognised() {
        let words = || vec!["/opt/a b".to_owned(), "--x=<&\"'>".to_owned(), String::new(), " é ".to_owned()];
        for task in [Task::Program(words()), Task::Sync(vec![]), Task::HostAttest(words())] {
            let agent = agent(task);
            let xml = agent.to_xml().unwrap();
            let read = Value::from_reader_xml(xml.as_slice()).unwrap();
            assert_eq!(Agent::recognise(&read), Some(agent));
        }
    }

    #[test]
    fn what_xml_cannot_say_is_refused() {
        for word in ["a\0b", "a\u{1}b", "a\u{ffff}b", "a\rb"] {
            let said = agent(Task::Program(vec![word.to_owned()])).to_xml();
            assert!(said.is_err(), "{word:?} {said:?}");
        }
    }

    #[test]
    fn others_are_not_ours() {
        let of = |words: &[&str]| {
            let mut list = Dictionary::new();
            list.insert("Label".into(), "a".into());
            list.insert(
                "ProgramArguments".into(),
                Value::Array(words.iter().map(|w| Value::from(*w)).collect()),
            );
            Agent::recognise(&Value::Dictionary(list))
        };
        assert!(of(&["/x/capgate", "sync", "--watch"]).is_some());
        for words in [
            &["/x/other", "sync", "--watch"][..],
            &["/x/capgate", "run", "--wait", "60", "--"],
            &["/x/capgate", "run", "/bin/ls"],
            &["/x/capgate"],
            &[],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
        assert_eq!(Agent::recognise(&Value::from("text")), None);
    }
}
