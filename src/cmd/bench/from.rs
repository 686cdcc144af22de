//! `--from ID`: a published profile says which model, which tests and which values; what it was measured on may have
//! changed since.

use capgate_registry::evidence::manifest::{Guest, Host};
use capgate_registry::profile::{Profile, Values, Verdict};

use crate::cli::{BenchArgs, RegistryArgs};
use crate::cmd::opened;
use crate::exit::Failure;
use crate::ui::Ui;

/// What is taken from a profile.
#[derive(Debug)]
pub struct Followed {
    id: String,
    /// The sets it lists.
    pub values: Vec<Values>,
    /// The Mac it was measured on.
    pub host: Host,
    /// The virtual machine it was measured in.
    pub guest: Guest,
    tests: Vec<String>,
    models: Vec<(String, String)>,
}

/// The profile that is followed, if one is.
pub fn followed(ui: &Ui, args: &BenchArgs) -> Result<Option<Followed>, Failure> {
    let Some(id) = &args.from else { return Ok(None) };
    let (Some(registry), Some(root)) = (args.registry.clone(), args.root) else {
        return Err(Failure::usage("`--from` needs a registry")
            .help("name it with `--registry` and `--root`, or `CAPGATE_REGISTRY` and `CAPGATE_ROOT`"));
    };
    let place = RegistryArgs { registry, root, now: args.now };
    let (reader, _) = opened::reader(ui, &place)?;
    let mut ids = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|doubt| opened::doubted(&doubt, &place.registry))?;
        for published in record.published {
            if published.profile.id.to_string() != *id {
                ids.push(published.profile.id.to_string());
                continue;
            }
            if let Some(revoked) = published.revoked {
                return Err(Failure {
                    exit: crate::exit::Exit::Refused,
                    ..Failure::failed(format!("`{id}` was revoked: {}", revoked.reason))
                }
                .help("name the values yourself with `--override`, if they are to be tried again"));
            }
            return Followed::of(&published.profile).map(Some);
        }
    }
    let near = ids.iter().min_by_key(|other| strsim::damerau_levenshtein(other, id));
    let failure = Failure::failed(format!("no profile `{id}` is in force"));
    Err(match near {
        Some(near) => failure.help(format!("did you mean `{near}`? `capgate list` names all")),
        None => failure,
    })
}

impl Followed {
    fn of(profile: &Profile) -> Result<Self, Failure> {
        if profile.verdict == Verdict::Stock {
            return Err(Failure::failed(format!("`{}` concludes stock, so it names no values", profile.id))
                .help("name values with `--override`, or leave `--from` out"));
        }
        let mut tests: Vec<String> = Vec::new();
        let mut models: Vec<(String, String)> = Vec::new();
        for evidence in &profile.evidence {
            for test in &evidence.tests {
                if !tests.contains(&test.name) {
                    tests.push(test.name.clone());
                }
            }
            let model = evidence.model.as_ref();
            models.extend(model.and_then(|model| Some((model.sha256?.to_string(), model.name.clone()))));
        }
        let (host, guest) = (&profile.host, &profile.guest);
        Ok(Self {
            id: profile.id.to_string(),
            values: profile.overrides.iter().map(|set| set.values).collect(),
            host: Host {
                chip: host.chip.clone(),
                os: host.os.clone(),
                apple_family: host.answers.apple_family,
                max_threadgroup_memory: Some(host.answers.max_threadgroup_memory),
                feature_level: host.feature_level,
            },
            guest: Guest {
                os: guest.os.clone(),
                model: Some(guest.model.clone()),
                stock_family: guest.stock.apple_family,
                stock_memory: Some(guest.stock.max_threadgroup_memory),
            },
            tests,
            models,
        })
    }

    /// Adds the tests of the profile where the words name none.
    pub fn add_words(&self, words: &mut Vec<String>) {
        let names_tests = |word: &String| {
            matches!(word.as_str(), "-p" | "--n-prompt" | "-n" | "--n-gen" | "-pg" | "-d" | "--n-depth")
        };
        if words.iter().any(names_tests) {
            return;
        }
        let of = |prefix: &str| {
            let numbers = self.tests.iter().filter_map(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
            let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
            if numbers.is_empty() { "0".to_owned() } else { numbers.join(",") }
        };
        let (prompt, generated) = (of("pp"), of("tg"));
        if prompt != "0" || generated != "0" {
            words.extend(["-p".to_owned(), prompt, "-n".to_owned(), generated]);
        }
    }

    /// The model must be one that the profile was measured with.
    pub fn check_model(&self, sha256: &str) -> Result<(), Failure> {
        if self.models.is_empty() || self.models.iter().any(|(known, _)| known == sha256) {
            return Ok(());
        }
        let names: Vec<String> =
            self.models.iter().map(|(digest, name)| format!("`{name}` (sha256:{digest})")).collect();
        let message = format!(
            "the model has sha256:{sha256}, and `{}` was measured with {}",
            self.id,
            names.join(", ")
        );
        Err(Failure::invalid(message)
            .help("name that model with `-m`, or leave `--from` out and name values with `--override`"))
    }
}
