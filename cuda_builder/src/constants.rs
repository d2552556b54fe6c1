//! A pass over tidy PTX that writes constants where they are read.
//!
//! An operand of `asm!` is a register, and some of LLVM's own instructions take no constant where PTX
//! has one, so LLVM puts it into a register first: `mov.b32 %r7,31;`. Where that is the register's
//! only value, and PTX takes a constant wherever the register is read, the constant is written there
//! and the `mov` goes:
//!
//! | instruction | operand | in PTX of one architecture also |
//! |---|---|---|
//! | `shfl.sync` | lane, clamp | mask |
//! | `bar.sync`, `bar.arrive` | barrier, threads | |
//! | `bar.warp.sync`, `elect.sync` | mask | |
//! | `vote.sync`, `redux.sync` | | mask |
//! | `mbarrier.init`, `mbarrier.arrive.expect_tx`, `mbarrier.try_wait.parity` | count, bytes, parity | |
//! | `shl`, `shr` | | what is shifted |
//! | `atom`, `red` | | the number |
//! | `st` | what is stored, also an element of a vector | |
//!
//! A register that is named anywhere else keeps its `mov`: written by another instruction, in an
//! address, in a line of several instructions, in a comment that means something. So its value need
//! not be followed. Kernels with holes stay as they are, since hosts put text there, and so do
//! functions, which may become that text.
//!
//! The last column is for PTX that runs on one architecture alone (`sm_90a`), whose machine code can
//! be compared: that of no kernel in `ptx/` changes. Of portable PTX, ptxas 13.0 orders the
//! instructions of seven kernels otherwise with it (`reduce_arg_f16`, `scan_f16`, `topk_f32` among
//! them).

use std::collections::HashMap;

use crate::registers::{bodies, is_complete_kernel, is_declared_once, is_number, words};

/// What an instruction reads.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// 32 bits, whatever its type.
    Word,
    /// An integer of its type.
    Typed,
    /// The same, or a vector of it.
    Vector,
}

/// Beginnings of mnemonics, which of their operands may be constants, which more in PTX of one
/// architecture, and what these hold.
const PLACES: [(&str, &[usize], &[usize], Reads); 15] = [
    ("shfl.sync", &[2, 3], &[4], Reads::Word),
    ("bar.sync", &[0, 1], &[], Reads::Word),
    ("bar.arrive", &[0, 1], &[], Reads::Word),
    ("bar.warp.sync", &[0], &[], Reads::Word),
    ("elect.sync", &[1], &[], Reads::Word),
    ("vote.sync", &[], &[2], Reads::Word),
    ("redux.sync", &[], &[2], Reads::Word),
    ("mbarrier.init", &[1], &[], Reads::Word),
    ("mbarrier.arrive.expect_tx", &[2], &[], Reads::Word),
    ("mbarrier.try_wait.parity", &[2], &[], Reads::Word),
    ("shl", &[], &[1], Reads::Typed),
    ("shr", &[], &[1], Reads::Typed),
    ("atom", &[], &[2], Reads::Typed),
    ("red", &[], &[1], Reads::Typed),
    ("st", &[1], &[], Reads::Vector),
];

/// LLVM's `mov` of a constant of each width, and the names of registers of that width.
const MOVES: [(&str, &str, usize); 2] = [("mov.b32\t", "%r", 32), ("mov.b64\t", "%rd", 64)];

/// The text of a module, tidy, with constants in place of registers that hold nothing else.
/// `portable`: whether it runs on more than one architecture.
pub(crate) fn inline(ptx: &str, portable: bool) -> String {
    bodies(ptx, |head, body| {
        if is_complete_kernel(head, body) {
            inlined(body, portable)
        } else {
            body.to_owned()
        }
    })
}

/// A register that LLVM moves a constant into.
struct Constant<'a> {
    value: &'a str,
    bits: usize,
    /// How often the register is named.
    named: usize,
    /// How often where a constant may be, or as what the constant is moved into.
    known: usize,
}

impl Constant<'_> {
    /// Whether the text gets shorter if this stands wherever the register is read.
    fn pays(&self) -> bool {
        /// Of most names, once they are short.
        const NAME: usize = "r12".len();
        let reads = self.known - 1;
        let without = "mov.b32\tr12,;\n".len() + self.value.len() + reads * NAME;
        reads > 0 && self.named == self.known && reads * self.value.len() < without
    }
}

