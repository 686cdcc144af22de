//! The command line of llama-bench: one for all arms, and what must not stand in it.
//!
//! Its options take their value as the next word; underscores in long names mean hyphens.

/// A command line that every arm shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The words behind the program's name.
    pub words: Vec<String>,
    /// The model file.
    pub model: String,
    /// Whether `-o json` was added.
    pub added_output: bool,
}

/// Why a command line cannot be measured with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// What is wrong.
    pub message: String,
    /// What to give instead.
    pub help: String,
}

const MODEL: [&str; 2] = ["-m", "--model"];
const OUTPUT: [&str; 2] = ["-o", "--output"];
const REPETITIONS: [&str; 2] = ["-r", "--repetitions"];
const LAYERS: [&str; 2] = ["-ngl", "--n-gpu-layers"];
/// Models that are no file: which bytes they are is not known before they run.
const FETCHED: [&str; 6] = ["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft"];
/// What prints and measures nothing.
const NOTHING: [&str; 4] = ["-h", "--help", "--version", "--list-devices"];

/// Checks the words of a user and adds `-o json` where no format was named.
pub fn prepare(words: &[String]) -> Result<Line, Unfit> {
    if let Some(word) = words.iter().find(|word| is(word, &NOTHING)) {
        return Err(unfit(format!("`{word}` measures nothing"), "leave it out"));
    }
    if let Some(word) = words.iter().find(|word| is(word, &FETCHED)) {
        let help = "download the model, and name the file with `-m`";
        return Err(unfit(format!("`{word}` names a model whose digest is not known"), help));
    }
    let mut words = words.to_vec();
    check_repetitions(&words)?;
    let added_output = add_output(&mut words)?;
    check_layers(&words)?;
    let models = values(&words, &MODEL)?;
    match models.as_slice() {
        [model] if !model.contains(',') => Ok(Line { model: model.clone(), words, added_output }),
        [] => Err(unfit("no model is named".to_owned(), "add `-m FILE` behind `--`")),
        _ => Err(unfit("more than one model is named".to_owned(), "measure one model at a time")),
    }
}

/// The same words for an arm without the GPU.
pub fn without_gpu(words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    let mut found = false;
    for index in 0..words.len() {
        if words.get(index).is_some_and(|word| is(word, &LAYERS))
            && let Some(value) = words.get_mut(index + 1)
        {
            "0".clone_into(value);
            found = true;
        }
    }
    if !found {
        words.extend(["-ngl", "0"].map(str::to_owned));
    }
    words
}

fn check_repetitions(words: &[String]) -> Result<(), Unfit> {
    for value in values(words, &REPETITIONS)? {
        match value.parse::<u64>() {
            Ok(0) => {
                let help = "give 1 or more: each round is one process, and its repetitions are samples of it";
                return Err(unfit("`-r 0` measures nothing".to_owned(), help));
            }
            Ok(_) => {}
            Err(_) => return Err(unfit(format!("`-r {value}` is no number"), "give 1 or more")),
        }
    }
    Ok(())
}

fn add_output(words: &mut Vec<String>) -> Result<bool, Unfit> {
    let formats = values(words, &OUTPUT)?;
    if let Some(other) = formats.iter().find(|format| !matches!(format.as_str(), "json" | "jsonl")) {
        return Err(unfit(
            format!("`-o {other}` holds no samples"),
            "leave it out, or give `-o json` or `-o jsonl`",
        ));
    }
    let missing = formats.is_empty();
    if missing {
        words.extend(["-o", "json"].map(str::to_owned));
    }
    Ok(missing)
}

/// Where stock runs without the GPU there is nothing to compare, and a list makes several tests of one.
fn check_layers(words: &[String]) -> Result<(), Unfit> {
    for value in values(words, &LAYERS)? {
        if value == "0" {
            let help = "leave it out; `--cpu` adds an arm without the GPU";
            return Err(unfit("`-ngl 0` leaves the GPU out of every arm".to_owned(), help));
        }
        if value.parse::<i64>().is_err() {
            return Err(unfit(format!("`-ngl {value}` is no single number"), "give one number for all arms"));
        }
    }
    Ok(())
}

/// The values of an option, each time it is given.
fn values(words: &[String], names: &[&str]) -> Result<Vec<String>, Unfit> {
    let mut values = Vec::new();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| is(word, names)) {
        let value = words.get(index + 1);
        let value =
            value.ok_or_else(|| unfit(format!("`{word}` lacks its value"), "give it as the next word"))?;
        values.push(value.clone());
    }
    Ok(values)
}

fn is(word: &str, names: &[&str]) -> bool {
    let name = if word.starts_with("--") { word.replace('_', "-") } else { word.to_owned() };
    names.contains(&name.as_str())
}

fn unfit(message: String, help: &str) -> Unfit {
    Unfit { message, help: help.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn samples_are_asked_for_where_nobody_did() {
        let line = prepare(&words("-m a.gguf -p 512")).unwrap();
        assert_eq!((line.words.join(" ").as_str(), line.added_output), ("-m a.gguf -p 512 -o json", true));
        let line = prepare(&words("--model a.gguf --output jsonl -ngl 99")).unwrap();
        assert_eq!((line.model.as_str(), line.added_output), ("a.gguf", false));
    }

    #[test]
    fn what_cannot_be_measured_with_is_refused_with_a_way_out() {
        for (line, message) in [
            ("-p 512", "no model is named"),
            ("-m a.gguf -m b.gguf", "more than one model is named"),
            ("-m a.gguf,b.gguf", "more than one model is named"),
            ("-m a.gguf -o csv", "`-o csv` holds no samples"),
            ("-m a.gguf -r 0", "`-r 0` measures nothing"),
            ("-m a.gguf -r many", "`-r many` is no number"),
            ("-m a.gguf -ngl 0", "`-ngl 0` leaves the GPU out of every arm"),
            ("-m a.gguf --n_gpu_layers 0,99", "`-ngl 0,99` is no single number"),
            ("-m a.gguf -o", "`-o` lacks its value"),
            ("-hf some/model", "`-hf` names a model whose digest is not known"),
            ("-m a.gguf --help", "`--help` measures nothing"),
        ] {
            let unfit = prepare(&words(line)).unwrap_err();
            assert_eq!(unfit.message, message, "{line}");
            assert!(!unfit.help.is_empty());
        }
    }

    #[test]
    fn the_arm_without_the_gpu_differs_in_nothing_else() {
        assert_eq!(without_gpu(&words("-m a -ngl 99 -o json")), words("-m a -ngl 0 -o json"));
        assert_eq!(without_gpu(&words("-m a -o json")), words("-m a -o json -ngl 0"));
    }
}
