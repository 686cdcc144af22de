//! Trials: a registry whose origin begins with `trial/` was made by `capgate bench` to try a set that nobody tested. It
//! counts in a throwaway prefix alone, and there only in a child of the process that made it.

use capgate_registry::reader::Reader;
use capgate_registry::record::Doubt;

use crate::prefix::Prefix;

/// The file of a prefix that says whose trial it is: the number of a process, and LF.
pub const NAME: &str = "trial";
/// Longest such file, in bytes.
const MAX_BYTES: u64 = 12;

/// Refuses a trial's registry anywhere but where it belongs, and any other registry in a trial's prefix.
pub(crate) fn check(prefix: &Prefix, reader: Reader) -> Result<Reader, Doubt> {
    let origin = reader.chain().origin();
    let is_trial = origin.is_trial();
    let owner = match prefix.read(NAME, MAX_BYTES) {
        Ok(bytes) => Some(owner(&bytes).ok_or_else(|| {
            Doubt::Malformed(format!("`{}` is not the number of one process", prefix.state(NAME).display()))
        })?),
        Err(e) if e.missing => None,
        Err(e) => return Err(Doubt::Unreadable(e.to_string())),
    };
    match (is_trial, owner) {
        (false, None) => Ok(reader),
        (true, Some(owner)) if owner == std::os::unix::process::parent_id() => Ok(reader),
        (true, _) => {
            let message = format!(
                "`{origin}` is a trial, which counts only in children of the `capgate bench` that made it"
            );
            Err(Doubt::WrongOrigin(message))
        }
        (false, Some(_)) => {
            Err(Doubt::WrongOrigin(format!("`{origin}` is no trial, and this prefix was made for one")))
        }
    }
}

fn owner(bytes: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let owner: u32 = digits.parse().ok()?;
    (owner > 1 && owner.to_string() == digits).then_some(owner)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_owner_is_one_number_in_one_spelling() {
        assert_eq!(super::owner(b"4711\n"), Some(4711));
        for other in
            ["", "\n", "4711", "04711\n", "+4711\n", "0\n", "1\n", "4711\n\n", "99999999999\n", "a\n"]
        {
            assert_eq!(super::owner(other.as_bytes()), None, "{other:?}");
        }
    }
}
