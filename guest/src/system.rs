//! What macOS answers in libSystem, asked through `dlsym`, each answer checked before it is believed.
//!
//! On macOS only Apple's own libraries are asked: a program may export a function of the same name.
#![allow(unsafe_code, reason = "these are C functions; each block says why it is sound")]

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

/// Longest text that a sysctl may give, in bytes.
const LONGEST: usize = 512;
/// Most bytes of an interface list.
const MOST_INTERFACES: usize = 1 << 18;
/// `CS_OPS_CDHASH` (XNU, `codesign.h`).
const CDHASH: c_uint = 5;
/// `{CTL_NET, PF_ROUTE, 0, AF_LINK, NET_RT_IFLIST, 0}`.
const INTERFACE_LIST: [c_int; 6] = [4, 17, 0, 18, 3, 0];
/// `ACL_TYPE_EXTENDED`, `ACL_NEXT_ENTRY`, `ACL_EXTENDED_DENY` (macOS, `sys/acl.h`).
const ACL_EXTENDED: c_int = 0x100;
const ACL_NEXT: c_int = -1;
const ACL_DENY: c_int = 2;
/// A list has at most 128 entries (`ACL_MAX_ENTRIES`).
const MOST_ENTRIES: usize = 128;

/// Where functions are looked for on macOS.
const LIBRARIES: [&CStr; 2] = [c"/usr/lib/libSystem.B.dylib", c"/usr/lib/libobjc.A.dylib"];

/// The address of a function of the system, or of a variable, by its name.
///
/// On Linux, for the tests, any library may have it: their stand-in is one of many.
pub fn symbol(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    let found = |library| {
        // SAFETY: the name ends in a zero byte, and dlsym keeps nothing of it.
        ptr::NonNull::new(unsafe { libc::dlsym(library, name.as_ptr()) })
    };
    if !cfg!(target_os = "macos") {
        return found(libc::RTLD_DEFAULT);
    }
    LIBRARIES.iter().find_map(|library| {
        // SAFETY: as above. A library that is loaded already is given, and none is loaded.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() { None } else { found(handle) }
    })
}

/// Finds a C function and takes it for one of type `$type`.
macro_rules! function {
    ($name:literal as $type:ty) => {
        // SAFETY: a function of that name has that type in macOS' headers, and on Linux in the tests' stand-in.
        symbol($name).map(|address| unsafe { std::mem::transmute::<*mut c_void, $type>(address.as_ptr()) })
    };
}

type SysctlByName = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type Sysctl = unsafe extern "C" fn(*mut c_int, c_uint, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type CsOps = unsafe extern "C" fn(libc::pid_t, c_uint, *mut c_void, usize) -> c_int;
type ExecutablePath = unsafe extern "C" fn(*mut c_char, *mut u32) -> c_int;
type IsSetugid = unsafe extern "C" fn() -> c_int;

type VmRead = unsafe extern "C" fn(c_uint, u64, u64, u64, *mut u64) -> c_int;
type GetHostUuid = unsafe extern "C" fn(*mut u8, *const libc::timespec) -> c_int;
type AclGet = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
type AclEntry = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_void) -> c_int;
type AclTag = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;
type AclFree = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What reads access control lists.
#[derive(Clone, Copy)]
struct Acl {
    get: AclGet,
    entry: AclEntry,
    tag: AclTag,
    free: AclFree,
}

impl Acl {
    fn find() -> Option<Self> {
        Some(Self {
            get: function!(c"acl_get_link_np" as AclGet)?,
            entry: function!(c"acl_get_entry" as AclEntry)?,
            tag: function!(c"acl_get_tag_type" as AclTag)?,
            free: function!(c"acl_free" as AclFree)?,
        })
    }
}

