//! Buffers that are variables of the PTX file.

use crate::support::{Folder, Npy, warpsmith};

use super::Ran;

/// Adds each weight to a total, `n` times.
const PTX: &str = "
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .f32 weights[4];
.const .align 1 .b8 flag = 1;
.global .align 4 .f32 totals[4] = {0f3F800000, 0f40000000};
.visible .entry add()
{
    .reg .b16 %h; .reg .f32 %f<3>; .reg .b32 %r; .reg .b64 %d<4>;
    mov.u32 %r, %tid.x;
    mul.wide.u32 %d0, %r, 4;
    mov.u64 %d1, weights;
    add.u64 %d1, %d1, %d0;
    ld.const.f32 %f0, [%d1];
    mov.u64 %d2, totals;
    add.u64 %d2, %d2, %d0;
    ld.global.f32 %f1, [%d2];
    add.f32 %f1, %f1, %f0;
    ld.const.u8 %h, [flag];
    cvt.rn.f32.u16 %f2, %h;
    mul.f32 %f1, %f1, %f2;
    st.global.f32 [%d2], %f1;
    ret;
}
";

const TOML: &str = r#"
[[buffer]]
name = "weights"
variable = "weights"
dtype = "f32"
shape = [4]
fill = "iota"
[[buffer]]
name = "t"
variable = "totals"
dtype = "f32"
shape = [2, 2]
fill = "unwritten"
save = "totals.npy"
[[launch]]
kernel = "add"
grid = 1
block = 4
[[launch]]
kernel = "add"
grid = 1
block = 4
"#;

fn run(folder: &Folder, toml: &str) -> Ran {
    let ptx = folder.write("k.ptx", PTX).into_os_string();
    let toml = folder.write("launch.toml", toml).into_os_string();
    let options = ["--device", "emulator", "--check"].map(Into::into);
    warpsmith(["run".into(), ptx, toml].into_iter().chain(options))
}

#[test]
fn a_buffer_may_be_a_variable() {
    let folder = Folder::new();
    run(&folder, TOML).done();
    let totals = Npy::read(&folder.path("totals.npy")).f32s();
    assert_eq!(totals, [1.0, 4.0, 4.0, 6.0]);
    // A scalar of one byte, and contents of both kinds from the launch file.
    let flag = "[[buffer]]\nname = \"f\"\nvariable = \"flag\"\ndtype = \"u8\"\nshape = []\nfill = \"zeros\"\n";
    run(
        &folder,
        &format!("{flag}{}", TOML.replace("\"unwritten\"", "\"iota\"")),
    )
    .done();
    let totals = Npy::read(&folder.path("totals.npy")).f32s();
    assert_eq!(totals, [0.0; 4]);
}

#[test]
fn a_wrong_variable_is_an_error_with_what_there_is() {
    let folder = Folder::new();
    for (from, to, want) in [
        (
            "variable = \"weights\"",
            "variable = \"weight\"",
            "buffer `weights`: variable: no `weight` in the PTX file; it has: weights, flag, totals",
        ),
        (
            "variable = \"totals\"",
            "variable = \"weights\"",
            "`weights` has a buffer already",
        ),
        (
            "shape = [4]",
            "shape = [3]",
            "buffer `weights` has 12 bytes, variable",
        ),
    ] {
        run(&folder, &TOML.replacen(from, to, 1)).failed(1, &[want]);
    }
}

#[test]
fn scalars_of_one_and_two_bytes_are_arguments() {
    let folder = Folder::new();
    let ptx = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry keep(.param .u64 out, \
               .param .u8 a, .param .s8 b, .param .u16 c, .param .s16 d)\n{\n.reg .b16 %h<4>; .reg .b64 \
               %d0;\nld.param.u64 %d0, [out]; ld.param.u8 %h0, [a]; ld.param.s8 %h1, [b];\nld.param.u16 \
               %h2, [c]; ld.param.s16 %h3, [d];\nst.global.u16 [%d0], %h0; st.global.u16 [%d0+2], \
               %h1;\nst.global.u16 [%d0+4], %h2; st.global.u16 [%d0+6], %h3;\nret;\n}\n";
    let ptx = folder.write("k.ptx", ptx).into_os_string();
    let toml = "kernel = \"keep\"\ngrid = 1\nblock = 1\narg = [{ buffer = \"out\" }, { u8 = 200 }, \
                { i8 = -3 }, { u16 = 60000 }, { i16 = -4 }]\n[[buffer]]\nname = \"out\"\ndtype = \
                \"i16\"\nshape = [4]\nfill = \"unwritten\"\nsave = \"out.npy\"\n";
    let toml = folder.write("launch.toml", toml).into_os_string();
    let options = ["--device", "emulator", "--check"].map(Into::into);
    warpsmith(["run".into(), ptx, toml].into_iter().chain(options)).done();
    let out = std::fs::read(folder.path("out.npy")).expect("it was saved");
    let want = [200, -3, 60000_u16.cast_signed(), -4];
    let want: Vec<u8> = want
        .iter()
        .flat_map(|value: &i16| value.to_le_bytes())
        .collect();
    assert!(out.ends_with(&want), "{out:?}");
}
