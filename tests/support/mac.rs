//! A stand-in for a Mac's kernel, preloaded into the real binary: see `tests/standin/standin.c`.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The stand-in, compiled once for each version of its source.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/standin.c");
    let mut hasher = std::hash::DefaultHasher::new();
    std::fs::read(&source).unwrap().hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("standin-{:016x}.so", hasher.finish()));
    if !library.exists() {
        // Tests run at once; each makes its own and the last one gets the name.
        let own = folder.join(format!("standin-{}.tmp", std::process::id()));
        let mut cc = Command::new("cc");
        let made = cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&own).arg(&source).arg("-ldl").status();
        assert!(made.unwrap().success());
        std::fs::rename(own, &library).unwrap();
    }
    library
});

/// What a Mac's kernel answers.
pub struct Mac {
    folder: tempfile::TempDir,
}

impl Mac {
    /// With lines `name=text` or `name=#number`.
    pub fn new(sysctl: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sysctl"), sysctl).unwrap();
        Self { folder }
    }

    /// The M1 Ultra of the shipped profiles.
    pub fn host() -> Self {
        Self::new(
            "kern.hv_vmm_present=#0\nmachdep.cpu.brand_string=Apple M1 Ultra\nkern.osproductversion=26.6.1\n\
             kern.osversion=25G76\nhw.model=Mac13,2\n",
        )
    }

    /// A guest on it.
    pub fn guest() -> Self {
        let guest = Self::new(
            "kern.hv_vmm_present=#1\nmachdep.cpu.brand_string=Apple M1 Ultra (Virtual)\n\
             kern.osproductversion=26.5.2\nkern.osversion=25F84\nhw.model=VirtualMac2,1\n",
        );
        std::fs::write(guest.folder.path().join("links"), "en0 5e:12:ab:00:34:f0\n").unwrap();
        guest
    }

    /// Lets a command run on it.
    pub fn runs<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", &*LIBRARY).env("STANDIN", self.folder.path())
    }
}
