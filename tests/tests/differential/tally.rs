//! Answers of devices, compared with each other and with the committed answers.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpsmith::Device;
use warpsmith_tests::differential::golden::{self, Answers, Golden, H200};

/// Number of failures that are described in full.
const DESCRIBED: usize = 4;

/// Number of further failures that get one line each; the rest are only counted.
const LISTED: usize = 200;

/// The answers of one device, part by part.
pub(crate) struct Asked {
    device: String,
    is_gpu: bool,
    answer: Result<Vec<Vec<u64>>, String>,
}

/// Runs the work on every device.
pub(crate) fn ask(
    devices: &[Device],
    run: impl Fn(&Device) -> warpsmith::Result<Vec<Vec<u64>>>,
) -> Vec<Asked> {
    let one = |device: &Device| Asked {
        device: device.name().to_owned(),
        is_gpu: !device.is_emulator(),
        answer: run(device).map_err(|error| error.to_string()),
    };
    devices.iter().map(one).collect()
}

/// Parts (forms or programs) whose answers belong together.
pub(crate) struct Question<'a> {
    /// Their name in the golden file.
    pub(crate) name: String,
    /// Which parts were run; the others have no answer.
    pub(crate) parts: Vec<bool>,
    pub(crate) asked: &'a [Asked],
    /// The name of a part, and the meaning of a word of its answer.
    pub(crate) describe: &'a dyn Fn(usize, usize) -> (String, String),
}

/// Failures so far, and how much was compared.
pub(crate) struct Tally {
    what: &'static str,
    devices: String,
    golden: Golden,
    parts: usize,
    words: usize,
    /// Questions without a committed answer.
    unanswered: usize,
    failures: Vec<String>,
    recorded: Golden,
}

impl Tally {
    pub(crate) fn new(what: &'static str, devices: &[Device]) -> Self {
        let names: Vec<&str> = devices.iter().map(Device::name).collect();
        let golden = Golden::parse(H200).unwrap_or_else(|line| panic!("golden/h200.txt: {line}"));
        Self {
            what,
            devices: names.join(" and "),
            golden,
            parts: 0,
            words: 0,
            unanswered: 0,
            failures: Vec::new(),
            recorded: Golden::default(),
        }
    }

    /// Compares the answers of all devices with each other and with the committed ones.
    pub(crate) fn judge(&mut self, question: &Question<'_>) {
        let key = (self.what.to_owned(), question.name.clone());
        self.parts += question.parts.iter().filter(|asked| **asked).count();
        let gpu = question.asked.iter().find(|one| one.is_gpu);
        for one in question.asked {
            let answer = match &one.answer {
                Ok(answer) => answer,
                Err(error) => {
                    let failure = format!("{}: {} fails: {error}", question.name, one.device);
                    self.failures.push(failure);
                    continue;
                }
            };
            self.words += answer.iter().map(Vec::len).sum::<usize>();
            let answers = kept(&question.parts, answer);
            match gpu {
                Some(gpu) if !one.is_gpu => self.compare(question, one, answer, gpu),
                _ if recording().is_none() => self.check(question, one, answer, &key, &answers),
                _ => {}
            }
            if one.is_gpu {
                self.recorded.0.insert(key.clone(), answers);
            }
        }
    }

    /// Compares the emulator with the GPU, word by word.
    fn compare(&mut self, question: &Question<'_>, one: &Asked, answer: &[Vec<u64>], gpu: &Asked) {
        let Ok(right) = &gpu.answer else { return };
        for (part, (words, right)) in answer.iter().zip(right).enumerate() {
            let Some(index) = (0..right.len()).find(|i| words.get(*i) != Some(&right[*i])) else {
                continue;
            };
            let wrong = words.iter().zip(right).filter(|(a, b)| a != b).count();
            let (name, text) = (question.describe)(part, index);
            self.failures.push(format!(
                "{name}: {wrong} of {} differ; first {index}: {} gives {:#x}, {} gives {:#x}: {text}",
                right.len(),
                one.device,
                words[index],
                gpu.device,
                right[index],
            ));
        }
    }

