//! `--correctness`: whether the answers of each arm are right, by llama.cpp's own programs, started once in each arm with
//! the same trials as the measured program.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use capgate_guest::identity;
use capgate_registry::evidence::bench::check::{Check, What};
use capgate_registry::evidence::bench::label;
use capgate_registry::evidence::bench::state::Ran;
use capgate_registry::evidence::correctness::greedy::{Answer, Greedy, MOST_PROMPTS};
use capgate_registry::evidence::correctness::{completion, ops, perplexity};
use capgate_registry::evidence::manifest::Arm;

use super::Bench;
use super::arms::{Identity, Subject};
use super::commands::command;
use super::folder::not_written;
use super::measure::{Eyes, Halt};
use crate::cli::BenchArgs;
use crate::cmd::run::program;
use crate::exit::{Exit, Failure};
use crate::ui::count;
use crate::world::file;

/// Where the files of tests of correctness go.
const FOLDER: &str = "correctness";
/// Largest file of prompts.
const MAX_PROMPTS: u64 = 256 * 1024;
/// Largest output or session file that is read.
const MAX_OUTPUT: u64 = 64 << 20;
/// How often a program is started that ends well and does not say all: llama-perplexity loses its last lines now and then.
const MOST_TRIES: usize = 5;
/// Tokens of one answer.
const PREDICT: &str = "64";
/// Tokens of one chunk of a text.
const CHUNK: &str = "512";
/// What is answered where nobody says otherwise: facts, numbers, code, another language, a long memory.
const PROMPTS: [&str; 6] = [
    "The capital of France is",
    "Count from one to twenty in words: one, two, three,",
    "fn fibonacci(n: u64) -> u64 {",
    "Die Hauptstadt von Italien heißt",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the",
    "Water boils at one hundred degrees, and it freezes at",
];

/// A test, found before anything is measured.
#[derive(Debug)]
pub struct Planned {
    path: PathBuf,
    check: Check,
    /// One start for each.
    starts: Vec<Start>,
}

/// One start of a program.
#[derive(Debug)]
struct Start {
    /// The prompt that it answers, where it does.
    prompt: String,
    words: Vec<String>,
}

/// The tests that were asked for: those whose program was named, or lies beside the measured one.
pub fn find(args: &BenchArgs, model: &str, measured: &Path) -> Result<Vec<Planned>, Failure> {
    if !args.correctness {
        return Ok(Vec::new());
    }
    let mut planned = Vec::new();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    if let Some(path) = located(args.ops.as_deref(), What::Operations, measured)? {
        let mut all = words(&["test"]);
        all.extend(args.ops_words.iter().flat_map(|more| more.split_whitespace()).map(str::to_owned));
        planned.push(plan(What::Operations, path, vec![Start { prompt: String::new(), words: all }])?);
    }
    if let Some(path) = located(args.greedy.as_deref(), What::Answers, measured)? {
        let starts = prompts(args.prompts.as_deref())?.into_iter().map(|prompt| {
            let fixed =
                ["-m", model, "-n", PREDICT, "--temp", "0", "--seed", "1", "-no-cnv", "--no-display-prompt"];
            let words = words(&[&fixed[..], &["--log-jsonl", "--prompt-cache-all", "-p", &prompt]].concat());
            Start { prompt, words }
        });
        planned.push(plan(What::Answers, path, starts.collect())?);
    }
    if let Some(text) = &args.text {
        let path = located(args.perplexity.as_deref(), What::Perplexity, measured)?;
        let path = path.ok_or_else(|| {
            Failure::failed("there is no `llama-perplexity` beside the measured program")
                .help("name it with `--perplexity PROGRAM`")
        })?;
        let text = text.to_string_lossy();
        let words = words(&["-m", model, "-f", &text, "-c", CHUNK]);
        planned.push(plan(What::Perplexity, path, vec![Start { prompt: String::new(), words }])?);
    }
    if planned.is_empty() {
        return Err(Failure::failed(
            "there is neither `test-backend-ops` nor `llama-completion` beside the measured program",
        )
        .help("build them as docs/correctness.md says, or name them with `--ops` and `--greedy`"));
    }
    Ok(planned)
}

/// The program that was named, which must be there, or the one beside the measured program, which may.
fn located(named: Option<&Path>, what: What, measured: &Path) -> Result<Option<PathBuf>, Failure> {
    let failed = |failure: Failure| Failure { exit: Exit::Failed, ..failure };
    match named {
        Some(path) => program::find(path.as_os_str()).map(|found| Some(found.path)).map_err(failed),
        None => Ok(Some(measured.with_file_name(what.program())).filter(|path| path.is_file())),
    }
}

