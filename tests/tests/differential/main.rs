//! Same PTX, same bits: single instructions and random programs on every device, against each
//! other and against what an H200 answered.
//!
//! `WARPSMITH_TEST_DEVICE` chooses the devices. `WARPSMITH_GOLDEN` names a file to write the answers
//! of a GPU to, in the form of `golden/h200.txt`.

use std::fmt::Write;

use warpsmith::{Device, testing};
use warpsmith_tests::differential::engine;
use warpsmith_tests::differential::forms::{self, Form};
use warpsmith_tests::differential::golden::{Answer, Golden, H200};
use warpsmith_tests::differential::program::{self, Program, Vocabulary};

/// Random programs, each from its number.
const PROGRAMS: u64 = 400;

/// Programs that ptxas 13.0 compiles to something else than PTX says. In 89 a 16-bit shift by the
/// result of `cnot.b32` reads a register that was never given the amount; in 360 a `vote.sync.uni`
/// is moved into a divergent branch.
const MISCOMPILED: [u64; 2] = [89, 360];

/// Programs whose answer PTX leaves to the machine: in 247 `abs.s16` of -32768 is +32768 in the 32
/// bits that a GPU keeps 16-bit values in, and `sad.s16` takes it so; in 16 bits it is -32768.
const MACHINE_SPECIFIC: [u64; 1] = [247];

/// Failures described in full.
const DESCRIBED: usize = 4;

/// Further failures named in one line; the rest are counted.
const LISTED: usize = 100;

/// What one device answered to one question.
struct Asked {
    device: String,
    is_gpu: bool,
    answer: Result<Vec<u64>, String>,
}

fn ask(devices: &[Device], run: impl Fn(&Device) -> warpsmith::Result<Vec<u64>>) -> Vec<Asked> {
    let one = |device: &Device| Asked {
        device: device.name().to_owned(),
        is_gpu: !device.is_emulator(),
        answer: run(device).map_err(|error| error.to_string()),
    };
    devices.iter().map(one).collect()
}

/// Failures so far, and what was compared.
#[derive(Default)]
struct Tally {
    questions: usize,
    words: usize,
    failures: Vec<String>,
    recorded: Golden,
}

impl Tally {
    /// Holds the answers of all devices against the committed one and against each other;
    /// `describe` says what stands behind an index of the answer.
    fn judge(
        &mut self,
        golden: &Golden,
        key: (&str, String),
        asked: &[Asked],
        describe: impl Fn(usize) -> String,
    ) {
        self.questions += 1;
        let key = (key.0.to_owned(), key.1);
        let want = golden.0.get(&key);
        let mut fail = |text: String| self.failures.push(format!("{} {}: {text}", key.0, key.1));
        for one in asked {
            let words = match &one.answer {
                Ok(words) => words,
                Err(error) => {
                    fail(format!("{} fails: {error}", one.device));
                    continue;
                }
            };
            self.words += words.len();
            if one.is_gpu {
                self.recorded.0.insert(key.clone(), Answer::of(words));
            } else if let Some(gpu) = asked.iter().find(|other| other.is_gpu)
                && let Ok(right) = &gpu.answer
                && let Some(index) = (0..right.len()).find(|i| words.get(*i) != Some(&right[*i]))
            {
                let wrong = words.iter().zip(right).filter(|(a, b)| a != b).count();
                fail(format!(
                    "{wrong} of {} differ; first {index}: {} gives {:#x}, {} gives {:#x}: {}",
                    right.len(),
                    one.device,
                    words[index],
                    gpu.device,
                    right[index],
                    describe(index),
                ));
                continue;
            }
            if recording().is_some() {
                continue;
            }
            match want {
                Some(want) if *want == Answer::of(words) => {}
                Some(want) => fail(format!(
                    "{} gives {:x?}, an H200 gave {want:x?}: {}",
                    one.device,
                    Answer::of(words),
                    describe(0)
                )),
                None if asked.iter().any(|other| other.is_gpu) => {}
                None => fail("no committed answer: run with WARPSMITH_GOLDEN on a GPU".to_owned()),
            }
        }
    }

    fn finish(self, what: &str, devices: &[Device]) {
        let names: Vec<&str> = devices.iter().map(Device::name).collect();
        println!(
            "{} {what}, {} answers on {}: {} failures",
            self.questions,
            self.words,
            names.join(" and "),
            self.failures.len()
        );
        if let Some(path) = recording() {
            let text = self
                .recorded
                .to_text(&format!("{what} on {}", names.join(" and ")));
            let path = format!("{path}.{what}");
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("writing {path}: {error}"));
        }
        let mut report = String::new();
        for failure in self.failures.iter().skip(DESCRIBED).take(LISTED) {
            let _ = writeln!(report, "{}", failure.lines().next().unwrap_or_default());
        }
        for failure in self.failures.iter().take(DESCRIBED) {
            let _ = writeln!(report, "{failure}\n");
        }
        assert!(
            self.failures.is_empty(),
            "{} failures:\n{report}",
            self.failures.len()
        );
    }
}

/// Where to write the answers of a GPU to; nothing is then held against the committed ones.
fn recording() -> Option<String> {
    std::env::var("WARPSMITH_GOLDEN").ok()
}

fn golden() -> Golden {
    Golden::parse(H200).unwrap_or_else(|line| panic!("golden/h200.txt: {line}"))
}

#[test]
fn every_instruction_form_gives_the_bits_of_an_h200() {
    let (devices, golden, mut tally) = (testing::devices(), golden(), Tally::default());
    for form in forms::all().iter().filter(|form: &&Form| !form.approximate) {
        let tuples = engine::operands_of(form);
        let asked = ask(&devices, |device| engine::run_form(device, form, &tuples));
        tally.judge(&golden, ("form", form.name.clone()), &asked, |index| {
            format!("{} on {:x?}", form.body, tuples[index])
        });
    }
    tally.finish("forms", &devices);
}

#[test]
fn random_programs_give_the_bits_of_an_h200() {
    let (devices, golden, mut tally) = (testing::devices(), golden(), Tally::default());
    let vocabulary = Vocabulary::new();
    let left_out = |seed: &u64| MISCOMPILED.contains(seed) || MACHINE_SPECIFIC.contains(seed);
    for seed in (0..PROGRAMS).filter(|seed| !left_out(seed)) {
        let program: Program = program::generate(seed, &vocabulary);
        let asked = ask(&devices, |device| engine::run_program(device, &program));
        tally.judge(&golden, ("program", seed.to_string()), &asked, |index| {
            let (thread, register) = (index / program::registers(), index % program::registers());
            format!("thread {thread}, register {register}\n{}", program.ptx)
        });
    }
    tally.finish("programs", &devices);
}

#[test]
fn programs_are_the_same_for_the_same_seed_and_others_for_another() {
    let vocabulary = Vocabulary::new();
    let [a, b, c] = [3, 3, 4].map(|seed| program::generate(seed, &vocabulary));
    assert_eq!((&a.ptx, &a.inputs), (&b.ptx, &b.inputs));
    assert_ne!(a.ptx, c.ptx);
    assert_eq!(a.inputs.len(), program::threads() * program::registers());
}
