//! Registries that are somewhere else: on a web server, in an object store, or in a folder all the same.

#[cfg(feature = "cloud")]
pub mod cloud;
pub mod http;
pub mod limits;
pub mod url;

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use capgate_registry::store::{Store, StoreError, StoreMut};

#[cfg(feature = "cloud")]
pub use self::cloud::CloudStore;
pub use self::http::HttpStore;
pub use self::limits::{Limits, Pace};
use self::url::Base;
use super::folder::Folder;
use crate::exit::Failure;

/// How a place is spoken to.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Certificates (PEM) of authorities beside the well-known ones.
    pub ca_file: Option<PathBuf>,
    /// What a server is given.
    pub limits: Limits,
}

/// Names a file of certificates (PEM).
const CA_FILE: &str = "CAPGATE_CA_FILE";
/// Seconds for which a server may say nothing.
const PATIENCE: &str = "CAPGATE_PATIENCE";

impl Options {
    /// What the environment says: `CAPGATE_CA_FILE`, and `CAPGATE_PATIENCE` in seconds.
    pub fn of_environment() -> Result<Self, Failure> {
        let limits = match env::var_os(PATIENCE) {
            None => Limits::default(),
            Some(text) => Limits::of_patience(patience(&text.to_string_lossy())?),
        };
        Ok(Self { ca_file: env::var_os(CA_FILE).map(PathBuf::from), limits })
    }
}

fn patience(text: &str) -> Result<Duration, Failure> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let seconds = digits.then(|| text.parse().ok()).flatten().filter(|seconds| (1..=3600).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| Failure::usage(format!("`{PATIENCE}={text}` is no number of seconds from 1 to 3600")))
}

/// A registry, wherever it is.
#[derive(Debug)]
pub enum Remote {
    /// In a folder: read and written, under a lock of its own.
    Folder(Folder),
    /// On a web server: read.
    Http(HttpStore),
    /// In an object store: read and written; its conditional puts keep writers apart.
    #[cfg(feature = "cloud")]
    Cloud(CloudStore),
}

impl Remote {
    /// What it holds.
    pub fn store(&self) -> &dyn Store {
        match self {
            Self::Folder(folder) => folder,
            Self::Http(http) => http,
            #[cfg(feature = "cloud")]
            Self::Cloud(cloud) => cloud,
        }
    }

    /// The same to be written; `None` where it can only be read.
    pub fn store_mut(&self) -> Option<&dyn StoreMut> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Http(_) => None,
            #[cfg(feature = "cloud")]
            Self::Cloud(cloud) => Some(cloud),
        }
    }
}

/// Opens the registry at a path, or at a URL. Nothing is read or asked yet.
pub fn open(url: &str, options: &Options) -> Result<Remote, Failure> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Ok(Remote::Folder(Folder::new(url)));
    };
    match scheme {
        "file" => file(url, rest),
        "http" | "https" => web(url, options),
        "s3" | "gs" | "az" => cloud(url, options),
        _ => Err(Failure::usage(format!("`{scheme}` is no way to a registry that is known here")).help(
            "give a folder, or a URL that begins with file://, https://, http://, s3://, gs:// or az://",
        )),
    }
}

fn file(url: &str, rest: &str) -> Result<Remote, Failure> {
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Failure::usage(format!("`{url}` names a folder on another machine"))
            .help("a URL of a folder here has three slashes: file:///srv/registry"));
    }
    Ok(Remote::Folder(Folder::new(path)))
}

fn web(url: &str, options: &Options) -> Result<Remote, Failure> {
    let base = Base::parse(url).map_err(|why| Failure::usage(format!("the address `{url}` {why}")))?;
    let store = HttpStore::new(base, options.ca_file.as_deref(), options.limits);
    store.map(Remote::Http).map_err(|e| unusable_authorities(options, &e))
}

fn unusable_authorities(options: &Options, error: &io::Error) -> Failure {
    let path = options.ca_file.as_deref().unwrap_or_else(|| "".as_ref());
    Failure::failed(format!("the certificates in `{}` cannot be used: {error}", path.display()))
}

#[cfg(not(feature = "cloud"))]
fn cloud(url: &str, _: &Options) -> Result<Remote, Failure> {
    Err(Failure::usage(format!(
        "`{url}`: this capgate was built without the feature `cloud`, which object stores need"
    ))
    .help("build it with `cargo install --path . --features cloud`"))
}

#[cfg(feature = "cloud")]
fn cloud(url: &str, options: &Options) -> Result<Remote, Failure> {
    let variables = std::env::vars_os();
    let settings =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    CloudStore::new(url, settings, options).map(Remote::Cloud)
}

fn no_name(path: &str) -> StoreError {
    StoreError::Io { path: path.to_owned(), source: io::Error::other("is no name inside a registry") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let options = Options::default();
        let folder = |text: &str| match open(text, &options).unwrap() {
            Remote::Folder(folder) => folder.root().display().to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(folder("registry"), "registry");
        assert_eq!(folder("file:///srv/gpu"), "/srv/gpu");
        assert_eq!(folder("file://localhost/srv/gpu"), "/srv/gpu");
        for url in ["http://127.0.0.1:80/gpu", "https://example.org"] {
            let web = open(url, &options).unwrap();
            assert!(matches!(web, Remote::Http(_)) && web.store_mut().is_none(), "{url}");
        }
        for (url, why) in [
            ("file://server/srv/gpu", "another machine"),
            ("file://localhosts/srv", "another machine"),
            ("ftp://example.org/gpu", "no way to a registry"),
            ("https://", "names no host"),
        ] {
            let refused = open(url, &options).unwrap_err();
            assert!(refused.exit == crate::exit::Exit::Usage && refused.message.contains(why), "{url}");
        }
    }

    #[test]
    fn patience_is_a_number_of_seconds() {
        assert_eq!(patience("5").unwrap(), Duration::from_secs(5));
        for text in ["", "0", "3601", "+5", "5s", "1.5", "99999999999999999999"] {
            patience(text).unwrap_err();
        }
    }
}
