//! SHA-256 of large files, computed once: a cache keyed by what differs once a file was written to.
//!
//! One line a file, in the user's own cache folder, appended in one write: device, inode, size, times of the last change of
//! content and of anything, digest. The time of the last change of anything (ctime) is set by the kernel and cannot be set
//! back, so a file whose modification time somebody restored is hashed again. A file that was changed within the last
//! seconds is not remembered: it could change once more without a new stamp. What does not have the form of a line, such
//! as the end of one that was torn, counts for nothing. The cache is a convenience of its owner: whoever may write there
//! may as well replace this program, so a folder or file that others can write is not used.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use capgate_registry::combination::Hex;
use capgate_registry::combination::Sha256Digest;
use sha2::{Digest, Sha256};

use super::file::{self, careful};

/// Smaller files are read again faster than they are looked up.
pub const LEAST_CACHED: u64 = 1 << 20;
/// Most bytes of the cache; a fuller one is begun anew.
const MOST_BYTES: u64 = 1 << 20;
/// A file that changed more recently, in seconds, is not remembered.
const SETTLED: u64 = 2;
const FOLDER: &str = "capgate";
const NAME: &str = "digests";

/// What differs once a file was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    /// Size in bytes.
    pub size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    /// Of a regular file.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&file::open_regular(path)?.metadata()?))
    }

    fn new(of: &Metadata) -> Self {
        Self {
            device: of.dev(),
            inode: of.ino(),
            size: of.len(),
            mtime: (of.mtime(), of.mtime_nsec()),
            ctime: (of.ctime(), of.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        u64::try_from(self.ctime.0).is_ok_and(|changed| changed.saturating_add(SETTLED) <= now)
    }

    fn key(&self) -> String {
        let Self { device, inode, size, mtime, ctime } = self;
        format!("1 {device} {inode} {size} {}.{:09} {}.{:09}", mtime.0, mtime.1, ctime.0, ctime.1)
    }
}

/// A digest, and how it was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// The stamp of the bytes that were hashed.
    pub stamp: Stamp,
    /// Whether it was computed earlier.
    pub cached: bool,
}

/// The cache of one user.
#[derive(Debug, Default)]
pub struct Digests {
    path: Option<PathBuf>,
    /// Lines, the newest last.
    lines: String,
}

impl Digests {
    /// The cache of this user; without a usable folder nothing is remembered.
    pub fn open() -> Self {
        folder().map_or_else(Self::default, |folder| Self::open_in(&folder))
    }

    /// The cache in a folder, which is made if it is not there.
    pub fn open_in(folder: &Path) -> Self {
        let folder = folder.join(FOLDER);
        // One that is there is looked at below, whoever made it.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir() && is_own(&found)) {
            return Self::default();
        }
        let path = folder.join(NAME);
        let lines = read_own(&path).unwrap_or_default();
        Self { path: Some(path), lines }
    }

    /// The digest of a regular file, hashed unless its stamp is known. `progress` is told the bytes read so far, and
    /// ends the work with an error.
    ///
    /// Errors: what the system says, what `progress` says, and a file that changed while it was read.
    pub fn of(&mut self, path: &Path, progress: &mut dyn FnMut(u64) -> io::Result<()>) -> io::Result<Known> {
        let mut opened = file::open_regular(path)?;
        let stamp = Stamp::new(&opened.metadata()?);
        if stamp.size >= LEAST_CACHED
            && let Some(sha256) = self.look_up(&stamp)
        {
            return Ok(Known { sha256, stamp, cached: true });
        }
        let sha256 = hash(&mut opened, progress)?;
        if Stamp::new(&opened.metadata()?) != stamp {
            return Err(io::Error::other("changed while it was read"));
        }
        if stamp.size >= LEAST_CACHED && stamp.is_settled() {
            self.remember(&stamp, sha256);
        }
        Ok(Known { sha256, stamp, cached: false })
    }

    fn look_up(&self, stamp: &Stamp) -> Option<Sha256Digest> {
        let key = stamp.key();
        let digest = |line: &str| line.strip_prefix(&key)?.strip_prefix(' ')?.parse().ok();
        self.lines.lines().rev().find_map(digest)
    }

    fn remember(&mut self, stamp: &Stamp, sha256: Sha256Digest) {
        let line = format!("{} {sha256}\n", stamp.key());
        if let Some(path) = &self.path
            && let Err(e) = append(path, &line)
        {
            tracing::debug!("`{}` cannot be written: {e}", path.display());
        }
        self.lines.push_str(&line);
    }
}

fn folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(target_os = "macos") {
        return home().map(|home| home.join("Library/Caches"));
    }
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(".cache")))
}

