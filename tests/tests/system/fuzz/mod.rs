//! Fuzzing: changed samples of everything that is read from outside. No decoder may panic, overflow, take more memory
//! than there is or more time than is to be had, and whatever it takes must be what it says.
//!
//! Inputs that were once wrong are in `tests/fuzz`, a folder for each decoder, and are tried first.

mod decoders;
mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tenure_core::model::codec::Hash;
use tenure_tests::{Numbers, root, setting};
use tenure_wait::{DEADLINE, eventually};

use self::decoders::{Decoder, JOURNALS};
use self::mutate::mutated;
use crate::deployment::{Deployment, stderr};

/// How many inputs the slowest decoder gets in a round.
const INPUTS: u64 = 150;

/// How long one input may take.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The most memory that all of it may take, in KiB of addresses.
const MEMORY: u64 = 3 << 20;

const CONFIG: &str = "\
snapshot-after = 20
archive-after = 10
[site.alpha]
units = 8
[broker.exchange]
[service-manager.guest]
";

/// Whatever is fuzzed is so in a process of its own, which may take only so much memory and may be aborted.
#[test]
fn no_changed_sample_breaks_a_decoder() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let journals = deployment.data.path().join("journals");
    let archived =
        |actor: &str| journals.join(format!("{actor}.db-archive/00000000.segment")).exists();
    eventually(DEADLINE, "archives", || {
        let lease = deployment.json("lease request 2 --for 1h --wait")[0]["lease"].clone();
        deployment.json(&format!("lease close {} --wait", lease.as_str().expect("a name")));
        ["alpha", "exchange", "guest"].iter().all(|actor| archived(actor))
    });
    let place = tempfile::tempdir().expect("a folder");
    let mut backup = Command::new(tenure_tests::tenure());
    backup.arg("backup").arg(place.path().join("backup")).arg("--data").arg(deployment.data.path());
    assert!(backup.status().is_ok_and(|status| status.success()));
    let this = std::env::current_exe().expect("a test has a path");
    let script = format!(
        "ulimit -v {MEMORY}; exec \"$0\" --exact fuzz::rounds --ignored --nocapture --test-threads=1"
    );
    let mut fuzz = Command::new("sh");
    fuzz.args(["-c", &script]).arg(this).env(JOURNALS, place.path().join("backup/journals"));
    let edges = place.path().join("edges");
    let output = fuzz.env("TENURE_EDGES", &edges).output().expect("it runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    // Written where `coverage.c` is linked in.
    if let Ok(edges) = fs::read_to_string(edges) {
        print!("{edges}");
    }
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Rounds of all decoders: one, or as many as take `TENURE_FUZZ` minutes. The seed is another one each day.
#[test]
#[ignore = "run by `no_changed_sample_breaks_a_decoder`"]
fn rounds() {
    let today = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 86_400);
    let seed = setting("TENURE_SEED").unwrap_or(today);
    let until =
        setting("TENURE_FUZZ").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut decoders = decoders::all();
    let wrong: Vec<String> = decoders.iter().flat_map(once_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut totals = vec![(0, 0); decoders.len()];
    for round in 0.. {
        for (decoder, total) in decoders.iter_mut().zip(&mut totals) {
            // In the name of what is run, should the process be aborted.
            println!("round {round} of seed {seed}: {}", decoder.name);
            let numbers = Numbers(seed.wrapping_mul(1_000_003).wrapping_add(round));
            let (inputs, taken) = fuzzed(decoder, numbers);
            *total = (total.0 + inputs, total.1 + taken);
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            break;
        }
    }
    for (decoder, (inputs, taken)) in decoders.iter().zip(&totals) {
        println!("{}: {inputs} executions, {taken} of them decoded", decoder.name);
        assert!(taken * 200 >= *inputs, "{}: hardly anything was decoded", decoder.name);
    }
    let all: u64 = totals.iter().map(|(inputs, _)| inputs).sum();
    println!("{all} executions, seed {seed}");
}

/// One round of a decoder: how many inputs it got, and how many of them it took. What it takes is changed again.
fn fuzzed(decoder: &mut Decoder, mut numbers: Numbers) -> (u64, u64) {
    let (mut taken, inputs) = (0, INPUTS * decoder.share);
    for sample in &decoder.samples {
        assert_eq!((decoder.check)(sample), Ok(true), "{}: a sample {sample:02x?}", decoder.name);
    }
    let originals = decoder.samples.len();
    for _ in 0..inputs {
        let (sample, other) =
            (numbers.one_of(&decoder.samples), numbers.clone().one_of(&decoder.samples).clone());
        let input = mutated(sample, &other, decoder.is_text, &mut numbers);
        match tried(decoder, &input) {
            Ok(true) => {
                taken += 1;
                if decoder.samples.len() < originals + 200 && input.len() < 1 << 16 {
                    decoder.samples.push(input);
                }
            }
            Ok(false) => {}
            Err(why) => panic!(
                "{}: {why}; the input is in {}",
                decoder.name,
                keep(decoder, &input).display()
            ),
        }
    }
    decoder.samples.truncate(originals);
    (inputs, taken)
}

/// Gives an input to a decoder.
fn tried(decoder: &Decoder, input: &[u8]) -> Result<bool, String> {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (decoder.check)(input)));
    let took = began.elapsed();
    let outcome = outcome.unwrap_or_else(|_| Err("it panicked".to_owned()));
    if took > AT_ONCE { outcome.and(Err(format!("it took {took:?}"))) } else { outcome }
}

fn folder(decoder: &Decoder) -> PathBuf {
    root().join("tests/fuzz").join(decoder.name.replace(' ', "-"))
}

/// Keeps an input that was wrong.
fn keep(decoder: &Decoder, input: &[u8]) -> PathBuf {
    let name = Hash::of("tenure fuzz input", &[input]).to_hex();
    let path = folder(decoder).join(&name[..16]);
    fs::create_dir_all(folder(decoder)).and_then(|()| fs::write(&path, input)).expect("a file");
    path
}

/// What is wrong of a decoder with inputs that once were.
fn once_wrong(decoder: &Decoder) -> Vec<String> {
    let entries = fs::read_dir(folder(decoder)).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let wrong = paths.filter_map(|path| {
        let input = fs::read(&path).expect("a file");
        Some(format!("{}: {}", path.display(), tried(decoder, &input).err()?))
    });
    wrong.collect()
}
