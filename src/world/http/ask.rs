//! One request to a web server, with a deadline and a cap on what is read.

use std::time::Duration;

use ureq::Agent;

use crate::world::tls;

/// How long a whole request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks web servers.
pub struct Asker {
    agent: Agent,
}

/// What a server said, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Its `Content-Type`.
    pub kind: String,
    /// At most as many bytes as were accepted.
    pub body: Vec<u8>,
}

impl Default for Asker {
    /// One that follows no redirection: who was named is who is asked.
    fn default() -> Self {
        let config = Agent::config_builder()
            .tls_config(tls::config(Vec::new()))
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("capgate/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent() }
    }
}

impl Asker {
    /// Sends `body` with POST and reads at most `cap` bytes of the answer; more are an error. An error is in words.
    pub fn post(&self, url: &str, body: &[u8], cap: usize) -> Result<Answer, String> {
        let sent = self.agent.post(url).content_type("text/plain; charset=utf-8").send(body);
        let mut response = sent.map_err(|e| e.to_string())?;
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let limit = u64::try_from(cap).unwrap_or(u64::MAX);
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(|e| e.to_string())?;
        Ok(Answer { status: response.status().as_u16(), kind, body })
    }
}
