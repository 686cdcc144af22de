//! Every reason for stock answers: what the program sees, what the log says, what standard error says.

use std::fs;

use capgate_policy::reason::Reason;
use capgate_registry::note::Note;
use capgate_registry::witness::WitnessSigner;
use jiff::{SignedDuration, Timestamp};

use crate::guest::{CDHASH, Guest, ORIGIN, Plan, key, profile};
use crate::identity;
use crate::machofile::{Image, linking_metal};

const DEVICE: &str = "AppleParavirtDevice";

/// Only a facts file can lack these, or name them wrongly, and the library never reads one. The kernel's answer about
/// the program is 20 bytes or none. A library that was not inserted decides nothing (tests/shim/run.rs).
const NOT_HERE: [Reason; 4] = [
    Reason::FactHostOsBuildMissing,
    Reason::FactHostOsBuildMalformed,
    Reason::FactWorkloadMalformed,
    Reason::NotInserted,
];

macro_rules! reasons {
    ($($name:ident $reason:ident $plan:expr, $then:expr;)+) => {
        $(
            #[test]
            fn $name() {
                let plan: Plan = $plan;
                let guest = plan.make();
                let then: fn(&Guest) = $then;
                then(&guest);
                guest.ask(&[DEVICE]).is_stock(DEVICE, Reason::$reason.code());
            }
        )+

        #[test]
        fn every_reason_is_tested_here_or_named_as_out_of_reach() {
            let tested = [$(Reason::$reason),+, Reason::Disabled, Reason::LogUnwritable];
            for reason in Reason::ALL {
                assert!(tested.contains(reason) != NOT_HERE.contains(reason), "{reason}");
            }
        }
    };
}

fn plan() -> Plan {
    Plan::default()
}

fn remove(guest: &Guest, name: &str) {
    fs::remove_file(guest.state(name)).unwrap();
}

fn edit(guest: &Guest, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(guest.state(name)).unwrap();
    change(&mut bytes);
    fs::write(guest.state(name), bytes).unwrap();
}

/// Lines of a site policy that demand some of two witnesses.
fn witnesses(threshold: u8) -> String {
    let keys = [21, 22].map(|byte| witness(byte).verifier().to_string());
    format!("witness_keys = [\"{}\"]\nwitness_threshold = {threshold}\n", keys.join("\", \""))
}

fn witness(byte: u8) -> WitnessSigner {
    WitnessSigner::new(key(&format!("w{byte}.test"), byte))
}

fn cosign(guest: &Guest, witnesses: &[u8]) {
    edit(guest, "registry/log/checkpoint", |bytes| {
        let text = Note::parse(bytes).unwrap().text().to_owned();
        witnesses.iter().for_each(|byte| {
            bytes.extend(witness(*byte).cosign(&text, Timestamp::now()).unwrap().into_bytes())
        });
    });
}

#[test]
fn a_registry_that_enough_witnesses_cosigned_is_believed() {
    let guest = plan().site(&witnesses(2)).make();
    cosign(&guest, &[21, 22]);
    guest.ask(&[DEVICE]).is_granted(DEVICE);
}

/// The one snapshot of the registry.
fn snapshot(guest: &Guest) -> String {
    let folder = fs::read_dir(guest.state("registry/snapshot")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| name.ends_with(".snap")).collect();
    found.sort();
    format!("registry/snapshot/{}", found.pop().unwrap())
}

const LATEST: &str = "registry/snapshot/latest.note";
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn memory(version: u64) -> String {
    format!("version = {version}\nlog_size = 0\ntrust = 1\ntime = 2026-01-01T00:00:00Z\n")
}

fn images() -> Plan {
    // The profile names one image, and says nothing about unrecorded ones.
    plan()
        .edit_profile(
            "acknowledges = [\"above-host-family\", \"above-host-memory\", \"images-unrecorded\"]",
            "acknowledges = [\"above-host-family\", \"above-host-memory\"]",
        )
        .edit_profile(
            "[[override]]",
            &format!(
                "[[workload.image]]\nname = \"libggml-metal.dylib\"\ncdhash = \"{}\"\n\n[[override]]",
                Image::new("ggml").cdhash()
            ),
        )
}

fn load(guest: &Guest, path: &str, image: &Image) {
    let file = guest.folder.join("standin/image");
    fs::write(&file, image.bytes()).unwrap();
    guest.answer("images", &format!("{path} {}\n", file.display()));
}

