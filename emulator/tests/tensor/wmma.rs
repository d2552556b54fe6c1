//! `wmma`: each shape and type from each state space, against sums in f64 and integers.

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig};

use super::inputs::{Format, elements, pack, value};

/// Where the matrices are, and how the instructions address them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Global memory, lines apart by a stride.
    Global,
    /// The same by generic addresses.
    Generic,
    /// Shared memory, without a stride.
    Shared,
    /// The same by generic addresses.
    GenericShared,
}

const PLACES: [Place; 4] = [
    Place::Global,
    Place::Generic,
    Place::Shared,
    Place::GenericShared,
];

/// A `wmma.mma` with its loads and its store.
#[derive(Clone, Copy, Debug)]
struct Product {
    shape: (usize, usize, usize),
    operand: &'static str,
    c: &'static str,
    d: &'static str,
    /// After `wmma.mma`.
    op: &'static str,
    /// `.satfinite`, or a rounding mode of f64.
    how: &'static str,
    /// Whether A, B, and C and D are stored by rows.
    by_rows: [bool; 3],
    place: Place,
}

/// A matrix in memory.
#[derive(Clone, Debug)]
struct Matrix {
    name: &'static str,
    rows: usize,
    columns: usize,
    by_rows: bool,
    /// Elements from one line to the next.
    stride: usize,
    /// Bits of the elements by rows.
    elements: Vec<u64>,
}

impl Matrix {
    fn line(&self) -> usize {
        if self.by_rows {
            self.columns
        } else {
            self.rows
        }
    }

    /// The place in memory of an element, counted in elements.
    fn place(&self, row: usize, column: usize) -> usize {
        match self.by_rows {
            true => row * self.stride + column,
            false => column * self.stride + row,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let lines = self.rows * self.columns / self.line();
        let mut image = vec![0; lines * self.stride];
        for row in 0..self.rows {
            for column in 0..self.columns {
                image[self.place(row, column)] = self.elements[row * self.columns + column];
            }
        }
        pack(&image, Format::of(self.name).bits)
    }

    /// Takes the elements from memory.
    fn take(&mut self, bytes: &[u8]) {
        let size = Format::of(self.name).bits as usize / 8;
        for row in 0..self.rows {
            for column in 0..self.columns {
                let own = &bytes[self.place(row, column) * size..][..size];
                let bits = own
                    .iter()
                    .rev()
                    .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                self.elements[row * self.columns + column] = bits;
            }
        }
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        value(self.name, self.elements[row * self.columns + column])
    }
}

fn layout(by_rows: bool) -> &'static str {
    if by_rows { "row" } else { "col" }
}

impl Product {
    fn matrix(&self, name: &'static str, rows: usize, columns: usize, by_rows: bool) -> Matrix {
        let mut matrix = Matrix {
            name,
            rows,
            columns,
            by_rows,
            stride: 0,
            elements: vec![0; rows * columns],
        };
        let padding = match self.place {
            Place::Global | Place::Generic => 128 / Format::of(name).bits as usize,
            Place::Shared | Place::GenericShared => 0,
        };
        matrix.stride = matrix.line() + padding;
        matrix
    }

    /// A, B, C and D with inputs.
    fn matrices(&self) -> [Matrix; 4] {
        let (m, n, k) = self.shape;
        let [rows_a, rows_b, rows_c] = self.by_rows;
        let mut all = [
            self.matrix(self.operand, m, k, rows_a),
            self.matrix(self.operand, k, n, rows_b),
            self.matrix(self.c, m, n, rows_c),
            self.matrix(self.d, m, n, rows_c),
        ];
        for (seed, matrix) in all.iter_mut().enumerate().take(3) {
            let kind = match matrix.name {
                "s32" if self.how.is_empty() => "raw",
                // All bits of the significand, so that sums are rounded.
                "f64" => "wide:4",
                _ => "normal",
            };
            let count = matrix.elements.len();
            matrix.elements = elements(matrix.name, kind, seed as u64 + 7, count);
            if self.how == ".satfinite" && matrix.name == "s32" {
                // On both ends of the range, so that the sums leave it.
                let near = |(i, bits): (usize, &u64)| match i % 2 {
                    0 => u64::from(i32::MAX as u32) - (bits & 0xff),
                    _ => u64::from(i32::MIN as u32) + (bits & 0xff),
                };
                matrix.elements = matrix.elements.iter().enumerate().map(near).collect();
            }
        }
        all
    }

    /// Registers of a fragment, as the tables of the PTX ISA have them.
    fn registers(letter: &str, matrix: &Matrix) -> usize {
        let bits = Format::of(matrix.name).bits as usize;
        match (letter, matrix.name) {
            ("a" | "b", "f16") => 8,
            _ => matrix.elements.len() * bits / 32 / bits.max(32),
        }
    }

