//! Why a process sees Apple's own answers: every reason, its code, and what can be done about it.
//!
//! Codes are stable: they stand in decision logs, and scripts match on them.

use std::fmt;

use capgate_registry::record::Doubt;
use serde::{Serialize, Serializer};

/// Who can change the cause of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixer {
    /// Whoever starts the program.
    User,
    /// Whoever runs the guest: its state folder, its site policy, its disk.
    Operator,
    /// Whoever runs the host that the guest is on.
    HostOperator,
    /// Whoever publishes the registry.
    Publisher,
}

impl Fixer {
    /// The same for a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::User => "whoever starts the program",
            Self::Operator => "the operator of this guest",
            Self::HostOperator => "the operator of the host",
            Self::Publisher => "the publishers of the registry",
        }
    }
}

macro_rules! reasons {
    ($($row:literal $name:ident $code:literal $fixer:ident $explanation:literal $advice:literal;)+) => {
        /// One reason for stock answers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $explanation] $name,)+
        }

        impl Reason {
            /// Every reason, in the order in which they are checked.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable code.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),+ }
            }

            /// Row of the decision table, 1 to 14.
            pub fn row(self) -> u8 {
                match self { $(Self::$name => $row),+ }
            }

            /// What it means, in one sentence.
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$name => $explanation),+ }
            }

            /// Who can change the cause.
            pub fn fixer(self) -> Fixer {
                match self { $(Self::$name => Fixer::$fixer),+ }
            }

            /// What to do, in one sentence.
            pub fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice),+ }
            }
        }
    };
}

