//! Bytes that would look other than they are, or have a second spelling. All of it is well signed, so that nothing else
//! can be the reason.

use base64ct::{Base64, Encoding};
use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;

use super::content::with;
use super::honest::History;
use super::keys::{evil, in_force};
use super::thief::{sign_raw, text_of};
use super::{Case, case};

pub fn cases(h: &History) -> Vec<Case> {
    [characters(h), profiles(h), trailing(h), base64(h), numbers(h)].into_iter().flatten().collect()
}

/// `latest.note` with a text that the registry key signed as it is.
fn of(h: &History, name: &'static str, attack: &str, text: &[u8], says: &str) -> Case {
    let note = sign_raw(text, &[&h.keys.registry]);
    refused(case(h, name, attack, with(h, latest::PATH, note)).holds("the registry key"), says)
}

fn refused(case: Case, says: &str) -> Case {
    case.lookup("registry-malformed", says).verify(latest::PATH, says).sync("registry-malformed", says)
}

fn text(h: &History) -> String {
    text_of(&h.version(6).get(latest::PATH))
}

fn replaced(h: &History, from: &str, to: &str) -> Vec<u8> {
    let text = text(h);
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

fn characters(h: &History) -> Vec<Case> {
    let in_comment = |what: &[u8]| [text(h).as_bytes(), b"# ", what, b"\n"].concat();
    vec![
        of(
            h,
            "text-crlf",
            "Lines end in CR and LF.",
            text(h).replace('\n', "\r\n").as_bytes(),
            "the character U+000D at byte 41 is not allowed in a signed text",
        ),
        of(
            h,
            "text-bom",
            "A byte order mark stands before the text.",
            format!("\u{feff}{}", text(h)).as_bytes(),
            "the character U+FEFF at byte 0 is not allowed",
        ),
        of(
            h,
            "text-nul",
            "A NUL ends the text for programs that are written in C.",
            &in_comment(b"\0"),
            "the character U+0000 at byte",
        ),
        of(
            h,
            "text-tab",
            "A tab stands in the text.",
            &replaced(h, "size = ", "size =\t"),
            "the character U+0009 at byte",
        ),
        of(
            h,
            "text-bidi",
            "A character turns the direction of the text around.",
            &in_comment("\u{202e}2 = noisrev".as_bytes()),
            "the character U+202E at byte",
        ),
        of(
            h,
            "text-invisible",
            "A character that is not drawn stands in the text.",
            &in_comment("\u{200b}".as_bytes()),
            "the character U+200B at byte",
        ),
        of(
            h,
            "text-not-utf-8",
            "A byte stands in the text that is not UTF-8.",
            &in_comment(b"\xff"),
            "the note is not UTF-8 from byte",
        ),
        of(
            h,
            "text-overlong-utf-8",
            "A slash is spelled in two bytes.",
            &in_comment(b"\xc0\xaf"),
            "the note is not UTF-8 from byte",
        ),
    ]
}

fn profiles(h: &History) -> Vec<Case> {
    let bundle = "log/tile/entries/000.p/7";
    let of = |name, attack, from: &str, to: &str, says: &str| {
        let text = format!("# capgate profile v1 registry.test/capgate\n{}", evil());
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        let note = sign_raw(text.as_bytes(), &[&h.keys.alice, &h.keys.bob]);
        case(h, name, attack, in_force(h, &note))
            .holds("the registry key, two publishers' keys")
            .lookup("registry-malformed", says)
            .verify(bundle, says)
            .sync("entry", says)
    };
    vec![
        of(
            "profile-bidi",
            "A profile's summary holds a character that turns its direction around.",
            "a test",
            "a \u{202e}tset",
            "the character U+202E at byte",
        ),
        of(
            "profile-bidi-escaped",
            "The same, as an escape that only a TOML reader sees.",
            "a test",
            "a \\u202etset",
            "`summary` holds the character U+202E",
        ),
        of(
            "profile-line-feed-escaped",
            "A profile's summary has a second line, written as an escape.",
            "a test",
            "a\\ntest",
            "`summary` holds the character U+000A",
        ),
        of(
            "profile-unknown-key",
            "A profile holds a key that this reader does not know.",
            "verdict",
            "valid_for = \"everything\"\nverdict",
            "unknown key `valid_for`",
        ),
        of(
            "profile-key-twice",
            "A profile gives a value twice.",
            "verdict",
            "summary = \"b\"\nverdict",
            "not TOML: duplicate key",
        ),
        of(
            "profile-number-in-hex",
            "A profile's number is written in hex.",
            "apple_family_max = 1009",
            "apple_family_max = 0x3f1",
            "apple_family_max` is not written in decimal digits alone",
        ),
        of(
            "profile-number-underscored",
            "A profile's number is written with an underscore.",
            "max_threadgroup_memory = 65536",
            "max_threadgroup_memory = 65_536",
            "max_threadgroup_memory` is not written in decimal digits alone",
        ),
        of(
            "profile-newer-schema",
            "A profile is of a schema that is newer than the reader.",
            "schema = \"1.0.0\"",
            "schema = \"1.1.0\"",
            "schema 1.1.0 is newer than 1.0.0",
        ),
    ]
}

fn trailing(h: &History) -> Vec<Case> {
    let honest = h.version(6).get(latest::PATH);
    let append = |more: &[u8]| with(h, latest::PATH, [&honest[..], more].concat());
    let line = String::from_utf8(honest.clone()).unwrap();
    let line = line.strip_prefix(&text(h)).unwrap().trim_start().to_owned();
    let two = [&honest[..], b"\n", line.as_bytes()].concat();
    vec![
        refused(
            case(
                h,
                "trailing-data",
                "A line that is no signature follows the signatures.",
                append(b"version = 7\n"),
            ),
            "signature line 2 is malformed",
        ),
        refused(
            case(h, "trailing-line-feed", "An empty line follows the signatures.", append(b"\n")),
            "the note has no signatures",
        ),
        refused(
            case(h, "trailing-nul", "A NUL follows the signatures.", append(b"\0")),
            "the character U+0000 at byte",
        ),
        refused(
            case(
                h,
                "no-last-line-feed",
                "The last line is cut off.",
                with(h, latest::PATH, honest[..honest.len() - 1].to_vec()),
            ),
            "the note's last line does not end in a line feed",
        ),
        refused(
            case(
                h,
                "two-signature-blocks",
                "The signatures follow once more behind a second empty line.",
                with(h, latest::PATH, two),
            ),
            "not TOML",
        ),
    ]
}

fn base64(h: &History) -> Vec<Case> {
    let honest = String::from_utf8(h.version(6).get(latest::PATH)).unwrap();
    let signature = honest.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert!(signature.ends_with('='));
    let stray = {
        let at = signature.len() - 2;
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let value = letters.iter().position(|&l| l == signature.as_bytes()[at]).unwrap();
        format!("{}{}=", &signature[..at], char::from(letters[value + 1]))
    };
    let with_signature = |new: &str| with(h, latest::PATH, honest.replace(&signature, new).into_bytes());
    let url = signature.replace('+', "-").replace('/', "_");
    assert_ne!(url, signature);
    let says = "signature line 1 is malformed: its base64 is not canonical";
    let checkpoint = text_of(&h.version(6).get(CHECKPOINT));
    let root = checkpoint.lines().nth(2).unwrap();
    let decoded = Base64::decode_vec(root).unwrap();
    let of_checkpoint = |name, attack, text: String, says: &str| {
        assert_ne!(text, checkpoint);
        case(h, name, attack, with(h, CHECKPOINT, sign_raw(text.as_bytes(), &[&h.keys.registry])))
            .holds("the registry key")
            .lookup_grants("tested-two")
            .verify(CHECKPOINT, says)
            .sync("damaged", says)
    };
    let hex: String = decoded.iter().map(|byte| format!("{byte:02x}")).collect();
    let unpadded = checkpoint.replace('=', "");
    vec![
        refused(
            case(
                h,
                "base64-stray-bits",
                "The signature's base64 has bits behind its end, a second spelling of one signature.",
                with_signature(&stray),
            ),
            says,
        ),
        refused(
            case(
                h,
                "base64-unpadded",
                "The signature's base64 has no padding.",
                with_signature(signature.trim_end_matches('=')),
            ),
            says,
        ),
        refused(
            case(
                h,
                "base64-for-urls",
                "The signature's base64 has the alphabet for URLs.",
                with_signature(&url),
            ),
            says,
        ),
        refused(
            case(
                h,
                "base64-broken-line",
                "The signature's base64 goes on in another line.",
                with_signature(&format!("{}\n{}", &signature[..40], &signature[40..])),
            ),
            "signature line",
        ),
        of_checkpoint(
            "checkpoint-root-unpadded",
            "The checkpoint's root has no padding.",
            unpadded,
            "the checkpoint's root is not the canonical base64 of 32 bytes",
        ),
        of_checkpoint(
            "checkpoint-root-in-hex",
            "The checkpoint's root is written in hex.",
            checkpoint.replace(root, &hex),
            "the checkpoint's root is not the canonical base64 of 32 bytes",
        ),
        of_checkpoint(
            "checkpoint-size-with-zero",
            "The checkpoint's size has a leading zero.",
            checkpoint.replace("\n6\n", "\n06\n"),
            "the checkpoint's size is no decimal number",
        ),
        of_checkpoint(
            "checkpoint-size-with-sign",
            "The checkpoint's size has a sign.",
            checkpoint.replace("\n6\n", "\n+6\n"),
            "the checkpoint's size is no decimal number",
        ),
        of_checkpoint(
            "checkpoint-extension",
            "A line follows the checkpoint's root.",
            format!("{checkpoint}more\n"),
            "a checkpoint is three lines",
        ),
    ]
}

fn numbers(h: &History) -> Vec<Case> {
    let upper = {
        let text = text(h);
        let root = text.lines().find_map(|line| line.strip_prefix("root = ")).unwrap().to_owned();
        replaced(h, &root, &root.to_uppercase())
    };
    vec![
        of(
            h,
            "number-leading-zero",
            "A number has a leading zero.",
            &replaced(h, "log_size = 6", "log_size = 06"),
            "not TOML",
        ),
        of(
            h,
            "number-in-hex",
            "A number is written in hex.",
            &replaced(h, "log_size = 6", "log_size = 0x6"),
            "`log_size` is not written in decimal digits alone",
        ),
        of(
            h,
            "number-in-octal",
            "A number is written in octal.",
            &replaced(h, "log_size = 6", "log_size = 0o6"),
            "`log_size` is not written in decimal digits alone",
        ),
        of(
            h,
            "number-with-sign",
            "A number has a sign.",
            &replaced(h, "log_size = 6", "log_size = +6"),
            "`log_size` is not written in decimal digits alone",
        ),
        of(
            h,
            "number-negative",
            "A number is below zero.",
            &replaced(h, "log_size = 6", "log_size = -6"),
            "`log_size` is out of range",
        ),
        of(
            h,
            "number-too-large",
            "A number has more than 64 bits.",
            &replaced(h, "log_size = 6", "log_size = 18446744073709551622"),
            "`log_size` is out of range",
        ),
        of(
            h,
            "number-fraction",
            "A number is a fraction.",
            &replaced(h, "log_size = 6", "log_size = 6.0"),
            "`log_size` must be a whole number",
        ),
        of(
            h,
            "hash-in-capitals",
            "A hash is written in capitals.",
            &upper,
            "a hash is 64 lower-case hex digits",
        ),
        of(
            h,
            "time-without-offset",
            "A time has no offset, so that it is another one elsewhere.",
            &replaced(h, "2027-01-05T00:00:00Z", "2027-01-05T00:00:00"),
            "`expires` must be a date and time with an offset",
        ),
    ]
}