fn inlined(body: &str, portable: bool) -> String {
    let mut constants: HashMap<&str, Constant<'_>> = HashMap::new();
    let own = MOVES.map(|(_, prefix, _)| is_declared_once(body, prefix));
    for line in body.lines() {
        if let Some((name, value, class)) = moved(line).filter(|&(_, _, class)| own[class]) {
            let (bits, named, known) = (MOVES[class].2, 0, 0);
            let new = Constant {
                value,
                bits,
                named,
                known,
            };
            constants.entry(name).or_insert(new).known += 1;
        }
    }
    // Of a register that is moved into twice nothing is known.
    constants.retain(|_, constant| constant.known == 1);
    for (_, name) in words(body) {
        if let Some(constant) = constants.get_mut(name) {
            constant.named += 1;
        }
    }
    for line in body.lines() {
        for (_, name, bits) in places(line, portable) {
            if let Some(constant) = constants.get_mut(name) {
                constant.known += usize::from(constant.bits == bits);
            }
        }
    }
    constants.retain(|_, constant| constant.pays());
    let mut out = String::with_capacity(body.len());
    for line in body.split_inclusive('\n') {
        if moved(line.trim_end()).is_some_and(|(name, ..)| constants.contains_key(name)) {
            continue;
        }
        let mut copied = 0;
        for (start, name, _) in places(line.trim_end(), portable) {
            if let Some(constant) = constants.get(name) {
                out.extend([&line[copied..start], constant.value]);
                copied = start + name.len();
            }
        }
        out.push_str(&line[copied..]);
    }
    out
}

/// The register, the constant, and the index in `MOVES` of LLVM's `mov`.
fn moved(line: &str) -> Option<(&str, &str, usize)> {
    let mut moves = MOVES.iter().enumerate();
    moves.find_map(|(class, (mov, prefix, _))| {
        let (name, value) = line.strip_prefix(mov)?.strip_suffix(';')?.split_once(',')?;
        let is_own = is_number(name.strip_prefix(prefix)?);
        let is_constant = is_number(value.strip_prefix('-').unwrap_or(value));
        (is_own && is_constant).then_some((name, value, class))
    })
}

/// Where in a line a constant may be: the beginning, what is there, and of how many bits it is. There
/// are none unless the line is one instruction.
fn places(line: &str, portable: bool) -> Vec<(usize, &str, usize)> {
    found(line, portable).unwrap_or_default()
}

