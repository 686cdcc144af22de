//! The ssh-agent of this user: asked over its socket for one thing at a time, and believed in nothing.

use std::env;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capgate_registry::keys::Signer;
use capgate_ssh::agent::{self, AnswerError, Identity};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// The variable by which every program finds the agent.
const SOCKET: &str = "SSH_AUTH_SOCK";
/// How long the list of keys may take.
const FOR_LIST: Duration = Duration::from_secs(10);
/// How long a signature may take: somebody may have to confirm it.
const FOR_SIGNATURE: Duration = Duration::from_secs(120);

/// Says why the agent is of no use.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No agent is named.
    #[error("there is no ssh-agent: the variable {SOCKET} is not set")]
    Unset,
    /// Nothing listens there.
    #[error("no ssh-agent listens at `{}`: {source}", socket.display())]
    Connect {
        /// Its socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("the ssh-agent at `{}` did not answer within {} seconds", socket.display(), patience.as_secs_f32())]
    Silent {
        /// Its socket.
        socket: PathBuf,
        /// How long it had.
        patience: Duration,
    },
    /// It went away in the middle.
    #[error("the ssh-agent at `{}` broke off: {source}", socket.display())]
    Broken {
        /// Its socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its answer is no answer to what it was asked.
    #[error("the ssh-agent at `{}`: {source}", socket.display())]
    Answer {
        /// Its socket.
        socket: PathBuf,
        /// What is wrong with it.
        #[source]
        source: AnswerError,
    },
}

/// An agent, by its socket. Each question has a connection of its own, so that a broken one never spoils the next.
#[derive(Debug, Clone)]
pub struct Agent {
    socket: PathBuf,
    for_list: Duration,
    for_signature: Duration,
}

impl Agent {
    /// The one that the environment names.
    pub fn of_environment() -> Result<Self, AgentError> {
        match env::var_os(SOCKET) {
            Some(socket) if !socket.is_empty() => Ok(Self::at(Path::new(&socket))),
            _ => Err(AgentError::Unset),
        }
    }

    fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), for_list: FOR_LIST, for_signature: FOR_SIGNATURE }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The keys that it says it holds. One that is locked shows none.
    pub fn identities(&self) -> Result<Vec<Identity>, AgentError> {
        let answer = self.ask(&agent::request_identities(), self.for_list)?;
        agent::identities(&answer).map_err(|source| self.wrong(source))
    }

    /// A signature over exactly `message`; of it, only the form was checked.
    pub fn sign(&self, public: &[u8; 32], message: &[u8]) -> Result<[u8; 64], AgentError> {
        let request = agent::sign_request(public, message).map_err(|source| self.wrong(source))?;
        let answer = self.ask(&request, self.for_signature)?;
        agent::signature(&answer).map_err(|source| self.wrong(source))
    }

    fn ask(&self, request: &[u8], patience: Duration) -> Result<Vec<u8>, AgentError> {
        let socket = || self.socket.clone();
        let stream =
            connect(&self.socket).map_err(|source| AgentError::Connect { socket: socket(), source })?;
        let broken = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                AgentError::Silent { socket: socket(), patience }
            }
            _ => AgentError::Broken { socket: socket(), source },
        };
        let mut line = Line { stream, until: Instant::now() + patience };
        line.write_all(request).map_err(broken)?;
        let mut length = [0; 4];
        line.read_exact(&mut length).map_err(broken)?;
        let length = agent::answer_length(length).map_err(|source| self.wrong(source))?;
        let mut answer = vec![0; length];
        line.read_exact(&mut answer).map_err(broken)?;
        Ok(answer)
    }

    fn wrong(&self, source: AnswerError) -> AgentError {
        AgentError::Answer { socket: self.socket.clone(), source }
    }
}

/// A connection with one deadline for all that is said on it, so that an answer in single bytes is no way around it.
struct Line {
    stream: UnixStream,
    until: Instant,
}

impl Line {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        // The system takes no time at all for no limit.
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connects without waiting: one whose queue is full is stuck, and the standard library would wait for it without end.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let end = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&end, true)?;
    rustix::net::connect(&end, &address)?;
    rustix::io::ioctl_fionbio(&end, false)?;
    Ok(end.into())
}

/// A key in an agent.
#[derive(Debug)]
pub struct HeldKey {
    /// The agent.
    pub agent: Agent,
    /// The public bytes by which it knows the key.
    pub public: [u8; 32],
}

impl Signer for HeldKey {
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], String> {
        self.agent.sign(&self.public, message).map_err(|e| match e {
            AgentError::Answer { socket, source: AnswerError::Refused } => format!(
                "the ssh-agent at `{}` refuses; it was locked, it wants a confirmation that was not given, or \
                 the key may be used for some hosts only",
                socket.display()
            ),
            e => e.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
