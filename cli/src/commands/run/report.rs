//! The output after the launches.

use std::io::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};
use warpsmith_emulator::{LaunchStats, Place, Report};

use super::description::{Buffer, Description, Launch};
use super::launch::Launched;
use super::schedules::Schedules;
use super::{Args, profile, roofline};
use crate::failure::{Reproduce, fault_of};
use crate::output::Output;

/// Prints the launches and their results: as text, or as one line of JSON.
pub(super) fn print(
    args: &Args,
    description: &Description,
    ran: &Schedules,
    output: &mut Output,
) -> Result<()> {
    if args.json {
        writeln!(output, "{}", as_json(args, description, ran))?;
        return Ok(());
    }
    let first = &ran.first;
    let launches = || description.launches.iter().zip(&first.launched);
    for (launch, launched) in launches() {
        let Launch {
            kernel,
            grid,
            block,
            shared_bytes,
            ..
        } = launch;
        let cluster = launch
            .cluster
            .map(|cluster| format!(", cluster {cluster:?}"));
        writeln!(
            output,
            "{kernel} on {}: grid {grid:?}, block {block:?}{}, {shared_bytes} bytes of dynamic \
             shared memory, {:.3} ms",
            first.device,
            cluster.unwrap_or_default(),
            launched.time.as_secs_f64() * 1e3,
        )?;
    }
    for (buffer, hash) in buffers(description, &first.contents) {
        let saved = buffer
            .save
            .as_ref()
            .map(|path| format!("  -> {}", path.display()));
        writeln!(
            output,
            "  {:<12} {:<5} {:?}  hash {hash}{}",
            buffer.name,
            buffer.dtype.name(),
            buffer.shape,
            saved.unwrap_or_default()
        )?;
    }
    print_checks(args, description, ran, output)?;
    for (launch, launched) in launches() {
        let Some((stats, estimate)) = profile(args, launch, launched).filter(|_| args.profile)
        else {
            continue;
        };
        if description.launches.len() > 1 {
            writeln!(output, "\n{}", launch.kernel)?;
        }
        profile::print(stats, &estimate, output)?;
    }
    Ok(())
}

/// The counters of a launch and the estimate for a GPU, if they are requested.
fn profile<'l>(
    args: &Args,
    launch: &Launch,
    launched: &'l Launched,
) -> Option<(&'l LaunchStats, roofline::Estimate)> {
    let stats = launched.stats.as_deref()?;
    let counters = stats.counters.as_deref()?;
    let blocks = launch
        .grid
        .iter()
        .map(|extent| u64::from(*extent))
        .product();
    let estimate = roofline::estimate(args.gpu_model, counters, blocks);
    Some((stats, estimate))
}

/// The same as JSON.
pub(super) fn profile_as_json(args: &Args, launch: &Launch, launched: &Launched) -> Option<Value> {
    let (stats, estimate) = profile(args, launch, launched)?;
    Some(profile::as_json(stats, &estimate))
}

fn print_checks(
    args: &Args,
    description: &Description,
    ran: &Schedules,
    output: &mut Output,
) -> Result<()> {
    let orders = match (ran.explored, ran.count) {
        (Some(true), 1) => "the only order".to_owned(),
        (Some(true), count) => format!("all {count} orders"),
        (_, count) => format!("the first {count} orders"),
    };
    match args.schedules {
        None if ran.explored.is_some() => {
            let launch = &description.launches[0];
            let threads = launch.block.iter().product::<u32>();
            let blocks: u64 = launch
                .grid
                .iter()
                .map(|extent| u64::from(*extent))
                .product();
            writeln!(
                output,
                "explore: nothing found in {orders} of {blocks} blocks x {threads} threads"
            )?;
        }
        Some(count) => {
            let last = args.seed.wrapping_add(count - 1);
            writeln!(
                output,
                "check: nothing found under {count} seeds, {} to {last}",
                args.seed
            )?;
        }
        None if args.check => {
            writeln!(output, "check: nothing found under seed {}", args.seed)?;
        }
        None => {}
    }
    for (position, order) in ran.differing.iter().filter(|_| ran.explored.is_some()) {
        writeln!(
            output,
            "note: buffer `{}` is not the same in order 1 and order {order}",
            description.buffers[*position].name
        )?;
    }
    for (position, seed) in ran.differing.iter().filter(|_| ran.explored.is_none()) {
        writeln!(
            output,
            "note: buffer `{}` is not the same under seed {} and seed {seed}",
            description.buffers[*position].name, args.seed
        )?;
    }
    Ok(())
}