    /// Compares a device with the committed answers.
    fn check(
        &mut self,
        question: &Question<'_>,
        one: &Asked,
        answer: &[Vec<u64>],
        key: &(String, String),
        answers: &Answers,
    ) {
        let Some(want) = self.golden.0.get(key) else {
            self.unanswered += 1;
            return;
        };
        if want == answers {
            return;
        }
        if (want.words, want.hashes.len()) != (answers.words, answers.hashes.len()) {
            let text = format!("{} words, the H200 gave {}", answers.words, want.words);
            self.failures.push(format!("{}: {text}", question.name));
            return;
        }
        let asked = question
            .parts
            .iter()
            .enumerate()
            .filter(|(_, asked)| **asked);
        for (part, (index, _)) in asked.enumerate() {
            if want.hashes[index] != answers.hashes[index] {
                let (name, text) = (question.describe)(part, 0);
                let text = text.lines().skip(1).collect::<Vec<_>>().join("\n");
                let words = answer[part].len();
                self.failures.push(format!(
                    "{name}: {} gives {words} words of another hash than an H200 gave: {text}",
                    one.device
                ));
            }
        }
    }

    /// Prints the totals, writes the recorded answers, and fails if a comparison failed or an
    /// answer is missing.
    pub(crate) fn finish(mut self) {
        if recording().is_none() && self.unanswered != 0 {
            self.failures.push(format!(
                "{} questions have no committed answer: run with WARPSMITH_GOLDEN on a GPU",
                self.unanswered
            ));
        }
        println!(
            "{} {}, {} answers on {}: {} questions without a committed answer, {} failures",
            self.parts,
            self.what,
            self.words,
            self.devices,
            self.unanswered,
            self.failures.len()
        );
        if let Some(path) = recording() {
            let text = self
                .recorded
                .to_text(&format!("{} on {}", self.what, self.devices));
            let path = format!("{path}.{}", self.what);
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("writing {path}: {error}"));
        }
        let mut report = String::new();
        for failure in self.failures.iter().skip(DESCRIBED).take(LISTED) {
            let _ = writeln!(report, "{}", failure.lines().next().unwrap_or_default());
        }
        for failure in self.failures.iter().take(DESCRIBED) {
            let _ = writeln!(report, "{failure}\n");
        }
        let count = self.failures.len();
        assert!(self.failures.is_empty(), "{count} failures:\n{report}");
    }
}

/// The hashes that are kept of the answers.
fn kept(parts: &[bool], answer: &[Vec<u64>]) -> Answers {
    let mut hashes = answer.iter().map(|words| golden::short(words));
    Answers {
        words: answer.iter().map(Vec::len).sum(),
        hashes: parts
            .iter()
            .map(|asked| asked.then(|| hashes.next()).flatten())
            .collect(),
    }
}

/// The file to record a GPU's answers in; nothing is then compared with the committed ones.
fn recording() -> Option<String> {
    std::env::var("WARPSMITH_GOLDEN").ok()
}

/// The index of this process's share of the work, and the number of shares.
fn shard() -> (usize, usize) {
    let Ok(text) = std::env::var("WARPSMITH_SHARD") else {
        return (0, 1);
    };
    let parsed = text.split_once('/').and_then(|(index, of)| {
        let (index, of): (usize, usize) = (index.parse().ok()?, of.parse().ok()?);
        (index < of).then_some((index, of))
    });
    parsed.unwrap_or_else(|| panic!("WARPSMITH_SHARD is `{text}`, want 0/16 to 15/16, say"))
}

/// Does this process's share of the work with two threads.
pub(crate) fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let (index, of) = shard();
    let mine = items.into_iter().skip(index).step_by(of);
    let queue: Mutex<VecDeque<T>> = Mutex::new(mine.collect());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = { lock(&queue).pop_front() } {
                    work(item);
                }
            });
        }
    });
}

/// Locks even if a worker panicked: it has already reported that.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The contents of a mutex after all workers have ended.
pub(crate) fn unwrap<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