reasons! {
    switched_off_by_policy Disabled Plan { site: plan().site.replace("enforce", "off"), ..plan() }, |_| {};
    registry_missing RegistryMissing plan(), |guest| remove(guest, LATEST);
    registry_unreadable RegistryUnreadable plan(), |guest| Guest::mode(&guest.state(LATEST), 0o666);
    registry_malformed RegistryMalformed plan(), |guest| guest.put(LATEST, "nothing\n");
    registry_unsigned RegistryUnsigned plan(), |guest| edit(guest, LATEST, |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace(&format!("\u{2014} {ORIGIN} "), "\u{2014} other.test/gpu ").into_bytes();
    });
    registry_wrong_key RegistryWrongKey plan(), |guest| {
        guest.put("root.note", &format!("sha256:{}\n", "1".repeat(64)));
    };
    registry_wrong_origin RegistryWrongOrigin plan(), |guest| edit(guest, LATEST, |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replacen(ORIGIN, "else.test/gpu", 1).into_bytes();
    });
    clock_behind ClockBehind Plan { published: DAY, ..plan() }, |_| {};
    registry_rollback RegistryRollback plan(), |guest| guest.put("seen", &memory(2));
    registry_expired RegistryExpired Plan { published: -DAY * 31, ..plan() }, |_| {};
    registry_corrupt RegistryCorrupt plan(), |guest| edit(guest, &snapshot(guest), |bytes| bytes[200] ^= 1);
    registry_unwitnessed RegistryUnwitnessed plan().site(&witnesses(2)), |guest| cosign(guest, &[21]);
    site_unreadable SiteUnreadable plan(), |guest| Guest::mode(&guest.state("site.toml"), 0o622);
    site_malformed SiteMalformed plan().site("[demnad]\nsamples = 3\n"), |_| {};
    virtual_machine_missing FactVirtualMachineMissing plan().edit_sysctl("kern.hv_vmm_present=#1\n", ""), |_| {};
    virtual_machine_malformed FactVirtualMachineMalformed plan().edit_sysctl("present=#1", "present=#2"), |_| {};
    not_a_guest FactNotAGuest plan().edit_sysctl("present=#1", "present=#0"), |_| {};
    chip_missing FactHostChipMissing plan().edit_sysctl("machdep", "x"), |_| {};
    chip_malformed FactHostChipMalformed plan().edit_sysctl("Apple M1 Ultra (Virtual)", "Apple processor"), |_| {};
    guest_os_missing FactGuestOsBuildMissing plan().edit_sysctl("kern.osversion", "x"), |_| {};
    guest_os_malformed FactGuestOsBuildMalformed plan().edit_sysctl("25F84", "26.5.2"), |_| {};
    model_missing FactGuestModelMissing plan().edit_sysctl("hw.model", "x"), |_| {};
    model_malformed FactGuestModelMalformed plan().edit_sysctl("VirtualMac2,1", "Virtual Mac"), |_| {};
    workload_missing FactWorkloadMissing plan(), |guest| {
        // The kernel does not say which program runs, so its file's SHA-256 proves nothing.
        fs::remove_file(guest.folder.join("standin/cdhash")).unwrap();
    };
    host_missing HostMissing Plan { statement: None, ..plan() }, |_| {};
    host_unreadable HostUnreadable plan(), |guest| Guest::mode(&guest.state("host.note"), 0o646);
    host_malformed HostMalformed plan(), |guest| guest.put("host.note", "nothing\n");
    host_wrong_signer HostWrongSigner Plan { host: key("host.test", 5), ..plan() }, |_| {};
    host_not_yet_valid HostNotYetValid Plan { statement: Some(later(DAY)), ..plan() }, |_| {};
    host_expired HostExpired Plan { statement: Some(later(-DAY)), ..plan() }, |_| {};
    host_other_chip HostOtherChip plan().edit_statement("M1 Ultra", "M4"), |_| {};
    host_other_vm HostOtherVm plan().edit_statement("issued", "mac_addresses = [\"5e:00:00:00:00:01\"]\nissued"), |_| {};
    host_newer_snapshot HostNewerSnapshot plan().edit_statement("issued", "least_version = 9\nissued"), |_| {};
    site_denied SiteDenied plan().site("[[deny]]\nid = \"all\"\nreason = \"a test\"\nowner = \"tests\"\nworkload_name = \"llama-bench\"\n"), |_| {};
    no_profile NoProfile plan(), |guest| guest.answer("cdhash", &format!("{}2\n", &CDHASH[..39]));
    revoked Revoked Plan {
        revocation: Some("schema = \"1.0.0\"\nrevokes = \"tested\"\nreason = \"a test\"\nseverity = \"harmful\"\n".to_owned()),
        ..plan()
    }, |_| {};
    // One profile names the program by its cdhash, the other by its file.
    ambiguous Ambiguous identity::twice(), |guest| identity::run_as(guest, &identity::program());
    verdict_stock VerdictStock Plan { profiles: vec![stock_profile()], ..plan() }, |_| {};
    out_of_bounds OutOfBounds plan().edit_profile("apple_family_max = 1009", "apple_family_max = 1011"), |_| {};
    profile_differs ProfileDiffers plan().edit_sysctl("VirtualMac2,1", "VirtualMac3,1"), |_| {};
    evidence_missing EvidenceMissing plan().edit_profile("override = { apple_family_max = 1009", "override = { apple_family_max = 1008"), |_| {};
    unacknowledged Unacknowledged plan().edit_profile("\"above-host-family\", ", ""), |_| {};
    evidence_correctness EvidenceCorrectness plan().site("[demand]\ncorrectness = true\n"), |_| {};
    evidence_samples EvidenceSamples plan().site("[demand]\nsamples = 100\n"), |_| {};
    evidence_age EvidenceAge plan().site("[demand]\nmax_age_days = 1\n"), |_| {};
    evidence_signers EvidenceSigners plan().site("[demand]\nsigners = [\"nobody.test\"]\n"), |_| {};
    site_ceiling SiteCeiling plan().site("[ceiling]\napple_family_max = 1007\n"), |_| {};
    observed Observed Plan { site: plan().site.replace("enforce", "observe"), ..plan() }, |_| {};
    image_unrecorded ImageUnrecorded plan().edit_profile("name = \"llama-bench\"", "name = \"python3\""), |_| {};
    image_unlisted ImageUnlisted images(), |guest| {
        load(guest, "/opt/other/libother.dylib", &linking_metal("other"));
    };
    image_differs ImageDiffers images(), |guest| {
        load(guest, "/opt/llama/libggml-metal.dylib", &linking_metal("another ggml"));
    };
    device_differs DeviceDiffers plan().edit_profile("stock = { apple_family = 1005", "stock = { apple_family = 1006"), |_| {};
}

