//! Kernels that begin before the launch before them has ended.
//!
//! From compute capability 9.0 on, the blocks of a launch may be there when the launch before it
//! ends (programmatic dependent launch, PDL), if they wait by `griddepcontrol.wait` before they
//! touch global memory. PTX for older architectures has no such instruction. So a kernel of ours
//! that does not have it gets it when it is loaded for such a device, behind what needs no global
//! memory ([`prologue`]): no time passes between the two launches.
//!
//! For [brief](Traffic::Brief) launches it also lets the next launch begin, right before its wait
//! (`griddepcontrol.launch_dependents`). That one then waits for this one: in a CUDA graph of small
//! launches, each takes 0.1 to 0.2 µs less. Launches further back are waited for too: every thread
//! of a launch waits, so a launch ends after all before it, and who waits for it waits for those as
//! well. Longer launches do not: an H200 takes 2.4 ns for each block that says so, one after the
//! other, and the next launch's blocks take what is free before this one's leave, so that they end
//! up unevenly on the multiprocessors (docs/reduce-measured.md).

mod prologue;

use crate::error::{Error, Result};
use crate::signature::Signature;
use crate::traffic::Traffic;
use std::borrow::Cow;

pub(crate) use prologue::wait_line;

/// First compute capability with the instruction, and the target that PTX needs for it.
pub(crate) const SINCE: (u32, u32) = (9, 0);
const TARGET: &str = "sm_90";

const WAIT: &str = "griddepcontrol.wait;";
const LET_BEGIN: &str = "griddepcontrol.launch_dependents;";

/// `text`, of one of our kernels, as it is loaded on a device of compute capability `arch`; notes in
/// `signature` whether it begins early. `traffic` is that of its launches. Line numbers stay.
///
/// Our kernels that have the instruction access no global memory before it, with one exception:
/// cross-entropy reads rows earlier where the launch before it only goes over targets. That one lets
/// it begin itself, after the wait that it gets here, so it gets nothing else.
///
/// # Errors
/// [`Error::Bug`] for text without a target or an entry.
pub(crate) fn begin_early<'a>(
    text: &'a str,
    signature: &mut Signature,
    arch: (u32, u32),
    traffic: Traffic,
) -> Result<Cow<'a, str>> {
    signature.begins_early = arch >= SINCE;
    if arch < SINCE || signature.waits {
        return Ok(text.into());
    }
    match with_wait(text, signature.wait_line, traffic == Traffic::Brief) {
        Some(early) => Ok(early.into()),
        None => Err(Error::Bug("a kernel's text has no target or no entry")),
    }
}

/// `text` for [`TARGET`] or what is newer, with the wait at the beginning of `line`, or behind the
/// brace that begins the entry; ahead of it, where the next launch is to begin too, the leave for it,
/// unless `text` gives that.
fn with_wait(text: &str, line: Option<u32>, lets_begin: bool) -> Option<String> {
    const DIRECTIVE: &str = ".target ";
    let target_at = text.find(DIRECTIVE)? + DIRECTIVE.len();
    let target_end = target_at + text[target_at..].find('\n')?;
    let entry_at = target_end + text[target_end..].find(".entry")?;
    let body_at = entry_at + text[entry_at..].find('{')? + 1;
    let begins = |line: u32| {
        text.split_inclusive('\n')
            .take(line as usize - 1)
            .map(str::len)
            .sum()
    };
    let wait_at: usize = line.map_or(body_at, begins);
    let target = match &text[target_at..target_end] {
        older if is_older(older) => TARGET,
        target => target,
    };
    let (head, between, rest) = (
        &text[..target_at],
        &text[target_end..wait_at],
        &text[wait_at..],
    );
    let let_begin = match lets_begin && !text.contains(LET_BEGIN) {
        true => LET_BEGIN,
        false => "",
    };
    Some([head, target, between, let_begin, WAIT, rest].concat())
}

/// Whether a target as `sm_75` is older than [`TARGET`]. Those for one architecture or family, as
/// `sm_90a`, run on nothing else.
fn is_older(target: &str) -> bool {
    let number = target.strip_prefix("sm_").map(str::parse::<u32>);
    matches!(number, Some(Ok(sm)) if sm < 90)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{parse, signatures};

    const TEXT: &str = ".version 7.8\n.target sm_75\n.address_size 64\n\
        .global .align 4 .b8 table[4] = {1,2,3,4};\n\
        .visible .entry k(\n.param .u64 p\n)\n.maxntid 256\n{\n.reg .b64 %rd<2>;\n\
        ld.param.u64 %rd1, [p];\nst.global.u32 [%rd1], 0;\nret;\n}\n";

    fn loaded(text: &str, arch: (u32, u32)) -> (String, bool) {
        loaded_for(Traffic::Usual, text, arch)
    }

    fn loaded_for(traffic: Traffic, text: &str, arch: (u32, u32)) -> (String, bool) {
        let mut all = signatures(&parse(text).expect("valid")).expect("valid");
        let signature = &mut all[0];
        let early = begin_early(text, signature, arch, traffic).expect("has an entry");
        (early.into_owned(), signature.begins_early)
    }

    #[test]
    fn the_wait_comes_before_global_memory_from_hopper_on_and_lines_stay() {
        let (text, begins_early) = loaded(TEXT, (9, 0));
        assert!(begins_early);
        let want = TEXT
            .replace("sm_75", "sm_90")
            .replace("\nst.global", "\ngriddepcontrol.wait;st.global");
        assert_eq!(text, want);
        parse(&text).expect("valid");
        let (text, _) = loaded(&TEXT.replace("%rd1, [p];\n", "%rd1, [p];"), (9, 0));
        assert!(text.contains("griddepcontrol.wait;ld.param"), "{text}");
        let (text, _) = loaded(
            &TEXT.replace(
                "{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n",
                "{.reg .b64 %rd<2>;",
            ),
            (9, 0),
        );
        assert!(text.contains("{griddepcontrol.wait;.reg"), "{text}");
        for newer in ["sm_90a", "sm_100f", "sm_120"] {
            let text = TEXT.replace("sm_75", newer);
            let (early, _) = loaded(&text, (12, 0));
            assert!(early.contains(&format!(".target {newer}\n")), "{early}");
        }
    }

    #[test]
    fn brief_launches_let_the_next_one_begin_before_they_wait() {
        for (traffic, want) in [
            (
                Traffic::Brief,
                "\ngriddepcontrol.launch_dependents;griddepcontrol.wait;st",
            ),
            (Traffic::Usual, "\ngriddepcontrol.wait;st"),
            (Traffic::Streams, "\ngriddepcontrol.wait;st"),
        ] {
            let (text, _) = loaded_for(traffic, TEXT, (9, 0));
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn a_kernel_that_lets_the_next_begin_does_so_where_it_says() {
        let lets = TEXT.replace("ret;", "griddepcontrol.launch_dependents;\nret;");
        let (text, _) = loaded_for(Traffic::Brief, &lets, (9, 0));
        assert_eq!(text.matches(LET_BEGIN).count(), 1, "{text}");
        assert!(text.contains("\ngriddepcontrol.wait;st.global"), "{text}");
    }

    #[test]
    fn older_devices_and_kernels_that_wait_get_the_text_as_it_is() {
        assert_eq!(loaded(TEXT, (8, 9)), (TEXT.into(), false));
        let waits = TEXT.replace("ret;", "griddepcontrol.wait;\nret;");
        assert_eq!(loaded(&waits, (9, 0)), (waits.clone(), true));
    }
}
