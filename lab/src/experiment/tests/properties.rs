//! What holds for all experiments.

use super::*;
use proptest::prelude::*;

/// Lines that experiments are made of, right and wrong ones.
const LINES: &[&str] = &[
    "question = \"a ${x} b\"",
    "repetitions = 2",
    "budget = \"5m\"",
    "seed = 7",
    "control = \"A\"",
    "warm_up = \"steady\"",
    "warm_up = 3",
    "measure = \"12s\"",
    "[hosts]",
    "load = \"local\"",
    "[workload]",
    "scenario = \"options\"",
    "rate = \"${rate}\"",
    "rate = 17.5",
    "users = 10",
    "hold = \"1500ms\"",
    "options = [\"--x\", \"${x}\"]",
    "[factor]",
    "rate = [1, 2.5]",
    "x = [\"a\", true]",
    "[system.A]",
    "[system.B]",
    "kind = \"balance\"",
    "kind = \"none\"",
    "config = \"${ip} ${x} $${y}\"",
    "workers = \"${rate}\"",
    "[[fault]]",
    "at = \"1s\"",
    "kind = \"kill\"",
    "systems = [\"B\"]",
    "[[claim]]",
    "that = \"cpu of A at most 2 of B at 1/s\"",
    "that = \"p99 of setup at most 60 ms\"",
    "metric = \"calls/s\"",
    "at_least = 1.25",
    "relative_to = \"B\"",
    "at = { rate = 1 }",
    "= broken",
];

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}", option in ".{0,60}") {
        let sources = Sources::new("x.toml", &text).with_options([option.as_str()]);
        if let Ok(experiment) = Experiment::read(&sources) {
            let _ = experiment.settings_text();
        }
    }

    #[test]
    fn no_combination_of_lines_panics(lines in proptest::collection::vec(0..LINES.len(), 0..14)) {
        let text: String = lines.iter().map(|nth| format!("{}\n", LINES[*nth])).collect();
        match read(&text) {
            Err(errors) => prop_assert!(!errors.is_empty()),
            Ok(experiment) => {
                // Read again from what is in force, each setup is the same.
                for setup in experiment.setups() {
                    let again = good(&setup.to_toml());
                    prop_assert_eq!(again.setups().len(), 1);
                    prop_assert_eq!(again.setups()[0].to_toml(), setup.to_toml());
                }
                prop_assert_eq!(read(&text).map(|again| again.id()).ok(), Some(experiment.id()));
                // Some cannot be run so far.
                let Ok(plan) = experiment.plan() else { return Ok(()) };
                let kept = good(experiment.to_toml());
                let (most, blocks) = (experiment.subjects().len() * experiment.setups().len(), plan.blocks() as usize);
                prop_assert!(plan.runs().len() <= most * blocks && plan.runs().len().is_multiple_of(blocks));
                prop_assert_eq!((kept.id(), kept.claims(), kept.plan().unwrap()), (experiment.id(), experiment.claims(), plan));
            }
        }
    }

    #[test]
    fn no_mutation_of_a_good_file_panics(at in 0usize..1_000, removed in 0usize..12, put in "[\"'\\[\\]{}=$.#\n a-c0-9]{0,4}") {
        let good = include_str!("../../../kamailio.toml");
        let mut chars: Vec<char> = good.chars().collect();
        let from = at.min(chars.len());
        let to = (from + removed).min(chars.len());
        chars.splice(from..to, put.chars());
        let text: String = chars.into_iter().collect();
        let sources = Sources::new("x.toml", &text).with_files(|_| Ok("${rate} ${".to_owned()));
        match Experiment::read(&sources) {
            Ok(experiment) => prop_assert!(!experiment.settings_text().is_empty()),
            Err(errors) => prop_assert!(errors.iter().all(|error| !error.message.is_empty())),
        }
    }

    #[test]
    fn no_sentence_panics(words in proptest::collection::vec(
        prop_oneof![
            Just("p99"), Just("of"), Just("setup"), Just("cpu"), Just("A"), Just("B"), Just("at"), Just("most"),
            Just("least"), Just("within"), Just("5%"), Just("60"), Just("ms"), Just("1000/s"), Just("where"),
            Just("rate"), Just("="), Just("rate=1000"), Just("and"), Just("\u{e4}"),
        ],
        0..12,
    )) {
        let text = format!(
            "[system.A]\n[system.B]\n[factor]\nrate = [1000, 2000]\n[[claim]]\nthat = '{}'\n",
            words.join(" ")
        );
        if let Ok(experiment) = read(&text) {
            let claim = experiment.claims()[0].clone();
            let shown = format!("[system.A]\n[system.B]\n[factor]\nrate = [1000, 2000]\n[[claim]]\nthat = '{claim}'\n");
            prop_assert_eq!(good(&shown).claims()[0].clone(), claim);
        }
    }
}