/// A statement that was issued at another time.
fn later(by: SignedDuration) -> String {
    let issued = jiff::Timestamp::now() + by;
    let text = crate::guest::statement();
    let keep: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    format!("{keep}issued = {issued:.0}\nexpires = {:.0}\n", issued + SignedDuration::from_hours(1))
}

fn stock_profile() -> String {
    let text = profile("tested").replace("verdict = \"override\"", "verdict = \"stock\"");
    let (before, rest) = text.split_once("[[override]]").unwrap();
    let (_, evidence) = rest.split_once("[[evidence]]").unwrap();
    let evidence =
        evidence.replace("override = { apple_family_max = 1009, max_threadgroup_memory = 65536 }\n", "");
    format!("{before}[[evidence]]{evidence}")
}

#[test]
fn switched_off_by_the_variable() {
    let guest = plan().make();
    let ran = guest.finish(guest.command(&crate::built::built().ask).arg(DEVICE).env("CAPGATE_DISABLE", "1"));
    ran.is_stock(DEVICE, "disabled");
}

#[test]
fn rule_2_what_cannot_be_logged_is_not_granted() {
    type Break = (&'static str, fn(&Guest));
    let breaks: [Break; 5] = [
        ("folder", |guest| fs::remove_dir_all(guest.log().parent().unwrap()).unwrap()),
        ("link", |guest| std::os::unix::fs::symlink("/dev/null", guest.log()).unwrap()),
        ("directory", |guest| fs::create_dir(guest.log()).unwrap()),
        ("second name", |guest| {
            fs::write(guest.log(), "").unwrap();
            fs::hard_link(guest.log(), guest.folder.join("second")).unwrap();
        }),
        ("writable folder", |guest| Guest::mode(guest.log().parent().unwrap(), 0o777)),
    ];
    for (name, break_it) in breaks {
        let guest = plan().make();
        break_it(&guest);
        let ran = guest.ask(&[DEVICE]);
        assert_eq!(ran.out, format!("{DEVICE} {}\n", crate::guest::STOCK), "{name}: {ran:?}");
        assert!(ran.err.starts_with("[capgate] Stock: log-unwritable: "), "{name}: {}", ran.err);
    }
}