/// The bytes of a sysctl.
fn sysctl(name: &CStr) -> Option<Vec<u8>> {
    let ask = function!(c"sysctlbyname" as SysctlByName)?;
    let mut value = vec![0u8; LONGEST];
    let mut length = value.len();
    // SAFETY: `length` says how many bytes `value` has, and nothing is set.
    let status =
        unsafe { ask(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut length, ptr::null_mut(), 0) };
    if status != 0 || length > LONGEST {
        return None;
    }
    value.truncate(length);
    Some(value)
}

/// A sysctl whose value is a text, such as `hw.model`.
pub fn sysctl_text(name: &CStr) -> Option<String> {
    let mut value = sysctl(name)?;
    if value.last() == Some(&0) {
        value.pop();
    }
    // What is no text is nothing that could be compared; it stays visible as malformed.
    Some(String::from_utf8_lossy(&value).into_owned())
}

/// A sysctl whose value is a number of four bytes, such as `kern.hv_vmm_present`.
pub fn sysctl_number(name: &CStr) -> Option<i32> {
    sysctl(name)?.try_into().ok().map(i32::from_ne_bytes)
}

/// The MAC addresses of this machine's interfaces, without those that are all zero.
pub fn link_addresses() -> Option<Vec<[u8; 6]>> {
    let ask = function!(c"sysctl" as Sysctl)?;
    let mut list = vec![0u8; MOST_INTERFACES];
    let mut length = list.len();
    let mut name = INTERFACE_LIST;
    let count = c_uint::try_from(name.len()).ok()?;
    // SAFETY: `name` has `count` numbers, `length` says how many bytes `list` has, and nothing is set.
    let status = unsafe {
        ask(name.as_mut_ptr(), count, list.as_mut_ptr().cast(), &raw mut length, ptr::null_mut(), 0)
    };
    if status != 0 {
        return None;
    }
    Some(addresses_of(list.get(..length)?))
}

/// Reads the messages of an interface list: `if_msghdr`, then the `sockaddr_dl` with name and address.
fn addresses_of(mut list: &[u8]) -> Vec<[u8; 6]> {
    const HEADER: usize = 112;
    const INTERFACE: u8 = 0x0e;
    const LINK: u8 = 18;
    let mut found = Vec::new();
    while let Some(length) = list.first_chunk::<2>().map(|bytes| usize::from(u16::from_ne_bytes(*bytes))) {
        let Some((message, rest)) = list.split_at_checked(length).filter(|_| length > 0) else { break };
        list = rest;
        let link = message.get(HEADER..).unwrap_or_default();
        let (Some(kind), Some([_, family, _, _, _, name, address, _])) =
            (message.get(3), link.first_chunk::<8>())
        else {
            continue;
        };
        if *kind == INTERFACE && *family == LINK && *address == 6 {
            let data = link.get(8 + usize::from(*name)..).and_then(|data| data.first_chunk::<6>());
            found.extend(data.filter(|data| **data != [0; 6]));
        }
    }
    found
}

/// The machine's own id, which its owner would not want in a log as it is.
pub fn machine_id() -> Option<[u8; 16]> {
    let ask = function!(c"gethostuuid" as GetHostUuid)?;
    let mut id = [0u8; 16];
    // What is not known at once is not waited for.
    let wait = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: 16 bytes are written, and the time to wait is only read.
    (unsafe { ask(id.as_mut_ptr(), &raw const wait) } == 0).then_some(id)
}

