//! A server of the tests' own: a process on a port of this machine that is ended by its id.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// A server that can be killed and started again.
pub struct Server {
    command: Command,
    child: Child,
    log: PathBuf,
    pub port: u16,
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts it and waits until it listens; what it says goes to `log`.
    pub fn start(mut command: Command, port: u16, log: PathBuf) -> Self {
        let child = spawn(&mut command, &log);
        let mut server = Self { command, child, log, port };
        server.wait();
        server
    }

    /// As a power cut would.
    pub fn kill(&mut self) {
        // One that ended by itself already needs no end.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    pub fn start_again(&mut self) {
        self.child = spawn(&mut self.command, &self.log);
        self.wait();
    }

    fn wait(&mut self) {
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.child.try_wait().unwrap();
            let said = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none(), "the server ended with {ended:?}: {}", said());
            assert!(start.elapsed() < START, "the server does not listen: {}", said());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &mut Command, log: &PathBuf) -> Child {
    let log = fs::File::options().create(true).append(true).open(log).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
