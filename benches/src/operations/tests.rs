use std::cell::RefCell;

use serde_json::Value;
use warpsmith::Device;

use super::*;

/// The options of a command line.
fn options(arguments: &[&str]) -> OperationOptions {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        options: OperationOptions,
    }
    let arguments = ["bench"].iter().chain(arguments);
    <Command as clap::Parser>::parse_from(arguments).options
}

fn measured(operation: &'static Operation, peers: Option<&dyn Peers>) -> Result<(Report, String)> {
    let mut table = Vec::new();
    let options = options(&["--repetitions", "1"]);
    let report = operation.run(&options, &Device::emulator()?, peers, &mut table)?;
    Ok((report, String::from_utf8_lossy(&table).into_owned()))
}

#[test]
fn every_operation_runs_on_the_emulator_alone() -> Result<()> {
    for operation in OPERATIONS {
        let (report, table) = measured(operation, None)?;
        assert!(
            !report.rows.is_empty() && report.skipped.is_empty(),
            "{table}"
        );
        assert!(table.contains(&format!("compare.py {}", operation.name)));
        for row in &report.rows {
            assert!(row.case.starts_with(operation.name), "{}", row.case);
            assert!(row.ours.ms > 0.0 && row.peer.is_none(), "{}", row.case);
        }
    }
    Ok(())
}

/// A peer that computes nothing: its results are never written.
struct Idle {
    seen: RefCell<Vec<Value>>,
}

impl Peers for Idle {
    fn name(&self) -> &str {
        "idle 1.0"
    }

    fn prepare(&self, _: &str, description: &Value) -> Result<Offer> {
        self.seen.borrow_mut().push(description.clone());
        Ok(Offer {
            peers: vec!["one".into(), "two".into()],
            absent: vec![("three".into(), "it is absent".into())],
        })
    }

    fn run(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn answer(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

#[test]
fn peers_get_the_operands_and_an_answer_that_is_not_written_is_wrong() -> Result<()> {
    let peers = Idle {
        seen: RefCell::new(Vec::new()),
    };
    let (report, table) = measured(&elementwise::ELEMENTWISE, Some(&peers))?;
    assert!(table.contains("idle 1.0") && table.contains("without three: it is absent"));
    assert!(report.is_wrong() && report.rows.iter().all(|row| row.slower_peers.len() == 1));
    let seen = peers.seen.borrow();
    let add = &seen[0];
    assert_eq!(
        (&add["name"], &add["case"]["op"]),
        (&report.rows[0].case.clone().into(), &"add".into())
    );
    for operand in [
        &add["operands"]["a"],
        &add["operands"]["b"],
        &add["answers"]["y"],
    ] {
        assert_eq!(
            (&operand["dtype"], &operand["strides"][0]),
            (&"f32".into(), &1.into())
        );
        assert_eq!(operand["shape"][0], 1 << 12);
        assert!(operand["addresses"][0].as_u64() > Some(0), "{operand}");
    }
    Ok(())
}

#[test]
fn launches_in_a_row_are_as_many_as_asked_for() -> Result<()> {
    for (asked, want) in [(&[][..], 1), (&["--launches", "3"], 3)] {
        let small = options(&[&["--repetitions", "1"], asked].concat());
        let report =
            elementwise::ELEMENTWISE.run(&small, &Device::emulator()?, None, &mut Vec::new())?;
        assert!(!report.rows.is_empty());
        assert!(report.rows.iter().all(|row| row.launches == want));
    }
    Ok(())
}

#[test]
fn the_emulator_has_no_graphs() -> Result<()> {
    let small = options(&[
        "--set",
        "small_graphs",
        "--only",
        "relu/n256",
        "--repetitions",
        "1",
    ]);
    let error = elementwise::ELEMENTWISE
        .run(&small, &Device::emulator()?, None, &mut Vec::new())
        .expect_err("it cannot capture");
    assert!(matches!(error, BenchError::Graph { .. }), "{error}");
    assert!(error.to_string().contains("choose a GPU"), "{error}");
    Ok(())
}

#[test]
fn sets_and_operations_that_there_are_not_are_named_with_those_that_are() -> Result<()> {
    let device = Device::emulator()?;
    let error = elementwise::ELEMENTWISE.chosen(&options(&["--set", "x"]), &device);
    let error = error.expect_err("there is no such set").to_string();
    assert_eq!(
        error,
        "there is no set 'x' of elementwise: want functions, casts, chains, permutations, random, \
         small, small_graphs, tiny, all"
    );
    let error = by_name("x").expect_err("there is none").to_string();
    assert_eq!(
        error,
        "there is no operation 'x': want attention, attention_grad, block_sparse, \
         scored_attention, reduce, rows, sort, topk, elementwise, gather, scatter, rotary, grouped"
    );
    let large = attention::ATTENTION.chosen(&options(&["--set", "all"]), &device);
    let large = large.map(|cases| cases.len());
    assert!(
        matches!(large, Err(BenchError::TooLargeForEmulator { .. })),
        "{large:?}"
    );
    Ok(())
}

#[test]
fn a_seed_always_draws_the_same_cases() {
    for operation in [
        &elementwise::ELEMENTWISE,
        &gather::GATHER,
        &reduce::REDUCE,
        &rows::ROWS,
    ] {
        let set = operation.sets.iter().find(|set| set.name == "random");
        let set = set.expect("a set");
        let names = |seed: &str| -> Vec<String> {
            let options = options(&["--seed", seed, "--cases", "200"]);
            let cases = (operation.cases)(set, &options).into_iter();
            cases.map(|case| case.name).collect()
        };
        assert_eq!(names("1"), names("1"));
        assert_ne!(names("1"), names("2"));
        let options = options(&["--cases", "200"]);
        for case in (operation.cases)(set, &options) {
            let bytes = case.work.bytes;
            assert!(
                (5e7..3e9).contains(&bytes),
                "{} has {bytes} bytes",
                case.name
            );
        }
    }
}