fn as_json(args: &Args, description: &Description, ran: &Schedules) -> Value {
    let first = &ran.first;
    let buffers = buffers(description, &first.contents).map(|(buffer, hash)| {
        json!({
            "name": buffer.name,
            "dtype": buffer.dtype.name(),
            "shape": buffer.shape,
            "hash": hash,
            "save": buffer.save.as_ref().map(|path| path.display().to_string()),
        })
    });
    let mut line = json!({
        "device": first.device.kind().to_string(),
        "name": first.device.name(),
        "buffers": buffers.collect::<Vec<Value>>(),
    });
    let launches = description.launches.iter().zip(&first.launched);
    let mut launches = launches
        .map(|(launch, launched)| launch_as_json(args, launch, launched))
        .collect::<Vec<Map<String, Value>>>();
    match (line.as_object_mut(), &mut launches[..]) {
        // The keys of a single launch stand at the top, as in its file.
        (Some(line), [only]) => line.append(only),
        _ => line["launches"] = json!(launches),
    }
    if let Some(complete) = ran.explored {
        let differing = ran.differing.iter().map(|(position, order)| {
            json!({ "buffer": description.buffers[*position].name, "order": order })
        });
        line["explore"] = json!({
            "orders": ran.count,
            "complete": complete,
            "differing": differing.collect::<Vec<Value>>(),
        });
    } else if args.check || args.schedules.is_some() {
        let differing = ran.differing.iter().map(
            |(position, seed)| json!({ "buffer": description.buffers[*position].name, "seed": seed }),
        );
        line["check"] = json!({
            "first_seed": args.seed,
            "seeds": ran.count,
            "differing": differing.collect::<Vec<Value>>(),
        });
    }
    line
}

fn launch_as_json(args: &Args, launch: &Launch, launched: &Launched) -> Map<String, Value> {
    let own = [
        ("kernel", json!(launch.kernel)),
        ("grid", json!(launch.grid)),
        ("block", json!(launch.block)),
        ("cluster", json!(launch.cluster)),
        ("shared_bytes", json!(launch.shared_bytes)),
        ("time_ms", json!(launched.time.as_secs_f64() * 1e3)),
    ];
    let profile = profile_as_json(args, launch, launched).filter(|_| args.profile);
    let profile = profile.map(|profile| ("profile", profile));
    let all = own.into_iter().chain(profile);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// One line of JSON for a fault that the emulator found; nothing for other errors.
pub(super) fn print_finding(error: &anyhow::Error, output: &mut Output) -> Result<()> {
    let Some(report) = fault_of(error) else {
        return Ok(());
    };
    let reproduce = error.downcast_ref::<Reproduce>();
    let line = json!({
        "kernel": report.kernel,
        "finding": finding(report),
        "earlier": report.earlier.iter().map(finding).collect::<Vec<Value>>(),
        "seed": reproduce.map(|found| found.seed),
        "reproduce": reproduce.map(|found| &found.options),
    });
    writeln!(output, "{line}")?;
    output.flush()?;
    Ok(())
}

fn finding(report: &Report) -> Value {
    json!({
        "kind": report.kind.name(),
        "message": report.message,
        "place": place(&report.place),
        "other": report.second.as_ref().map(|(what, other)| {
            json!({ "what": what, "place": place(other) })
        }),
        "address": report.address,
        "notes": report.notes,
    })
}

fn place(place: &Place) -> Value {
    json!({
        "ptx_line": place.ptx_line,
        "ptx": place.ptx_text,
        "source": place.source.as_ref().map(source),
        "inlined": place.inlined.iter().map(source).collect::<Vec<Value>>(),
        "block": place.block,
        "warp": place.warp,
        "thread": place.thread,
    })
}

fn source((file, line): &(String, u32)) -> Value {
    json!({ "file": file, "line": line })
}

/// Each buffer with a hash of its bytes, so that two runs are easy to compare.
fn buffers<'l>(
    description: &'l Description,
    contents: &'l [Vec<u8>],
) -> impl Iterator<Item = (&'l Buffer, String)> {
    let named = description.buffers.iter().zip(contents);
    named.map(|(buffer, bytes)| (buffer, hash(bytes)))
}

/// FNV-1a 64, in hex.
fn hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