/// Tells whether an access control list of `path` lets anybody do more than its mode says.
///
/// Only macOS keeps such lists beside the mode. On Linux what one allows shows in the mode's group bits.
pub fn acl_allows(path: &CStr) -> bool {
    // Asked for each folder above each file, so the functions are looked for once.
    static FUNCTIONS: OnceLock<Option<Acl>> = OnceLock::new();
    let Some(Acl { get, entry, tag, free }) = *FUNCTIONS.get_or_init(Acl::find) else {
        // A Mac without these functions is none that was ever seen.
        return cfg!(target_os = "macos");
    };
    // SAFETY: the path ends in a zero byte.
    let list = unsafe { get(path.as_ptr(), ACL_EXTENDED) };
    if list.is_null() {
        // Nothing there, or a file system without such lists; whatever else it is, it is a doubt.
        let error = std::io::Error::last_os_error().raw_os_error();
        return !matches!(error, Some(libc::ENOENT | libc::ENOTSUP));
    }
    let mut at: c_int = 0;
    let mut allows = false;
    for _ in 0..MOST_ENTRIES {
        let (mut found, mut kind) = (ptr::null_mut(), 0);
        // SAFETY: the list is alive until it is freed below, and an entry is asked only after it was given.
        unsafe {
            if entry(list, at, &raw mut found) != 0 {
                break;
            }
            allows |= tag(found, &raw mut kind) != 0 || kind != ACL_DENY;
        }
        at = ACL_NEXT;
    }
    // SAFETY: freed once.
    unsafe { free(list) };
    allows
}

/// Tells whether the volume that holds `path` keeps no owners: there a file belongs to whoever asks.
#[cfg(target_os = "macos")]
pub fn ignores_owners(path: &CStr) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path ends in a zero byte, and statfs fills the structure; an all-zero one is a valid value too.
    let found = unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return true;
        }
        found.assume_init()
    };
    found.f_flags & libc::MNT_IGNORE_OWNERSHIP.cast_unsigned() != 0
}

/// Linux has no such volumes.
#[cfg(not(target_os = "macos"))]
pub fn ignores_owners(_: &CStr) -> bool {
    false
}

/// A copy of mapped memory; `None` where it is not mapped, or not any more. The kernel reads it, so that memory which
/// another thread gives back is an answer and no fault.
pub fn copy_of(address: u64, length: usize) -> Option<Vec<u8>> {
    let read = function!(c"mach_vm_read_overwrite" as VmRead)?;
    // SAFETY: a variable of that name holds the task's port, a `mach_port_t`, as `mach_init.h` says.
    let task = unsafe { symbol(c"mach_task_self_")?.cast::<c_uint>().read() };
    let mut copy = vec![0u8; length];
    let mut copied = 0u64;
    // SAFETY: at most `length` bytes are written where `copy` has them.
    let status = unsafe { read(task, address, length as u64, copy.as_mut_ptr() as u64, &raw mut copied) };
    (status == 0 && copied == length as u64).then_some(copy)
}

/// The kernel's code directory hash of this process.
pub fn own_cdhash() -> Option<[u8; 20]> {
    let ask = function!(c"csops" as CsOps)?;
    let mut hash = [0u8; 20];
    // SAFETY: a process id and an operation that writes no more than the size given.
    let status = unsafe { ask(libc::getpid(), CDHASH, hash.as_mut_ptr().cast(), hash.len()) };
    (status == 0 && hash != [0; 20]).then_some(hash)
}