fn found(line: &str, portable: bool) -> Option<Vec<(usize, &str, usize)>> {
    let code = line.strip_suffix(';').filter(|code| !code.contains(';'))?;
    let code = match code.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ')?.1,
        None => code,
    };
    let (mnemonic, operands) = code.split_once([' ', '\t'])?;
    let is_of = |(begin, ..): &&(&str, &[usize], &[usize], Reads)| {
        let rest = mnemonic.strip_prefix(begin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // These have other operands.
    let is_other = |word: &str| ["async", "bulk", "param"].contains(&word);
    if mnemonic.split('.').any(is_other) {
        return None;
    }
    let &(_, always, of_one, reads) = PLACES.iter().find(is_of)?;
    let bits = match reads {
        Reads::Word => 32,
        Reads::Typed | Reads::Vector => bits(mnemonic)?,
    };
    let start = |part: &str| part.as_ptr().addr() - line.as_ptr().addr();
    let mut found = Vec::new();
    for (index, part) in split(operands).enumerate() {
        if always.contains(&index) || (!portable && of_one.contains(&index)) {
            let vector = part.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
            let elements = vector.filter(|_| reads == Reads::Vector).unwrap_or(part);
            found.extend(elements.split(',').map(|part| (start(part), part, bits)));
        }
    }
    Some(found)
}

/// The bits of a mnemonic's type, which is its end, if that is one of integers.
fn bits(mnemonic: &str) -> Option<usize> {
    let (_, of_type) = mnemonic.rsplit_once('.')?;
    of_type.strip_prefix(['b', 'u', 's'])?.parse().ok()
}

/// Operands, of which vectors and addresses may have commas.
fn split(operands: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    operands.split(move |c| {
        depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of a kernel with this body.
    fn kernel(body: &str) -> String {
        let declared = ".reg .b32\t%r<99>;\n.reg .b64\t%rd<9>;\n";
        format!(".version 7.8\n.visible .entry f(\n)\n{{\n{declared}{body}ret;\n}}\n")
    }

    #[test]
    fn constants_are_where_they_are_read() {
        let cases = [
            (
                "mov.b32\t%r1,16;\nshfl.sync.bfly.b32 %r2,%r3,%r1,31,%r4;\n",
                "shfl.sync.bfly.b32 %r2,%r3,16,31,%r4;\n",
            ),
            (
                "mov.b32\t%r1,2;\nmov.b32\t%r2,256;\nbar.sync %r1,%r2;\n@%p1 bar.arrive %r3,%r2;\n",
                "bar.sync 2,256;\n@%p1 bar.arrive %r3,256;\n",
            ),
            (
                "mov.b32\t%r1,-1;\nbar.warp.sync %r1;\nelect.sync _|%p1,%r1;\n",
                "bar.warp.sync -1;\nelect.sync _|%p1,-1;\n",
            ),
            (
                "mov.b32\t%r1,49152;\nmbarrier.arrive.expect_tx.shared::cta.b64 _,[%r2],%r1;\n",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _,[%r2],49152;\n",
            ),
            (
                "mov.b32\t%r1,0;\nmbarrier.try_wait.parity.shared::cta.b64 %p1,[%r2],%r1;\n",
                "mbarrier.try_wait.parity.shared::cta.b64 %p1,[%r2],0;\n",
            ),
            (
                "mov.b32\t%r10,0;\nst.shared.v4.u32 [%r1],{%r10,%r2,%r10,%r10};\nst.b32\t[%rd1],%r10;\n",
                "st.shared.v4.u32 [%r1],{0,%r2,0,0};\nst.b32\t[%rd1],0;\n",
            ),
            (
                "mov.b64\t%rd1,0;\nst.global.v2.b64\t[%rd2],{%rd1,%rd3};\n",
                "st.global.v2.b64\t[%rd2],{0,%rd3};\n",
            ),
        ];
        for (before, after) in cases {
            for portable in [true, false] {
                assert_eq!(inline(&kernel(before), portable), kernel(after));
            }
        }
    }

    #[test]
    fn text_for_one_architecture_has_more_of_them() {
        let cases = [
            (
                "mov.b32\t%r1,-1;\nshfl.sync.up.b32 %r2|%p1,%r3,%r4,0,%r1;\n",
                "shfl.sync.up.b32 %r2|%p1,%r3,%r4,0,-1;\n",
            ),
            (
                "mov.b32\t%r1,-1;\nvote.sync.ballot.b32 %r2,%p1,%r1;\nredux.sync.max.s32 %r2,%r3,%r1;\n",
                "vote.sync.ballot.b32 %r2,%p1,-1;\nredux.sync.max.s32 %r2,%r3,-1;\n",
            ),
            (
                "mov.b64\t%rd1,1;\nmov.b32\t%r1,-1;\nshl.b64\t%rd2,%rd1,%r2;\nshr.u32\t%r3,%r1,%r2;\n",
                "shl.b64\t%rd2,1,%r2;\nshr.u32\t%r3,-1,%r2;\n",
            ),
            (
                "mov.b32\t%r1,1;\natom.acq_rel.gpu.add.u32 %r2,[%rd1],%r1;\nred.relaxed.cta.shared.add.u32 [%r3],%r1;\n",
                "atom.acq_rel.gpu.add.u32 %r2,[%rd1],1;\nred.relaxed.cta.shared.add.u32 [%r3],1;\n",
            ),
        ];
        for (before, after) in cases {
            assert_eq!(inline(&kernel(before), false), kernel(after));
            assert_eq!(inline(&kernel(before), true), kernel(before));
        }
    }

    #[test]
    fn what_is_not_understood_keeps_its_register() {
        let mov = "mov.b32\t%r1,1;\n";
        let read = "bar.sync %r1;\n";
        for body in [
            // Written twice, or by another instruction.
            format!("{mov}{read}mov.b32\t%r1,2;\n"),
            format!("{mov}{read}add.s32\t%r1,%r1,1;\n"),
            format!("@%p1 mov.b32\t%r1,1;\n{read}"),
            format!("{mov}{read}@%p1 mov.b32\t%r1,1;\n"),
            // Read where there is no constant, an address or a register of another width.
            format!("{mov}shfl.sync.bfly.b32 %r2,%r1,%r1,31,%r3;\n"),
            format!("{mov}atom.global.cas.b32 %r2,[%rd1],%r3,%r1;\n"),
            format!("{mov}shl.b64\t%rd1,%rd2,%r1;\n"),
            format!("{mov}{read}st.shared.b32 [%r1],%r2;\n"),
            format!("{mov}{read}st.shared.b32 [%r1+4],%r1;\n"),
            format!("{mov}st.shared.b16 [%r2],%r1;\n"),
            format!("{mov}st.shared.f32 [%r2],%r1;\n"),
            format!("{mov}st.param.b32 [param0],%r1;\n"),
            format!("{mov}st.async.shared::cluster.v4.u32 [%r2],{{%r1,%r1,%r1,%r1}},[%r3];\n"),
            format!("{mov}barrier.sync %r1;\n"),
            format!("{mov}mma.sync.aligned.f {{%r2,%r3}},{{%r1,%r1}},{{%r1}},{{%r2,%r3}};\n"),
            // In a line of more than one instruction, and in a comment that means something.
            format!("{mov}{{ bar.sync %r1; bar.sync 0; }}\n"),
            format!("{mov}{read}ld.global.b32 %r2,[%rd1]; // once %r1\n"),
            format!("{mov}{read}mov.b32 %r2,0; // hole load %r2 <-\n"),
            // No constant, or one that asm! wrote.
            format!("mov.b32\t%r1,%r2;\n{read}"),
            format!("mov.b32\t%r1,%tid.x;\n{read}"),
            format!("mov.b32 %r1,1;\n{read}"),
            // A name of a scope's own.
            format!("{mov}{{ .reg .b32 %r<4>;\n{read}}}\n"),
            // The text would get longer.
            format!("mov.b32\t%r1,-2147483648;\n{}", read.repeat(9)),
        ] {
            let text = kernel(&body);
            assert_eq!(inline(&text, false), text);
        }
    }

    #[test]
    fn functions_and_other_kernels_stay() {
        let mov = "mov.b32\t%r1,1;\n";
        let function = kernel(&format!("{mov}bar.sync %r1;\n")).replace(".visible .entry", ".func");
        assert_eq!(inline(&function, false), function);
        let two = kernel(mov) + &kernel("bar.sync %r1;\n");
        assert_eq!(inline(&two, false), two);
    }
}
