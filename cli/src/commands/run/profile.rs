//! Output of the counters, as a table or as JSON.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use warpsmith_emulator::LaunchStats;
use warpsmith_emulator::profile::{Counters, HotLine, Traffic};

use super::roofline::Estimate;
use crate::output::Output;

/// Number of PTX lines in the table of hottest lines.
const HOT_LINES: usize = 10;

/// Prints the counters, the hottest lines, and the estimate.
pub(super) fn print(stats: &LaunchStats, estimate: &Estimate, output: &mut Output) -> Result<()> {
    let counters = stats.counters();
    print_instructions(counters, output)?;
    print_memory(counters, output)?;
    print_rest(counters, output)?;
    print_lines(counters, output)?;
    print_estimate(estimate, output)
}

fn print_instructions(counters: &Counters, output: &mut Output) -> Result<()> {
    writeln!(
        output,
        "\n{:<18}{:>16}{:>18}{:>12}",
        "instructions", "warp", "lane", "lanes/warp"
    )?;
    let mut rows: Vec<_> = counters.instructions.iter().collect();
    rows.sort_by_key(|(_, issued)| std::cmp::Reverse(issued.warp));
    let all = rows.iter().fold((0, 0), |(warp, lane), (_, issued)| {
        (warp + issued.warp, lane + issued.lane)
    });
    let named = rows
        .into_iter()
        .map(|(class, issued)| (class.to_string(), (issued.warp, issued.lane)));
    for (name, (warp, lane)) in named.chain([("all".to_owned(), all)]) {
        let each = lane as f64 / warp.max(1) as f64;
        writeln!(
            output,
            "  {name:<16}{:>16}{:>18}{each:>12.1}",
            grouped(warp),
            grouped(lane)
        )?;
    }
    Ok(())
}

fn print_memory(counters: &Counters, output: &mut Output) -> Result<()> {
    let global = &counters.global;
    let rows: Vec<(&str, &Traffic)> = [
        ("loads", &global.loads),
        ("stores", &global.stores),
        ("atomics", &global.atomics),
        ("copies in", &global.copies_in),
        ("copies out", &global.copies_out),
    ]
    .into_iter()
    .filter(|(_, traffic)| traffic.requests > 0)
    .collect();
    if !rows.is_empty() {
        writeln!(
            output,
            "\n{:<18}{:>16}{:>18}{:>12}{:>14}",
            "global memory", "requests", "bytes", "sectors", "bytes/sector"
        )?;
        for (name, traffic) in rows {
            let each = traffic.bytes as f64 / traffic.sectors.max(1) as f64;
            writeln!(
                output,
                "  {name:<16}{:>16}{:>18}{:>12}{each:>14.1}",
                grouped(traffic.requests),
                grouped(traffic.bytes),
                grouped(traffic.sectors)
            )?;
        }
        writeln!(
            output,
            "  distinct bytes: {} read, {} written",
            grouped(global.distinct_read),
            grouped(global.distinct_written)
        )?;
    }
    let shared = &counters.shared;
    if shared.requests > 0 {
        writeln!(
            output,
            "\n{:<18}{:>16}{:>18}{:>12}{:>14}",
            "shared memory", "requests", "bytes", "wavefronts", "conflicts"
        )?;
        writeln!(
            output,
            "  {:<16}{:>16}{:>18}{:>12}{:>14}",
            "loads, stores",
            grouped(shared.requests),
            grouped(shared.bytes),
            grouped(shared.wavefronts),
            grouped(shared.bank_conflicts)
        )?;
    }
    Ok(())
}

/// Named figures; those that are zero are left out.
fn print_figures(title: &str, figures: &[(&str, u64)], output: &mut Output) -> Result<()> {
    let shown: Vec<String> = figures
        .iter()
        .filter(|(_, figure)| *figure > 0)
        .map(|(name, figure)| format!("{} {name}", grouped(*figure)))
        .collect();
    if !shown.is_empty() {
        writeln!(output, "{title:<18}{}", shown.join(", "))?;
    }
    Ok(())
}