fn plan(what: What, path: PathBuf, starts: Vec<Start>) -> Result<Planned, Failure> {
    let identity =
        identity::of_file(&path).map_err(|e| Failure::failed(format!("`{}` {e}", path.display())))?;
    let program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let check = Check { what, program, sha256: identity.sha256.to_string(), runs: Vec::new() };
    Ok(Planned { path, check, starts })
}

fn prompts(file: Option<&Path>) -> Result<Vec<String>, Failure> {
    let Some(path) = file else { return Ok(PROMPTS.map(str::to_owned).to_vec()) };
    let shown = path.display();
    let bytes = file::read_shared(path, MAX_PROMPTS)
        .map_err(|e| Failure::failed(format!("the prompts `{shown}` cannot be read: {e}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::invalid(format!("the prompts `{shown}` are not UTF-8")))?;
    let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if lines.is_empty() || lines.len() > MOST_PROMPTS {
        let held = count(lines.len(), "prompt");
        return Err(Failure::invalid(format!("`{shown}` holds {held}"))
            .help(format!("give 1 to {MOST_PROMPTS}, one a line")));
    }
    Ok(lines)
}

impl Bench<'_> {
    /// Runs each test once in each arm that is not given up yet.
    pub(super) fn run_checks(&mut self, planned: Vec<Planned>, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        for (index, planned) in planned.into_iter().enumerate() {
            // A bundle that is gone on with has the first of them already.
            if index >= self.state.checks.len() {
                self.run_check(planned, index, eyes)?;
            }
        }
        Ok(())
    }

    fn run_check(&mut self, planned: Planned, index: usize, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        let Planned { path, mut check, starts } = planned;
        let words = starts.first().map(|start| start.words.clone()).unwrap_or_default();
        let subject = Subject { program: &path, words: &words, sha256: &check.sha256 };
        let identity = if self.tried.is_some() { Some(self.ask(&subject, eyes)?) } else { None };
        self.bundle.begin_round()?;
        let folder = format!("{FOLDER}/{:02}", index + 1);
        for arm in self.state.running_arms() {
            // It holds every other device against the processor, and has nothing to say of an arm without one.
            if check.what == What::Operations && arm == Arm::Cpu {
                continue;
            }
            self.ui.hint(format!("correctness: `{}` in the {arm} arm", check.program));
            let run = self.check_arm(&path, &check, &starts, arm, identity.as_ref(), eyes)?;
            if let Some(mut run) = run {
                run.output = format!("{folder}/{}", run.output);
                run.log = format!("{folder}/{}", run.log);
                check.runs.push(run);
            }
        }
        if check.runs.is_empty() {
            return Err(Failure::failed(format!("`{}` ran in no arm", check.program)).into());
        }
        self.bundle.keep_round(&folder)?;
        self.state.checks.push(check);
        self.bundle.save(&self.state)?;
        Ok(())
    }

    /// Every start in one arm; none where an arm that others are held against came to no good.
    fn check_arm(
        &self,
        path: &PathBuf,
        check: &Check,
        starts: &[Start],
        arm: Arm,
        identity: Option<&Identity>,
        eyes: &mut Eyes<'_>,
    ) -> Result<Option<Ran>, Halt> {
        let name = label::label(arm);
        let mut arm_of = OfArm {
            bench: self,
            name: name.clone(),
            answers: Vec::new(),
            output: Vec::new(),
            log: Vec::new(),
        };
        let mut last = None;
        for (index, start) in starts.iter().enumerate() {
            let part = format!("{name}.{:03}", index + 1);
            let run = self.start(path, check.what, (start, &part), arm, identity, eyes)?;
            arm_of.take(check.what, start, &run, &self.session(&part))?;
            let is_good = run.is_good();
            if !is_good {
                self.ui.warn(format!("`{}` {} in the {arm} arm", check.program, run.ending()));
            }
            // What an operation that is wrong ends with; the output says which it was.
            let says_it = check.what == What::Operations && run.status == Some(1);
            if !is_good && !says_it && !matches!(arm, Arm::Override(_)) {
                return Ok(None);
            }
            last = Some(run);
        }
        let Some(run) = last else { return Ok(None) };
        let (output, log) = arm_of.write(check.what)?;
        Ok(Some(Ran { arm: name, output, log, ..run }))
    }

    /// One start of a program in one arm, again where it ended well and did not say all.
    fn start(
        &self,
        path: &PathBuf,
        what: What,
        (start, part): (&Start, &str),
        arm: Arm,
        identity: Option<&Identity>,
        eyes: &mut Eyes<'_>,
    ) -> Result<Ran, Halt> {
        let values = if let Arm::Override(values) = arm { Some(values) } else { None };
        let session = self.session(part);
        let mut words = start.words.clone();
        if what == What::Answers {
            words.extend(["--prompt-cache".to_owned(), session.display().to_string()]);
        }
        if arm == Arm::Cpu {
            words.extend(["-ngl", "0"].map(str::to_owned));
        }
        for _ in 0..MOST_TRIES {
            let trial = values.map(|values| self.trial(Some(values), identity)).transpose()?;
            let mut command = command(path, &words, trial.as_ref());
            let run = eyes.run(&self.bundle, part, "out", &mut command, &mut || false)?;
            let (out, err) = (self.bundle.current(&run.output), self.bundle.current(&run.log));
            if !run.is_good() || is_whole(what, &read(&out)?, &read(&err)?) {
                if let Some(trial) = &trial {
                    self.keep_decisions(part, trial)?;
                }
                return Ok(run);
            }
            remove(&[out, err, session.clone()])?;
        }
        let lost = format!("`{}` ended well {MOST_TRIES} times and never said all", path.display());
        Err(Failure::failed(lost).help("run it by hand: its output has no end").into())
    }

    /// The file in which a program leaves the numbers of its tokens.
    fn session(&self, part: &str) -> PathBuf {
        self.bundle.current(&format!("{part}.session"))
    }
}

/// Whether a program that ended well said all that it has to say.
fn is_whole(what: What, out: &[u8], err: &[u8]) -> bool {
    match what {
        What::Operations => ops::read(out).is_some_and(|run| run.is_complete),
        What::Answers => completion::read(out, None).is_some_and(|found| found.is_whole),
        What::Perplexity => perplexity::read(err).is_some_and(|run| run.is_finished),
    }
}

fn remove(files: &[PathBuf]) -> Result<(), Failure> {
    for path in files {
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(not_written(path, &e)),
            _ => {}
        }
    }
    Ok(())
}

/// What one arm printed, put together.
struct OfArm<'a> {
    bench: &'a Bench<'a>,
    name: String,
    answers: Vec<Answer>,
    output: Vec<u8>,
    log: Vec<u8>,
}