reasons! {
    1 Disabled "disabled" User
        "capgate is switched off, by `CAPGATE_DISABLE` or by `mode = \"off\"` in the site policy."
        "Unset `CAPGATE_DISABLE`, or set `mode = \"enforce\"` in the site policy, and start the program again.";
    2 RegistryMissing "registry-missing" Operator
        "This prefix holds no registry."
        "Copy a published registry to where it is looked for.";
    2 RegistryUnreadable "registry-unreadable" Operator
        "The registry's files cannot be read, or others than root and this user may write them."
        "See that the file that the detail names exists, and correct its owner and mode.";
    2 RegistryMalformed "registry-malformed" Operator
        "A part of the registry does not have its form, or is newer than this capgate."
        "Update capgate, then copy the registry again.";
    2 RegistryUnsigned "registry-unsigned" Publisher
        "Too few of the keys that must sign have signed."
        "Run `capgate verify`, which names the missing signatures; do not use the registry until it passes.";
    2 RegistryWrongKey "registry-wrong-key" Operator
        "The registry belongs to another root of trust than the pinned one."
        "Compare the digest of the root with the one that the publishers give, and pin the right one.";
    2 RegistryWrongOrigin "registry-wrong-origin" Operator
        "The registry names another origin than the one that was pinned."
        "Copy the registry from the address that its publishers name.";
    2 ClockBehind "clock-behind" Operator
        "The clock stands before a time that a verified signature names."
        "Set the clock of this guest.";
    2 RegistryRollback "registry-rollback" Operator
        "The registry is older than one that this prefix has verified before."
        "Copy the registry again; if it stays, the server or someone on the way hands out an old one.";
    2 RegistryExpired "registry-expired" Publisher
        "The registry's signature of freshness is past its date."
        "Copy the registry again; if there is nothing newer, the publishers run `capgate renew`, or the root keys sign a new trust where that expired.";
    2 RegistryCorrupt "registry-corrupt" Operator
        "A part of the registry is not what was signed, or a record is not about its own key."
        "Run `capgate verify`, which names the changed file, and copy the registry again.";
    2 RegistryUnwitnessed "registry-unwitnessed" Publisher
        "Too few of the witnesses that the site policy demands have cosigned the registry's checkpoint."
        "Copy the registry again; if it stays, the publishers run `capgate witness ask`, or somebody shows this guest another history.";
    2 SiteUnreadable "site-unreadable" Operator
        "The site policy that was named cannot be read, or others may write it."
        "See that the file that the detail names exists, and correct its owner and mode.";
    2 SiteMalformed "site-malformed" Operator
        "The site policy is not understood in full, so none of it may be relied on."
        "Run `capgate policy check` and correct what it names.";
    3 FactVirtualMachineMissing "fact-virtual-machine-missing" Operator
        "It is not known whether this is a virtual machine."
        "Run `capgate probe` as the same user; `kern.hv_vmm_present` must be readable.";
    3 FactVirtualMachineMalformed "fact-virtual-machine-malformed" Operator
        "The system's answer whether this is a virtual machine is neither yes nor no."
        "Stay stock, and report the output of `capgate probe`.";
    3 FactNotAGuest "fact-not-a-guest" User
        "This is not a virtual machine: its GPU already reports what it has."
        "Nothing: capgate is for macOS guests.";
    3 FactHostChipMissing "fact-host-chip-missing" Operator
        "The host's chip is not known."
        "Run `capgate probe`; in a facts file, add `host_chip`.";
    3 FactHostChipMalformed "fact-host-chip-malformed" Operator
        "What names the host's chip is not a chip's name."
        "Correct `host_chip` in the facts file; on a guest, update its macOS until it knows the chip.";
    3 FactGuestOsBuildMissing "fact-guest-os-build-missing" Operator
        "The build of the guest's macOS is not known."
        "Run `capgate probe`; in a facts file, add `guest_os_build`.";
    3 FactGuestOsBuildMalformed "fact-guest-os-build-malformed" Operator
        "What names the guest's macOS is not a build such as `25F84`."
        "Correct `guest_os_build` in the facts file; on a guest, report the output of `capgate probe`.";
    3 FactHostOsBuildMissing "fact-host-os-build-missing" Operator
        "The facts file does not name the build of the host's macOS."
        "Add `host_os_build`.";
    3 FactHostOsBuildMalformed "fact-host-os-build-malformed" Operator
        "What the facts file names as the host's macOS is not a build such as `25G76`."
        "Correct `host_os_build`.";
    3 FactGuestModelMissing "fact-guest-model-missing" Operator
        "The guest's model is not known."
        "Run `capgate probe` as the same user; `hw.model` must be readable.";
    3 FactGuestModelMalformed "fact-guest-model-malformed" Operator
        "What the guest gives as its model is not a model such as `VirtualMac2,1`."
        "Stay stock, and report the output of `capgate probe`.";
    3 FactWorkloadMissing "fact-workload-missing" User
        "The program's identity is not known: no cdhash, and no SHA-256 that counts."
        "Give the program with `--workload PATH`; restart it if its file was replaced while it ran.";
    3 FactWorkloadMalformed "fact-workload-malformed" User
        "What names the program is neither `sha256:` with 64 digits nor `cdhash:` with 40."
        "Give the program's file with `--workload PATH`, or write its digest in that form.";
    4 HostMissing "host-missing" HostOperator
        "There is no host statement, and a guest cannot see its host's macOS by itself."
        "Have the host sign a statement about itself with `capgate host attest`, and give it to the guest.";
    4 HostUnreadable "host-unreadable" Operator
        "The host statement is there but cannot be read, or others may write it."
        "See that the file that the detail names exists, and correct its owner and mode.";
    4 HostMalformed "host-malformed" HostOperator
        "The host statement does not have its form, or is about another registry."
        "Have the host sign the statement again with `capgate host attest`, for this registry's origin.";
    4 HostWrongSigner "host-wrong-signer" Operator
        "No host key of the site policy signed the host statement."
        "Add the host's public key to `host_keys` in the site policy, if the statement is indeed that host's.";
    4 HostNotYetValid "host-not-yet-valid" HostOperator
        "The host statement was issued after what the guest's clock says."
        "Set the clocks of host and guest.";
    4 HostExpired "host-expired" HostOperator
        "The host statement is past its date."
        "See that the host renews its statement (`capgate host attest --watch`), and that the guest gets it, at least every hour.";
    4 HostOtherChip "host-other-chip" HostOperator
        "The host statement names another chip than the one this guest runs on."
        "See that the shared folder holds the statement of the host that the guest is on.";
    4 HostOtherVm "host-other-vm" HostOperator
        "The host statement is for other virtual machines."
        "Add this guest's MAC address to the statement, or correct the shared folder.";
    4 HostNewerSnapshot "host-newer-snapshot" Operator
        "The host demands a newer registry than the one here."
        "Copy the registry again; the host knows a newer one.";
    5 SiteDenied "site-denied" Operator
        "A deny rule of the site policy covers it."
        "Ask the rule's owner; its reason stands beside it.";
    6 NoProfile "no-profile" Publisher
        "Nobody has published a test of exactly this combination."
        "Stay stock, hold the update that led here, or measure the combination and publish a profile.";
    7 Revoked "revoked" Publisher
        "The profile of this combination was revoked."
        "Stay stock; the revocation says why. A new profile needs new evidence.";
    7 Ambiguous "ambiguous" Publisher
        "Several live profiles claim this combination."
        "The publishers revoke or supersede all but one.";
    8 VerdictStock "verdict-stock" Publisher
        "The combination was tested, and no override is wanted."
        "Stay stock; new evidence can supersede the profile.";
    9 OutOfBounds "out-of-bounds" Publisher
        "The profile lists a set outside the values that capgate ever reports."
        "The publishers supersede the profile with one inside the bounds.";
    9 ProfileDiffers "profile-differs" HostOperator
        "A digest of the program, the guest's model or the host's recorded feature level is not what was tested."
        "Run program and guest as the profile says, or measure what runs here and publish a profile.";
    10 EvidenceMissing "evidence-missing" Publisher
        "No set has evidence that names exactly its values."
        "Supersede the profile with one whose evidence names its sets; `capgate lint` shows what is missing.";
    10 Unacknowledged "unacknowledged" Publisher
        "No set says aloud all that it must: values above the host's own, or images that were not recorded."
        "Supersede the profile with one that adds the words to `acknowledges`; `capgate lint` names them.";
    10 EvidenceCorrectness "evidence-correctness" Publisher
        "No set has the correctness test that is demanded, or its test failed."
        "Add correctness evidence to the profile, or drop the demand in the site policy.";
    10 EvidenceSamples "evidence-samples" Publisher
        "The evidence has fewer samples than the site policy demands."
        "Measure again with more samples, or lower the demand.";
    10 EvidenceAge "evidence-age" Publisher
        "The evidence is older than the site policy allows, or dated in the future."
        "Measure again, or raise `max_age_days`.";
    10 EvidenceSigners "evidence-signers" Publisher
        "Too few of the publishers that the site policy demands have signed the profile."
        "Ask the named publishers to sign, or change the demand.";
    11 SiteCeiling "site-ceiling" Operator
        "No tested set lies within the ceilings of the site policy."
        "Raise the ceiling, or measure a set within it and publish it.";
    12 Observed "observed" Operator
        "The site policy only observes: this would have been a grant."
        "Set `mode = \"enforce\"` when the log shows what you expect.";
    13 LogUnwritable "log-unwritable" Operator
        "The decision could not be logged, and what is not logged is not granted."
        "Correct folder, owner or free space of the file that the detail names.";
    14 ImageUnrecorded "image-unrecorded" Publisher
        "The profile does not record which images talk to Metal, and does not say so aloud."
        "Publish a profile that lists them in [[workload.image]].";
    14 ImageUnlisted "image-unlisted" User
        "An image that may touch Metal is loaded and not listed in the profile."
        "Start the program without it, or measure with it and publish a profile.";
    14 ImageDiffers "image-differs" User
        "An image that may touch Metal is not the one that was tested."
        "Install the tested version, or measure this one and publish a profile.";
    14 DeviceDiffers "device-differs" Publisher
        "The device's own answers are not those that the profile was tested against."
        "Look for another shim in the process; otherwise measure again and publish a profile.";
    14 NotInserted "not-inserted" User
        "The library cannot be inserted into this program, or the shim that was asked for is not one that may be."
        "Mend what the detail names; `capgate doctor PROGRAM` looks at all of it.";
}

