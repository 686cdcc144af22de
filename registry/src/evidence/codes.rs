//! Every code that reading or judging evidence can give, with its meaning.
//!
//! Codes are part of the output others rely on: one is never renamed and never given another meaning.

use serde::{Serialize, Serializer};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The evidence counts, and whoever relies on it is told.
    Warning,
    /// The evidence does not count.
    Refusal,
}

macro_rules! codes {
    ($($variant:ident $code:literal $severity:ident $meaning:literal;)+) => {
        /// What is wrong with a file or a bundle.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)+
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable kebab-case name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// One line on what it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }

            /// The weight it has unless its place lowers or raises it.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)+ }
            }
        }
    };
}

codes! {
    // The bundle and its list of digests.
    SumsMissing "sums-missing" Refusal "the bundle has no SHA256SUMS, so nothing pins its bytes";
    SumsMalformed "sums-malformed" Refusal "a line of SHA256SUMS is not `<64 lower-case hex digits>  <name>`";
    SumsPath "sums-path" Refusal "SHA256SUMS or the manifest names a path outside the bundle, an absolute path or one with backslashes";
    SumsDuplicate "sums-duplicate" Refusal "SHA256SUMS lists the same file twice";
    DigestMismatch "digest-mismatch" Refusal "a file's bytes are not the ones that SHA256SUMS lists";
    FileMissing "file-missing" Refusal "a listed or named file is not in the bundle or cannot be read";
    UnlistedFile "unlisted-file" Warning "a file is used but SHA256SUMS does not list it, so nothing pins its bytes";
    ManifestMalformed "manifest-malformed" Refusal "the manifest cannot be read as one";
    Link "link" Refusal "a file of the bundle is a symbolic link";
    TooLarge "too-large" Refusal "a file, or a list in it, is larger than a reader accepts";

    // What a single file is.
    EmptyFile "empty-file" Refusal "the file holds nothing";
    UnknownKind "unknown-kind" Refusal "the file is nothing that can serve as evidence";
    NoSamplesFormat "no-samples-format" Refusal "the format (csv, md, sql) holds means only; rerun with -o json or jsonl";
    TextAroundJson "text-around-json" Refusal "there is other text before, between or after the JSON";
    Truncated "truncated" Refusal "the JSON stops before its end";
    MalformedJson "malformed-json" Refusal "the JSON cannot be read, repeats a key or holds something that is no number";
    MissingField "missing-field" Refusal "a field that every generation of the format has is not there";
    MalformedField "malformed-field" Refusal "a field has a value that it cannot have";
    NoSamples "no-samples" Refusal "a test has no samples at all";
    ZeroSample "zero-sample" Refusal "a sample is zero";
    SamplesDisagree "samples-disagree" Refusal "rates or means in the file do not follow from its own samples";
    GarbledPath "garbled-path" Warning "the model path is not ASCII and was garbled by llama-bench";
    Aborted "aborted" Refusal "the program crashed, was killed or ended with an error";
    MultipleDevices "multiple-devices" Refusal "more than one GPU device was in use; profiles are for one";
    DevicesDisagree "devices-disagree" Refusal "the log reports one device with different capabilities";
    ResearchHook "research-hook" Refusal "a broad research hook was active, which changes more than the two answers";
    CompatVersion "compat-version" Warning "16.x and 10.16 are answers of compatibility mode, not releases; the build decides";
    BetaBuild "beta-build" Warning "the build is a beta and never matches a release";
    UnknownChip "unknown-chip" Refusal "the chip is not named, so no combination can be";
    RecordMalformed "record-malformed" Refusal "a run record cannot be read as one";
    RecordIncomplete "record-incomplete" Refusal "a run record was written before its program ended, and never completed";
    RecordSecret "record-secret" Refusal "a run record holds what looks like a secret, so its bundle must not be published";
    RecordDiffers "record-differs" Refusal "a run record names other systems or files than the manifest";
    SipUnknown "sip-unknown" Warning "the state of System Integrity Protection is none of enabled, disabled and custom";

    // How well an arm was measured.
    TooFewSamples "too-few-samples" Refusal "a test has fewer than 3 samples";
    FewSamples "few-samples" Warning "a test has 3 to 9 samples";
    Contended "contended" Refusal "the samples spread by a CV above 15 %: something else was running";
    Spread "spread" Warning "the samples spread by a CV of 5 to 15 %";
    Drift "drift" Refusal "the samples rise or fall steadily by more than 5 %: throttling or warm-up";
    DuplicateSamples "duplicate-samples" Refusal "two files hold the very same samples, so one is a copy";

    // Whether arms can be compared.
    NoStockArm "no-stock-arm" Refusal "there is no stock arm to compare with";
    NoOverrideArm "no-override-arm" Refusal "there is no override arm, so no values were tested";
    BuildDiffers "build-differs" Refusal "two arms were measured with different builds of the program";
    ModelDiffers "model-differs" Refusal "two arms were measured with different models";
    SettingsDiffer "settings-differ" Refusal "two arms ran a test with different settings";
    TestsDiffer "tests-differ" Warning "an arm lacks a test that another has, which is then not scored";
    NoSharedTest "no-shared-test" Refusal "stock and override arm have no test in common";
    MachineDiffers "machine-differs" Refusal "a file was measured on another machine than the workload names";
    GpuArm "gpu-arm" Refusal "the arm that should run on the CPU alone offloads layers to the GPU";
    ArmsApart "arms-apart" Warning "the arms began more than 60 minutes apart";
    TimeUnrecorded "time-unrecorded" Warning "an arm does not say when it ran";

    // What proves that the override was active, and that stock was stock.
    LogMissing "log-missing" Refusal "a process of the arm has no log, so nothing shows what its device answered";
    BannerMissing "banner-missing" Refusal "the log of an override arm has no shim's banner";
    BannerMismatch "banner-mismatch" Refusal "the shim's banner names other values than the manifest claims";
    FamilyMismatch "family-mismatch" Refusal "the log reports another Apple family than the manifest claims";
    CapabilityMissing "capability-missing" Refusal "the log does not show the capabilities that the claimed values bring";
    ProbeMismatch "probe-mismatch" Refusal "a capability probe answers otherwise than the manifest claims";
    StockArmShimmed "stock-arm-shimmed" Refusal "the arm that should be stock carries a shim's banner or raised answers";
    StockDiffers "stock-differs" Refusal "the stock arm's log reports another Apple family than the manifest's stock answers";
    HostDiffers "host-differs" Refusal "the host arm's log reports another Apple family than the manifest's host";
    EnvironmentDiffers "environment-differs" Refusal "an environment file contradicts the manifest";
    EnvironmentSilent "environment-silent" Warning "no environment file of the bundle confirms a build that the manifest names";
    ShimUnrecorded "shim-unrecorded" Warning "the digest of the shim is not recorded";
    OutOfBounds "out-of-bounds" Refusal "the claimed values are outside what capgate can ever grant";

    // What nobody measured or said.
    NoHostArm "no-host-arm" Warning "there is no bare-metal arm, so how much is left to gain is unknown";
    NoCorrectness "no-correctness" Warning "nothing shows that the answers were right, only that they were fast";
    CorrectnessFailed "correctness-failed" Refusal "a correctness run failed or its outputs differ";
    NothingTested "nothing-tested" Warning "a correctness run tried nothing that an override changes, or does not say how it ended";
    ReferenceWrong "reference-wrong" Warning "an arm that others are held against has wrong operations itself, so it vouches for none";
    ReferencesDiffer "references-differ" Warning "the arms that an answer is held against disagree among themselves, so it settles nothing";
    PromptsDiffer "prompts-differ" Warning "two correctness runs are of other prompts, settings or text, and were not compared";
    LadderUndecided "ladder-undecided" Warning "several sets count, and which is the least sufficient one cannot be said";
    StaleMmapGuest "stale-mmap-guest" Refusal "macOS 14 guests read stale mapped weights and answer wrongly at full speed";
    HostPreferenceUnrecorded "host-preference-unrecorded" Warning "nobody recorded whether the host's unrestricted feature level preference was set";
    ImagesUnrecorded "images-unrecorded" Warning "the images that talk to Metal are not recorded beside the executable";
    AboveHostFamily "above-host-family" Warning "the claimed Apple family is above what the host's own GPU reports";
    AboveHostMemory "above-host-memory" Warning "the claimed threadgroup memory is above what the host's own GPU reports";
    HostUnrecorded "host-unrecorded" Warning "the host GPU's own answers are not recorded, so nothing can be compared with them";
    SlowerTest "slower-test" Warning "a test is more than 5 % slower with the override";
    BenefitForgone "benefit-forgone" Warning "the verdict sought is stock although a test gains 5 % or more";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl std::str::FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.name() == text).ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// Says that a text is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a finding code")]
pub struct UnknownCode(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_kebab_case_and_round_trip() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for code in Code::ALL {
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
            assert_eq!(code.name().parse::<Code>(), Ok(*code));
            assert!(!code.meaning().ends_with('.'), "{code}");
        }
        assert!("nothing".parse::<Code>().is_err());
    }
}