fn print_rest(counters: &Counters, output: &mut Output) -> Result<()> {
    let Counters {
        flops,
        tensor,
        copies,
        waits,
        ..
    } = counters;
    writeln!(output)?;
    let arithmetic = [
        ("f16/bf16", flops.half),
        ("f32", flops.single),
        ("f64", flops.double),
    ];
    print_figures("flop", &arithmetic, output)?;
    let instructions = [
        ("wgmma", tensor.wgmma),
        ("mma", tensor.mma),
        ("flop on f16/bf16", tensor.half),
        ("flop on tf32", tensor.tf32),
        ("flop on fp8", tensor.fp8),
        ("op on integers", tensor.integer),
        ("flop on f64", tensor.double),
    ];
    print_figures("tensor cores", &instructions, output)?;
    let moved = [
        ("cp.async", copies.lanes.copies),
        ("bytes by cp.async", copies.lanes.bytes),
        ("bulk", copies.bulk.copies),
        ("bytes in bulk", copies.bulk.bytes),
        ("tensor", copies.tensor.copies),
        ("bytes of boxes", copies.tensor.bytes),
        ("st.async", copies.stores.copies),
        ("bytes by st.async", copies.stores.bytes),
    ];
    print_figures("copies", &moved, output)?;
    let reached = [
        ("at barriers", waits.barrier),
        ("at cluster barriers", waits.cluster),
        ("at mbarriers", waits.mbarrier),
        ("for copies", waits.copies),
        ("for wgmma", waits.wgmma),
    ];
    print_figures("waits", &reached, output)?;
    if let Some(occupancy) = &counters.occupancy {
        writeln!(output, "{:<18}{occupancy}", "occupancy")?;
    }
    Ok(())
}

fn print_lines(counters: &Counters, output: &mut Output) -> Result<()> {
    let lines = counters.hottest(HOT_LINES);
    writeln!(
        output,
        "\n{:>16}{:>10}{:>12}{:>11}  hottest lines",
        "warp", "sectors", "wavefronts", "conflicts"
    )?;
    for line in lines {
        writeln!(
            output,
            "{:>16}{:>10}{:>12}{:>11}  {:>5}: {}{}",
            grouped(line.issued.warp),
            grouped(line.sectors),
            grouped(line.wavefronts),
            grouped(line.bank_conflicts),
            line.ptx_line,
            line.ptx_text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            origin(line)
        )?;
    }
    Ok(())
}

fn origin(line: &HotLine) -> String {
    match &line.source {
        Some((file, line)) => format!("  // {file}:{line}"),
        None => String::new(),
    }
}

fn print_estimate(estimate: &Estimate, output: &mut Output) -> Result<()> {
    let name = estimate.rates.name;
    writeln!(output)?;
    match estimate.bounds.first() {
        Some(bound) => writeln!(
            output,
            "estimate for {name}: at least {}, bound by {}",
            time(bound.seconds),
            bound.name
        )?,
        None => writeln!(output, "estimate for {name}: nothing to do")?,
    }
    for bound in &estimate.bounds {
        writeln!(
            output,
            "  {:<18}{:>12}   {} {} at {}/s",
            bound.name,
            time(bound.seconds),
            grouped(bound.work),
            bound.unit,
            scaled(bound.rate, bound.unit)
        )?;
    }
    for missing in &estimate.missing {
        writeln!(
            output,
            "  {missing}: {name} has none, so the kernel cannot run there as it is"
        )?;
    }
    writeln!(
        output,
        "  Not a measurement: peak rates ({}),\n  {} of {} multiprocessors busy, everything \
         overlapped, no latency, each distinct byte moved once.",
        estimate.rates.source,
        estimate.busy,
        estimate.rates.multiprocessors()
    )?;
    Ok(())
}