impl From<&Doubt> for Reason {
    fn from(doubt: &Doubt) -> Self {
        match doubt {
            Doubt::Missing(_) => Self::RegistryMissing,
            Doubt::Unreadable(_) => Self::RegistryUnreadable,
            Doubt::Malformed(_) => Self::RegistryMalformed,
            Doubt::Unsigned(_) => Self::RegistryUnsigned,
            Doubt::WrongKey(_) => Self::RegistryWrongKey,
            Doubt::WrongOrigin(_) => Self::RegistryWrongOrigin,
            Doubt::Expired(_) => Self::RegistryExpired,
            Doubt::Rollback(_) => Self::RegistryRollback,
            Doubt::Corrupt(_) => Self::RegistryCorrupt,
            Doubt::Unwitnessed(_) => Self::RegistryUnwitnessed,
            Doubt::ClockBehind(_) => Self::ClockBehind,
        }
    }
}

impl Reason {
    /// The reason with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_rows_ascend() {
        for (i, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
            assert!(Reason::ALL[..i].iter().all(|earlier| earlier.row() <= reason.row()), "{reason}");
            assert!(reason.explanation().ends_with('.') && reason.advice().ends_with('.'), "{reason}");
        }
        let rows: std::collections::BTreeSet<u8> = Reason::ALL.iter().map(|r| r.row()).collect();
        assert_eq!(rows, (1..=14).collect());
    }

    #[test]
    fn every_doubt_keeps_its_code() {
        let text = String::new;
        for doubt in [
            Doubt::Missing(text()),
            Doubt::Unreadable(text()),
            Doubt::Malformed(text()),
            Doubt::Unsigned(text()),
            Doubt::WrongKey(text()),
            Doubt::WrongOrigin(text()),
            Doubt::Expired(text()),
            Doubt::Rollback(text()),
            Doubt::Corrupt(text()),
            Doubt::ClockBehind(text()),
        ] {
            assert_eq!(Reason::from(&doubt).code(), doubt.code());
        }
    }

    /// The table for operators is the same text.
    #[test]
    fn docs_explain_every_reason_in_the_same_words() {
        let docs = include_str!("../../docs/policy.md");
        for reason in Reason::ALL {
            let row = format!(
                "| {} | `{reason}` | {} | {} | {} |",
                reason.row(),
                reason.explanation(),
                reason.fixer().phrase(),
                reason.advice()
            );
            assert!(docs.contains(&row), "add to docs/policy.md: {row}");
        }
    }
}
