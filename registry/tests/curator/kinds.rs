//! Good signatures under texts that were meant for something else.

use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::note::{self, Kind, Origin};
use capgate_registry::publish;
use capgate_registry::snapshot::{RawProfile, RawRecord};

use super::content::with;
use super::honest::{History, sign_profile, sign_revocation};
use super::keys::{evil, in_force};
use super::thief::{Forgery, latest_of, record, records_of, sign_raw, text_of};
use super::{Case, case};
use crate::support::Memory;

const BUNDLE: &str = "log/tile/entries/000.p/7";

pub fn cases(h: &History) -> Vec<Case> {
    [origins(h), kinds(h), entries(h)].into_iter().flatten().collect()
}

fn staging() -> Origin {
    Origin::parse("staging.test/capgate").unwrap()
}

/// `latest.note` with another text, signed by the registry key as it is.
fn latest_text(h: &History, text: &str) -> Memory {
    with(h, latest::PATH, sign_raw(text.as_bytes(), &[&h.keys.registry]))
}

fn origins(h: &History) -> Vec<Case> {
    let honest = latest_of(h.version(6)).to_toml();
    let foreign = note::compose(Kind::Latest, &staging(), &honest).unwrap();
    let staged = publish::sign_profile(&evil(), &staging(), &[&h.keys.alice, &h.keys.bob]).unwrap();
    let says = "the text belongs to `staging.test/capgate`, not to `registry.test/capgate`";
    vec![
        case(
            h,
            "wrong-origin",
            "The registry key, used for a staging registry too, signed its `latest.note`.",
            latest_text(h, &foreign),
        )
        .holds("a note that the registry key signed elsewhere")
        .lookup("registry-wrong-origin", says)
        .verify(latest::PATH, says)
        .sync("registry-wrong-origin", says),
        case(
            h,
            "staging-profile",
            "A profile that its publishers signed for a staging registry stands in this one.",
            in_force(h, &staged),
        )
        .holds("the registry key, a profile that publishers signed elsewhere")
        .lookup("registry-wrong-origin", says)
        .verify(BUNDLE, says)
        .sync("entry", says),
    ]
}

fn kinds(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let checkpoint = h.version(6).get(CHECKPOINT);
    let latest = h.version(6).get(latest::PATH);
    let text = text_of(&latest);
    let statement = text.replacen("# capgate latest", "# capgate host", 1);
    let newer = text.replacen("latest v1", "latest v2", 1);
    let malformed = |case: Case, says: &str| {
        case.lookup("registry-malformed", says).verify(latest::PATH, says).sync("registry-malformed", says)
    };
    let trust = sign_raw(text_of(&h.version(6).get("trust/2.note")).as_bytes(), &[&k.registry]);
    vec![
        malformed(
            case(
                h,
                "checkpoint-as-latest",
                "The checkpoint, which the registry key signed, stands in the place of `latest.note`.",
                with(h, latest::PATH, checkpoint),
            ),
            "the text does not begin with `# capgate <kind> v1 <origin>`",
        ),
        case(
            h,
            "latest-as-checkpoint",
            "`latest.note`, which the registry key signed, stands in the place of the checkpoint.",
            with(h, CHECKPOINT, latest),
        )
        .lookup_grants("tested-two")
        .verify(CHECKPOINT, "a checkpoint is three lines")
        .sync("damaged", "a checkpoint is three lines"),
        malformed(
            case(
                h,
                "host-statement-as-latest",
                "A host statement by a key that is the registry's, too, says what `latest.note` would.",
                latest_text(h, &statement),
            )
            .holds("a note that the registry key signed for another purpose"),
            "the text is a `host`, a `latest` is needed here",
        ),
        malformed(
            case(
                h,
                "trust-as-latest",
                "A trust note, signed by the registry key, stands in the place of `latest.note`.",
                with(h, latest::PATH, trust),
            )
            .holds("a note that the registry key signed for another purpose"),
            "the text is a `trust`, a `latest` is needed here",
        ),
        malformed(
            case(
                h,
                "latest-of-a-newer-format",
                "`latest.note` is of a version that this reader does not know.",
                latest_text(h, &newer),
            )
            .holds("the registry key"),
            "the text is version `v2` of its kind, only `v1` is known",
        ),
    ]
}

/// Publishers' notes in places that are not theirs.
fn entries(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let revocation = sign_revocation("third-one", &[&k.alice, &k.bob]);
    let as_profile = Forgery::of(h).log(&revocation).record(&record(&evil(), 6, &revocation)).make();
    let profile = sign_profile(&crate::support::profile("fifth-one", 5), &[&k.alice, &k.bob]);
    let tested = records_of(h.version(6)).into_iter().find(|r| r.profiles[0].index == 2).unwrap();
    let revoked_by = |note: &[u8], index| {
        let honest = tested.profiles[0].clone();
        let profiles = vec![RawProfile { revocation: Some((index, note.to_vec())), ..honest }];
        RawRecord { profiles, ..tested.clone() }
    };
    let as_revocation = Forgery::of(h).log(&profile).record(&revoked_by(&profile, 6)).make();
    let of_another = Forgery::of(h).log(&revocation).record(&revoked_by(&revocation, 6)).make();
    let trust = h.version(6).get("trust/2.note");
    let snapshot = |store: &Memory| latest_of(store).snapshot_path();
    let (first, second, third) = (snapshot(&as_profile), snapshot(&as_revocation), snapshot(&of_another));
    let logged_trust = Forgery::of(h).log(&trust).make();
    let root = |store: &Memory| latest_of(store).root.to_string();
    let differs = |store: &Memory| format!("records under {}, but the log leads to", root(store));
    let (a, b, c) = (differs(&as_profile), differs(&as_revocation), differs(&of_another));
    vec![
        case(
            h,
            "revocation-as-profile",
            "A revocation, which publishers signed, stands in a record where a profile should.",
            as_profile,
        )
        .holds("the registry key")
        .lookup("registry-malformed", "the text is a `revocation`, a `profile` is needed here")
        .verify(&first, "is not what the log leads to")
        .sync("damaged", &a),
        case(
            h,
            "profile-as-revocation",
            "A profile, which publishers signed, stands in a record where a revocation should.",
            as_revocation,
        )
        .holds("the registry key")
        .lookup("registry-corrupt", "the revocation at log index 6 revokes something else")
        .verify(&second, "is not what the log leads to")
        .sync("damaged", &b),
        case(
            h,
            "revocation-of-another",
            "The revocation of one profile stands in another one's record.",
            of_another,
        )
        .holds("the registry key")
        .lookup("registry-corrupt", "the revocation at log index 6 revokes something else")
        .verify(&third, "is not what the log leads to")
        .sync("damaged", &c),
        case(h, "trust-as-entry", "A trust note stands in the log.", logged_trust)
            .holds("the registry key")
            .lookup_grants("tested-two")
            .verify(BUNDLE, "the text is a `trust`, a `revocation` is needed here")
            .sync("entry", "the text is a `trust`, a `revocation` is needed here"),
    ]
}