/// Tells whether it is this user's, and nobody else can write it.
fn is_own(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(careful()).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && is_own(&found) {
        Ok(file)
    } else {
        Err(io::Error::other("is not this user's own file"))
    }
}

fn read_own(path: &Path) -> io::Result<String> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    let bytes = file::read_open(file, MOST_BYTES * 2)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = open_own(path, OpenOptions::new().read(true).append(true).create(true))?;
    if file.metadata()?.len() > MOST_BYTES {
        file.set_len(0)?;
    }
    // A line that was torn by a full disk must not become the beginning of this one.
    file.write_all(format!("\n{line}").as_bytes())
}

fn hash(file: &mut File, progress: &mut dyn FnMut(u64) -> io::Result<()>) -> io::Result<Sha256Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Hex(hasher.finalize().into()));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        total += count as u64;
        progress(total)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(digests: &mut Digests, path: &Path) -> (String, bool) {
        let known = digests.of(path, &mut |_| Ok(())).unwrap();
        (known.sha256.to_string(), known.cached)
    }

    /// A file that is large enough to be remembered, and old enough.
    fn settled(path: &Path, byte: u8) {
        fs::write(path, vec![byte; usize::try_from(LEAST_CACHED).unwrap()]).unwrap();
        while !Stamp::of(path).unwrap().is_settled() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    #[test]
    fn a_file_is_hashed_once_until_it_changes_even_with_its_old_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        settled(&path, 1);
        let time = path.metadata().unwrap().modified().unwrap();
        let (first, cached) = of(&mut Digests::open_in(folder.path()), &path);
        assert!(!cached);
        assert_eq!(of(&mut Digests::open_in(folder.path()), &path), (first.clone(), true));
        settled(&path, 2);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
        let (second, cached) = of(&mut Digests::open_in(folder.path()), &path);
        assert!(!cached && first != second);
    }

    #[test]
    fn what_changed_just_now_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        fs::write(&path, vec![3; usize::try_from(LEAST_CACHED).unwrap()]).unwrap();
        let mut digests = Digests::open_in(folder.path());
        assert!(!of(&mut digests, &path).1);
        assert_eq!(digests.lines, "");
    }

    #[test]
    fn lines_that_are_torn_or_no_lines_count_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        settled(&path, 4);
        let mut digests = Digests::open_in(folder.path());
        let (digest, _) = of(&mut digests, &path);
        let cache = folder.path().join("capgate/digests");
        let line = fs::read_to_string(&cache).unwrap();
        let line = line.trim();
        let zero = "0".repeat(64);
        for broken in [
            line.get(..line.len() - 1).unwrap().to_owned(),
            line.replace(&digest, &zero),
            line.replace(&digest, &digest.to_uppercase()),
            format!("2{}", line.get(1..).unwrap()),
            "\u{0}\u{ff}".repeat(100),
        ] {
            fs::write(&cache, &broken).unwrap();
            assert_eq!(of(&mut Digests::open_in(folder.path()), &path), (digest.clone(), false), "{broken}");
        }
        // The last of them stands there without an end, and what was appended behind it counts all the same.
        assert_eq!(of(&mut Digests::open_in(folder.path()), &path), (digest, true));
    }

    #[test]
    fn attack_a_cache_that_others_can_write_or_lead_elsewhere_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        settled(&path, 5);
        let (digest, _) = of(&mut Digests::open_in(folder.path()), &path);
        let cache = folder.path().join("capgate/digests");
        let other = "ab".repeat(32);
        let planted = fs::read_to_string(&cache).unwrap().replace(&digest, &other);
        fs::write(&cache, &planted).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(of(&mut Digests::open_in(folder.path()), &path).0, digest);
        fs::remove_file(&cache).unwrap();
        fs::write(folder.path().join("elsewhere"), &planted).unwrap();
        symlink(folder.path().join("elsewhere"), &cache).unwrap();
        assert_eq!(of(&mut Digests::open_in(folder.path()), &path).0, digest);
        fs::remove_file(&cache).unwrap();
        fs::write(&cache, &planted).unwrap();
        fs::set_permissions(cache.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(of(&mut Digests::open_in(folder.path()), &path).0, digest);
    }

    #[test]
    fn a_full_cache_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        settled(&path, 6);
        drop(Digests::open_in(folder.path()));
        let cache = folder.path().join("capgate/digests");
        fs::write(&cache, "x\n".repeat(usize::try_from(MOST_BYTES).unwrap() / 2 + 1)).unwrap();
        assert!(!of(&mut Digests::open_in(folder.path()), &path).1);
        assert!(cache.metadata().unwrap().len() < 1000);
        assert!(of(&mut Digests::open_in(folder.path()), &path).1);
    }
}