    fn mnemonic(&self) -> String {
        let [a, b, _] = self.by_rows.map(layout);
        let (m, n, k) = self.shape;
        let types = match self.operand {
            "f16" => format!("{}.{}", self.d, self.c),
            x => format!("{}.{x}.{x}.{}", self.d, self.c),
        };
        let Self { op, how, .. } = self;
        let (rounding, clamp) = match *how {
            ".satfinite" => ("", *how),
            how => (how, ""),
        };
        format!("wmma.mma{op}.sync.aligned.{a}.{b}.m{m}n{n}k{k}{rounding}.{types}{clamp}")
    }

    fn ptx(&self, matrices: &[Matrix; 4]) -> String {
        let in_shared = matches!(self.place, Place::Shared | Place::GenericShared);
        let space = match self.place {
            Place::Global => ".global",
            Place::Shared => ".shared",
            Place::Generic | Place::GenericShared => "",
        };
        let (m, n, k) = self.shape;
        let (mut declared, mut before, mut loads) = (String::new(), String::new(), String::new());
        let mut after = String::new();
        let mut lists = Vec::new();
        for (i, matrix) in matrices.iter().enumerate() {
            let letter = ["a", "b", "c", "d"][i];
            let ty = match matrix.name {
                "f32" => "f32",
                "f64" => "f64",
                _ => "b32",
            };
            let count = Self::registers(letter, matrix);
            declared += &format!(".reg .{ty} %{letter}<{count}>;\n");
            let names: Vec<String> = (0..count).map(|i| format!("%{letter}{i}")).collect();
            lists.push(format!("{{{}}}", names.join(", ")));
            before += &format!(
                "ld.param.u64 %q{i}, [p{letter}];\nmov.b64 %q{}, %q{i};\n",
                4 + i
            );
            if in_shared {
                let bytes = matrix.bytes().len();
                declared += &format!(".shared .align 32 .b8 s{letter}[{bytes}];\n");
                let to_generic = match self.place {
                    Place::GenericShared => format!("cvta.shared.u64 %q{i}, %q{i};\n"),
                    _ => String::new(),
                };
                before += &format!("mov.u64 %q{i}, s{letter};\n{to_generic}");
                for at in (0..bytes).step_by(128) {
                    let (global, own) = (format!("[%q9+{at}]"), format!("[s{letter}x+{at}]"));
                    let own = own.replace(&format!("s{letter}x"), "%q10");
                    let address = format!(
                        "add.u64 %q9, %q{}, %q8; mov.u64 %q10, s{letter}; add.u64 %q10, %q10, %q8;\n",
                        4 + i
                    );
                    match letter {
                        "d" => {
                            after += &format!(
                                "{address}ld.shared.b32 %r1, {own}; st.global.b32 {global}, %r1;\n"
                            );
                        }
                        _ => {
                            before += &format!(
                                "{address}ld.global.b32 %r1, {global}; st.shared.b32 {own}, %r1;\n"
                            );
                        }
                    }
                }
            }
            let stride = match in_shared {
                true => String::new(),
                false => format!(", {}", matrix.stride),
            };
            let form = format!(
                "sync.aligned.{}.m{m}n{n}k{k}{space}.{}",
                layout(matrix.by_rows),
                matrix.name
            );
            match letter {
                "d" => {
                    let list = &lists[3];
                    let store = format!("wmma.store.d.{form} [%q{i}], {list}{stride};\n");
                    after = format!("{store}bar.warp.sync -1;\n{after}");
                }
                _ => {
                    let list = &lists[i];
                    loads += &format!("wmma.load.{letter}.{form} {list}, [%q{i}]{stride};\n");
                }
            }
        }
        let product = self.mnemonic();
        let [a, b, c, d] = &lists[..] else {
            unreachable!("there are four matrices");
        };
        format!(
            ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
.reg .b32 %r<2>; .reg .b64 %q<11>;
{declared}mov.u32 %r0, %laneid;
mul.wide.u32 %q8, %r0, 4;
{before}bar.warp.sync -1;
{loads}{product} {d}, {a}, {b}, {c};
{after}ret;
}}
"
        )
    }

    /// Runs the product; returns A, B, C and D.
    fn run(&self) -> [Matrix; 4] {
        let mut matrices = self.matrices();
        let text = self.ptx(&matrices);
        let emulator = Emulator::new(EmulatorConfig::default());
        let module = emulator
            .load(&text)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let addresses = matrices.each_ref().map(|matrix| {
            let bytes = matrix.bytes();
            let address = emulator.alloc(bytes.len() as u64).expect("memory suffices");
            emulator.write(address, &bytes).expect("the buffer is live");
            address
        });
        let params = addresses.map(u64::to_le_bytes);
        let params: Vec<&[u8]> = params.iter().map(<[u8; 8]>::as_slice).collect();
        let shape = LaunchConfig {
            grid: [1; 3],
            block: [32, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        emulator
            .launch(&module, "k", &shape, &params)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut bytes = matrices[3].bytes();
        emulator
            .read(addresses[3], &mut bytes)
            .expect("the buffer is live");
        matrices[3].take(&bytes);
        matrices
    }

    /// Compares the product with a plain sum.
    fn check(&self) {
        let [a, b, c, d] = self.run();
        let (m, n, k) = self.shape;
        for row in 0..m {
            for column in 0..n {
                let terms = || (0..k).map(|i| (a.value(row, i), b.value(i, column)));
                let (start, got) = (c.value(row, column), d.value(row, column));
                if self.d == "s32" {
                    let term = |(a, b): (f64, f64)| match self.op {
                        ".xor.popc" => (a as i64) ^ (b as i64),
                        // One bit times another is their conjunction.
                        _ => a as i64 * b as i64,
                    };
                    let sum = start as i64 + terms().map(term).sum::<i64>();
                    let want = match self.how {
                        ".satfinite" => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                        _ => sum as i32,
                    };
                    assert_eq!(got as i64, i64::from(want), "{self:?}: {row}, {column}");
                    continue;
                }
                let want = terms().fold(start, |sum, (a, b)| sum + a * b);
                let size = terms().fold(start.abs(), |sum, (a, b)| sum + (a * b).abs());
                // Each addend is cut off 25 bits below the largest one, and the result to its format.
                let sums = match self.operand {
                    "f64" => k as f64 * 2f64.powi(-52),
                    _ => (k + 1) as f64 * 2f64.powi(-25) + 2f64.powi(-22),
                };
                let rounding = if self.d == "f16" { 2f64.powi(-11) } else { 0.0 };
                let bound = size * sums + want.abs() * rounding * 1.001;
                let error = (got - want).abs();
                assert!(
                    error <= bound,
                    "{self:?}: {row}, {column}: {got}, exactly {want}"
                );
            }
        }
    }
}

const SQUARES: [(usize, usize, usize); 3] = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];