impl OfArm<'_> {
    /// Takes what one start left, and removes it.
    fn take(&mut self, what: What, start: &Start, run: &Ran, session: &Path) -> Result<(), Failure> {
        let (output, log) = (self.bench.bundle.current(&run.output), self.bench.bundle.current(&run.log));
        let out = read(&output)?;
        let err = read(&log)?;
        match what {
            What::Answers => {
                let tokens = file::read(session, MAX_OUTPUT).ok();
                let found = completion::read(&out, tokens.as_deref()).unwrap_or_default();
                self.answers.push(Answer { prompt: start.prompt.clone(), tokens: found.tokens });
                self.log.extend(err);
                self.log.extend(found.log.into_bytes());
            }
            // Its estimate stands in the one, its chunks in the other.
            What::Perplexity => {
                self.output.extend([&err[..], b"\n", &out[..]].concat());
                self.log.extend(err);
            }
            What::Operations => {
                self.output.extend(out);
                self.log.extend(without_status(err, run));
            }
        }
        remove(&[output, log, session.to_owned()])
    }

    fn write(self, what: What) -> Result<(String, String), Failure> {
        let end = if what == What::Answers { "answers.jsonl" } else { "txt" };
        let (output, log) = (format!("{}.{end}", self.name), format!("{}.log", self.name));
        let answers = Greedy { settings: settings(), answers: self.answers };
        let text = if what == What::Answers { answers.to_lines().into_bytes() } else { self.output };
        for (name, bytes) in [(&output, text), (&log, self.log)] {
            let written = self.bench.bundle.new_file(name)?.write_all(&bytes);
            written.map_err(|e| not_written(&self.bench.bundle.current(name), &e))?;
        }
        Ok((output, log))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    file::read(path, MAX_OUTPUT)
        .map_err(|e| Failure::failed(format!("`{}` cannot be read: {e}", path.display())))
}

/// A wrong operation is no crash: the output says it, and the log needs no line about the status.
fn without_status(log: Vec<u8>, run: &Ran) -> Vec<u8> {
    const LINE: &[u8] = b"\n[capgate bench] exit status 1\n";
    if run.status == Some(1) && log.ends_with(LINE) {
        return log.get(..log.len() - LINE.len()).map(<[u8]>::to_vec).unwrap_or_default();
    }
    log
}

fn settings() -> BTreeMap<String, String> {
    [("n_predict", PREDICT), ("seed", "1"), ("temperature", "0")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}