/// The same as JSON.
pub(super) fn as_json(stats: &LaunchStats, estimate: &Estimate) -> Value {
    let counters = stats.counters();
    let instructions: serde_json::Map<String, Value> = counters
        .instructions
        .iter()
        .map(|(class, issued)| {
            let value = json!({ "warp": issued.warp, "lane": issued.lane });
            (class.to_string(), value)
        })
        .collect();
    let global = &counters.global;
    let traffic = |traffic: &Traffic| {
        json!({
            "requests": traffic.requests,
            "bytes": traffic.bytes,
            "sectors": traffic.sectors,
        })
    };
    let copies = &counters.copies;
    let moved = |moved: &warpsmith_emulator::profile::Moved| json!({ "copies": moved.copies, "bytes": moved.bytes });
    let (shared, flops, waits) = (&counters.shared, &counters.flops, &counters.waits);
    json!({
        "warp_instructions": stats.warp_instructions,
        "lane_instructions": stats.lane_instructions,
        "instructions": instructions,
        "global": {
            "loads": traffic(&global.loads),
            "stores": traffic(&global.stores),
            "atomics": traffic(&global.atomics),
            "copies_in": traffic(&global.copies_in),
            "copies_out": traffic(&global.copies_out),
            "distinct_read": global.distinct_read,
            "distinct_written": global.distinct_written,
        },
        "shared": {
            "requests": shared.requests,
            "bytes": shared.bytes,
            "wavefronts": shared.wavefronts,
            "bank_conflicts": shared.bank_conflicts,
        },
        "flops": { "half": flops.half, "single": flops.single, "double": flops.double },
        "tensor": tensor(counters),
        "copies": {
            "cp_async": moved(&copies.lanes),
            "bulk": moved(&copies.bulk),
            "tensor": moved(&copies.tensor),
            "st_async": moved(&copies.stores),
        },
        "waits": {
            "barrier": waits.barrier,
            "cluster": waits.cluster,
            "mbarrier": waits.mbarrier,
            "copies": waits.copies,
            "wgmma": waits.wgmma,
        },
        "occupancy": occupancy(counters),
        "lines": counters.lines.iter().map(line).collect::<Vec<Value>>(),
        "estimate": estimate_json(estimate),
    })
}

fn tensor(counters: &Counters) -> Value {
    let tensor = &counters.tensor;
    json!({
        "wgmma": tensor.wgmma,
        "mma": tensor.mma,
        "half": tensor.half,
        "tf32": tensor.tf32,
        "fp8": tensor.fp8,
        "integer": tensor.integer,
        "double": tensor.double,
    })
}

fn occupancy(counters: &Counters) -> Value {
    let Some(occupancy) = &counters.occupancy else {
        return Value::Null;
    };
    json!({
        "registers": occupancy.registers,
        "registers_are_estimated": occupancy.registers_are_estimated,
        "shared_bytes": occupancy.shared_bytes,
        "blocks": occupancy.blocks,
        "warps": occupancy.warps,
        "limit": occupancy.limit.to_string(),
    })
}

fn line(line: &HotLine) -> Value {
    json!({
        "ptx_line": line.ptx_line,
        "ptx": line.ptx_text,
        "source": line.source.as_ref().map(|(file, line)| json!({ "file": file, "line": line })),
        "kind": line.class.to_string(),
        "warp": line.issued.warp,
        "lane": line.issued.lane,
        "sectors": line.sectors,
        "wavefronts": line.wavefronts,
        "bank_conflicts": line.bank_conflicts,
    })
}

fn estimate_json(estimate: &Estimate) -> Value {
    let bounds = estimate.bounds.iter().map(|bound| {
        json!({
            "resource": bound.name,
            "work": bound.work,
            "unit": bound.unit,
            "rate_per_second": bound.rate,
            "seconds": bound.seconds,
        })
    });
    json!({
        "gpu": estimate.rates.name,
        "rates_from": estimate.rates.source,
        "multiprocessors_busy": estimate.busy,
        "bounds": bounds.collect::<Vec<Value>>(),
        "missing": estimate.missing,
    })
}

/// With commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds in the unit that suits them.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.2} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// A rate with its decimal prefix, or power of ten where the unit is a word that takes none.
fn scaled(rate: f64, unit: &str) -> String {
    let (scale, prefix, power) = match rate {
        r if r >= 1e12 => (1e12, "T", "e12"),
        r if r >= 1e9 => (1e9, "G", "e9"),
        _ => (1e6, "M", "e6"),
    };
    let number = rate / scale;
    match unit {
        "B" | "flop" | "op" => format!("{number:.2} {prefix}{unit}"),
        unit => format!("{number:.2}{power} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_scaled() {
        let shown = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let times = [1.5e-9, 2e-6, 3.25e-3, 4.0].map(time);
        assert_eq!(times, ["1.50 ns", "2.00 us", "3.25 ms", "4.00 s"]);
        assert_eq!(scaled(3.35e12, "B"), "3.35 TB");
        assert_eq!(scaled(1.98e9, "wavefronts"), "1.98e9 wavefronts");
    }
}