/// Checks these types with each layout in each place; returns the number of products.
fn check_all(
    shapes: &[(usize, usize, usize)],
    (operand, c, d): (&'static str, &'static str, &'static str),
    (op, how): (&'static str, &'static str),
) -> usize {
    let mut count = 0;
    for shape in shapes {
        for (at, place) in PLACES.into_iter().enumerate() {
            for layouts in 0..8 {
                let by_rows = [0, 1, 2].map(|bit| layouts >> bit & 1 == 0);
                let along_k = by_rows[0] && !by_rows[1];
                if Format::of(operand).bits < 8 && !along_k {
                    continue;
                }
                // The layouts of C and D take turns, as they do not depend on the place.
                if (layouts >> 2) != at % 2 {
                    continue;
                }
                let product = Product {
                    shape: *shape,
                    operand,
                    c,
                    d,
                    op,
                    how,
                    by_rows,
                    place,
                };
                product.check();
                count += 1;
            }
        }
    }
    count
}

#[test]
fn halves_with_accumulators_of_both_types() {
    for (c, d) in [
        ("f32", "f32"),
        ("f16", "f16"),
        ("f16", "f32"),
        ("f32", "f16"),
    ] {
        assert_eq!(check_all(&SQUARES, ("f16", c, d), ("", "")), 48);
    }
}

#[test]
fn other_floats() {
    assert_eq!(check_all(&SQUARES, ("bf16", "f32", "f32"), ("", "")), 48);
    let tf32 = check_all(&[(16, 16, 8)], ("tf32", "f32", "f32"), ("", ""));
    assert_eq!(tf32, 16);
    for how in ["", ".rn", ".rz", ".rm", ".rp"] {
        let double = check_all(&[(8, 8, 4)], ("f64", "f64", "f64"), ("", how));
        assert_eq!(double, 16);
    }
}

#[test]
fn bytes_and_what_is_smaller() {
    for how in ["", ".satfinite"] {
        for operand in ["s8", "u8"] {
            assert_eq!(check_all(&SQUARES, (operand, "s32", "s32"), ("", how)), 48);
        }
        for operand in ["s4", "u4"] {
            let types = (operand, "s32", "s32");
            assert_eq!(check_all(&[(8, 8, 32)], types, ("", how)), 4);
        }
    }
    for op in [".xor.popc", ".and.popc"] {
        let types = ("b1", "s32", "s32");
        assert_eq!(check_all(&[(8, 8, 128)], types, (op, "")), 4);
    }
}

#[test]
fn roundings_of_doubles_differ() {
    let sums = [".rm", ".rp"].map(|how| {
        let product = Product {
            shape: (8, 8, 4),
            operand: "f64",
            c: "f64",
            d: "f64",
            op: "",
            how,
            by_rows: [true, false, true],
            place: Place::Global,
        };
        let [.., d] = product.run();
        d
    });
    let pairs = sums[0].elements.iter().zip(&sums[1].elements);
    let (mut below, mut all) = (0, 0);
    for (down, up) in pairs {
        assert!(f64::from_bits(*down) <= f64::from_bits(*up));
        below += usize::from(down != up);
        all += 1;
    }
    assert!(below > all / 2, "{below} of {all}");
}
