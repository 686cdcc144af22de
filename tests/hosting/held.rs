//! One request that waits on its way, so that somebody else can be first.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long anybody waits for the other side.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum State {
    Expected,
    Here,
    Released,
}

/// Holds the first request of a method whose target ends so.
#[derive(Debug, Clone)]
pub struct Held {
    method: &'static str,
    end: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Held {
    pub fn new(method: &'static str, end: &str) -> Self {
        let state = Arc::new((Mutex::new(State::Expected), Condvar::new()));
        Self { method, end: end.to_owned(), state }
    }

    /// Waits until the request is here.
    pub fn wait(&self) {
        self.wait_while(&State::Expected);
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.set(State::Released);
    }

    /// Called with each request; returns when it may go on.
    pub fn meet(&self, method: &str, target: &str) {
        let is_first = *self.state.0.lock().unwrap() == State::Expected;
        if is_first && method == self.method && target.ends_with(&self.end) {
            self.set(State::Here);
            self.wait_while(&State::Here);
        }
    }

    fn set(&self, state: State) {
        *self.state.0.lock().unwrap() = state;
        self.state.1.notify_all();
    }

    fn wait_while(&self, state: &State) {
        let held = self.state.0.lock().unwrap();
        let (held, ended) = self.state.1.wait_timeout_while(held, PATIENCE, |now| now == state).unwrap();
        assert!(!ended.timed_out(), "still {:?}", *held);
    }
}