/// The path that this process was started by, as the kernel gave it.
pub fn executable_path() -> Option<PathBuf> {
    let ask = function!(c"_NSGetExecutablePath" as ExecutablePath)?;
    let mut path = vec![0u8; 4096];
    let mut length = u32::try_from(path.len()).ok()?;
    // SAFETY: `length` says how many bytes `path` has.
    if unsafe { ask(path.as_mut_ptr().cast(), &raw mut length) } != 0 {
        return None;
    }
    let end = path.iter().position(|&byte| byte == 0)?;
    path.truncate(end);
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// Tells whether this process runs with other rights than whoever started it.
pub fn is_privileged() -> bool {
    // SAFETY: these four only read numbers of the process.
    let (uid, euid, gid, egid) =
        unsafe { (libc::getuid(), libc::geteuid(), libc::getgid(), libc::getegid()) };
    // SAFETY: as above.
    let changed = function!(c"issetugid" as IsSetugid).is_some_and(|ask| unsafe { ask() } != 0);
    uid != euid || gid != egid || changed
}

/// The user that this process runs as.
pub fn user() -> u32 {
    // SAFETY: only reads a number of the process.
    unsafe { libc::getuid() }
}

/// Writes without the signals by which a write can end or stop a process: a pipe that nobody reads, a file that may not
/// grow, a terminal that belongs to others. The error is enough.
pub fn unsignalled<T>(write: impl FnOnce() -> T) -> T {
    const SIGNALS: [c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU];
    let pending = || {
        // SAFETY: an all-zero set is a valid one, and is filled by the call.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::sigpending(&raw mut set) };
        // SAFETY: the set is initialised.
        SIGNALS.map(|signal| unsafe { libc::sigismember(&raw const set, signal) } == 1)
    };
    // SAFETY: an all-zero set is a valid one, and is emptied before it is used.
    let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    let waiting = pending();
    // SAFETY: both sets live through the calls.
    unsafe {
        libc::sigemptyset(&raw mut blocked);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
    }
    let written = write();
    for ((signal, is_pending), was_pending) in SIGNALS.into_iter().zip(pending()).zip(waiting) {
        if is_pending && !was_pending {
            let mut taken = 0;
            // SAFETY: as above; the signal is pending, so that this does not wait.
            unsafe {
                libc::sigemptyset(&raw mut blocked);
                libc::sigaddset(&raw mut blocked, signal);
                libc::sigwait(&raw const blocked, &raw mut taken);
            }
        }
    }
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    written
}

/// Tells whether a write to a descriptor would be taken at once, and which file it leads to.
pub fn writable(descriptor: c_int) -> Option<(u64, u64)> {
    let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, and no waiting.
    let ready = unsafe { libc::poll(&raw mut asked, 1, 0) } == 1 && asked.revents == libc::POLLOUT;
    if ready { place_of(descriptor) } else { None }
}

/// The file that a descriptor leads to.
pub fn place_of(descriptor: c_int) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: fstat fills the structure; an all-zero one is a valid value too.
    let found = unsafe {
        if libc::fstat(descriptor, found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// Random bytes that the system gives at once.
pub fn random() -> Option<[u8; 16]> {
    let mut bytes = [0u8; 16];
    // SAFETY: `bytes` has as many bytes as are asked for.
    (unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } == 0).then_some(bytes)
}

/// The path by which the library that holds `address` was loaded.
pub fn library_of(address: usize) -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure where it finds the address; an all-zero one is a valid value too.
    let info = unsafe {
        if libc::dladdr(ptr::without_provenance(address), found.as_mut_ptr()) == 0 {
            return None;
        }
        found.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own name of a library that stays loaded, ended by a zero byte.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsString::from_vec(name.to_bytes().to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, family: u8, name: &[u8], address: &[u8]) -> Vec<u8> {
        let mut message = vec![0u8; 112];
        message[3] = kind;
        message.extend([0, family, 1, 0, 6, u8::try_from(name.len()).unwrap(), 6, 0]);
        message[112 + 6] = u8::try_from(address.len()).unwrap();
        message.extend(name);
        message.extend(address);
        let length = u16::try_from(message.len()).unwrap().to_ne_bytes();
        message[..2].copy_from_slice(&length);
        message
    }

    #[test]
    fn addresses_are_read_behind_the_names_of_their_interfaces() {
        let mut list = message(0x0e, 18, b"lo0", b"");
        list.extend(message(0x0e, 18, b"en0", &[0x5e, 1, 2, 3, 4, 5]));
        list.extend(message(0x0c, 2, b"", &[9; 6]));
        list.extend(message(0x0e, 18, b"en1", &[0; 6]));
        assert_eq!(addresses_of(&list), [[0x5e, 1, 2, 3, 4, 5]]);
    }

    #[test]
    fn a_cut_or_looping_list_ends() {
        let whole = message(0x0e, 18, b"en0", &[0x5e, 1, 2, 3, 4, 5]);
        for length in 0..whole.len() {
            assert!(addresses_of(&whole[..length]).is_empty(), "{length}");
        }
        assert!(addresses_of(&[0; 64]).is_empty());
    }
}
