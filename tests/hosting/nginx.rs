//! nginx, with the configuration that docs/operations.md gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, free_port};

/// The part of the document that is tried here.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");

/// nginx where this machine has it. A test without it says so and ends; in `cargo xtask test` it is always there.
pub fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("nginx")).find(|path| path.is_file());
    if found.is_none() {
        println!("left out: nginx is not installed (Debian: nginx-light)");
    }
    found
}

/// A certificate and its key.
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Serves `folder` as the document says, encrypted where a certificate is given; `own` is for nginx' own files.
pub fn serve(program: &Path, folder: &Path, own: &Path, pair: Option<&Pair>) -> Server {
    let port = free_port();
    fs::create_dir_all(own).unwrap();
    let own = own.to_str().unwrap();
    let server = documented(folder, port, pair);
    // One process, so that killing it kills the server; everything that it writes in a folder of its own.
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {own}/{kind};\n"))
        .collect();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {own}/pid;\nerror_log stderr;\nevents {{ worker_connections 512; }}\n\
         http {{\n    access_log {own}/access;\n{temporary}{server}\n}}\n"
    );
    let config = format!("{own}/nginx.conf");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p", own, "-c", &config]);
    Server::start(command, port, PathBuf::from(format!("{own}/log")))
}

/// The `server` block of the document, with this machine's addresses in it.
fn documented(folder: &Path, port: u16, pair: Option<&Pair>) -> String {
    let text = fs::read_to_string(DOCUMENT).unwrap();
    let block = text.split_once("```nginx\n").unwrap().1.split_once("```").unwrap().0;
    let mut lines = Vec::new();
    for line in block.lines() {
        let indent = " ".repeat(line.len() - line.trim_start().len());
        let mut words = line.split_whitespace();
        let own = match (words.next(), pair) {
            (Some("listen"), Some(_)) => format!("listen 127.0.0.1:{port} ssl;"),
            (Some("listen"), None) => format!("listen 127.0.0.1:{port};"),
            (Some("server_name"), _) => "server_name localhost;".to_owned(),
            (Some("root"), _) => format!("root {};", folder.display()),
            (Some("ssl_certificate"), Some(pair)) => {
                format!("ssl_certificate {};", pair.certificate.display())
            }
            (Some("ssl_certificate_key"), Some(pair)) => {
                format!("ssl_certificate_key {};", pair.key.display())
            }
            (Some("ssl_certificate" | "ssl_certificate_key"), None) => continue,
            _ => line.trim_start().to_owned(),
        };
        lines.push(format!("{indent}{own}"));
    }
    let block = lines.join("\n");
    for word in ["listen", "server_name", "root"] {
        assert_eq!(block.matches(&format!("{word} ")).count(), 1, "`{word}` in {block}");
    }
    block
}
