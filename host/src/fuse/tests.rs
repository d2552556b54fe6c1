use super::text::Pieces;
use super::{Body, Filling, Fragment, FuseError, Scalar, Skeleton};

const FRAGMENTS: &str = "\
.version 8.1
.target sm_89
.address_size 64

.global .align 4 .b8 __const[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .func  (.param .b32 func_retval0) f32_relu(
\t.param .b32 f32_relu_param_0
)
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<3>;

\tld.param.b32 \t%r1, [f32_relu_param_0];
\tsetp.lt.f32 \t%p1, %r1, 0f00000000;
\tselp.f32 \t%r2, 0f00000000, %r1, %p1;
\tst.param.b32 \t[func_retval0], %r2;
\tret;
}
.visible .func  (.param .b32 func_retval0) u32_first_if(
\t.param .b32 u32_first_if_param_0
)
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<4>;
\t.reg .b64 \t%rd<2>;

\tld.param.b32 \t%r1, [u32_first_if_param_0];
\tsetp.eq.b32 \t%p1, %r1, 0;
\t@%p1 bra \t$L__BB1_2;
\tbra.uni \t$L__BB1_1;
$L__BB1_1:
\tmov.b64 \t%rd1, __const;
\tld.global.b32 \t%r2, [%rd1];
\tst.param.b32 \t[func_retval0], %r2;
\tret;
$L__BB1_2:
\tst.param.b32 \t[func_retval0], %r1;
\tret;
}
.visible .func  (.param .b32 func_retval0) f32_of_word(
\t.param .b32 f32_of_word_param_0
)
{
\t.reg .b32 \t%r<2>;

\tld.param.b32 \t%r1, [f32_of_word_param_0];
\tst.param.b32 \t[func_retval0], %r1;
\tret;
}
.visible .func  (.param .b64 func_retval0) f64_calls(
\t.param .b64 f64_calls_param_0
)
{
\tcall.uni (x), other, (y);
\tret;
}
";

const SKELETON: &str = "\
.version 7.0
.target sm_75
.address_size 64

.visible .entry map(
\t.param .u64 .ptr .align 1 map_param_0,
\t.param .u64 .ptr .align 1 map_param_1,
\t.param .align 8 .b8 map_param_2[16]
)
.maxntid 128
{
\t.reg .b32 \t%r<9>;
\t.reg .b64 \t%rd<3>;

\tld.param.b64 \t%rd1, [map_param_0];
\tld.param.b64 \t%rd2, [map_param_1];
\tmov.b32 %r1, 0; // hole load %r1 <- %rd1
\tmov.b32 %r2, 0; // hole count %r2 <-
\tmov.b32 %r3, 0; // hole value %r3 <- %r1 %r2
\t// hole store <- %rd2 %r3
\tret;
}
";

fn fragment(name: &str) -> Fragment {
    let result = if name.starts_with("f32") {
        Scalar::F32
    } else {
        Scalar::U32
    };
    let param = if name == "f32_relu" {
        Scalar::F32
    } else {
        Scalar::U32
    };
    // SAFETY: functions of their arguments, as cuda_builder writes them.
    unsafe { Fragment::from_ptx(FRAGMENTS, name, &[param], result) }.expect("it is there")
}

fn skeleton() -> Skeleton {
    Skeleton::from_ptx(SKELETON, "map").expect("it is there")
}

/// What fills the skeleton, `value` with a body.
fn fill(value: &Body) -> impl Fn(&str) -> Result<Option<Filling>, FuseError> + '_ {
    move |hole| {
        Ok(match hole {
            "load" => Some(Filling::Load(4)),
            "store" => Some(Filling::Store(4)),
            "count" => Some(Filling::Constant(7)),
            "value" => Some(Filling::Body(value.clone())),
            _ => None,
        })
    }
}

fn reason(error: &FuseError) -> String {
    error.to_string()
}

#[test]
fn a_declaration_hides_nothing_behind_it() {
    let printing = "\
.extern .func  (.param .b32 func_retval0) vprintf
(
\t.param .b64 vprintf_param_0,
\t.param .b64 vprintf_param_1
)
;
.global .align 4 .b8 __const";
    let text = FRAGMENTS.replace(".global .align 4 .b8 __const", printing);
    let scalars = ([Scalar::U32], Scalar::U32);
    let of = |name| {
        // SAFETY: functions of their arguments, as cuda_builder writes them.
        unsafe { Fragment::from_ptx(&text, name, &scalars.0, scalars.1) }
    };
    let pieces = Pieces::of(&text);
    assert_eq!(pieces.variables.len(), 1);
    assert_eq!(
        of("u32_first_if").expect("it is there").name(),
        "u32_first_if"
    );
    let error = of("vprintf").expect_err("it is only declared").to_string();
    assert!(
        error.ends_with("it has f32_relu, u32_first_if, f32_of_word, f64_calls"),
        "{error}"
    );
}

#[test]
fn a_hole_becomes_scopes_of_its_fragments() {
    let mut body = Body::default();
    let word = body.input(0);
    let x = body
        .apply(&fragment("f32_of_word"), &[word])
        .expect("a word");
    let y = body.apply(&fragment("f32_relu"), &[x]).expect("a float");
    body.output(0, y).expect("its own value");
    let text = skeleton()
        .compose(fill(&body))
        .expect("all holes are filled");
    let scope = "{ // f32_relu\n.reg .pred \t%p<2>;\n.reg .b32 \t%r<3>;\nmov.b32\t%r1,$w1;\n\
                 setp.lt.f32 \t%p1, %r1, 0f00000000;\nselp.f32 \t%r2, 0f00000000, %r1, %p1;\n\
                 mov.b32\t$w2,%r2;\n}\nmov.b32\t%r3,$w2;\n}\n";
    assert!(text.contains(scope), "{text}");
    assert!(text.contains("mov.b32\t%r2,7;\n"), "{text}");
    assert!(text.contains("ld.global.b32\t%r1,[%rd1];\n"), "{text}");
    // As new as its newest part, and with nothing that it does not name.
    assert!(text.starts_with(".version 8.1\n.target sm_89\n"), "{text}");
    assert!(
        !text.contains("__const") && !text.contains("// hole"),
        "{text}"
    );
    ptx_syntax::parse(&text).expect("it is PTX");
}

#[test]
fn constants_come_along_and_returns_in_the_middle_go_to_the_end() {
    let mut body = Body::default();
    let word = body.input(1);
    let first = fragment("u32_first_if");
    let once = body.apply(&first, &[word]).expect("a word");
    let twice = body.apply(&first, &[once]).expect("a word");
    body.output(0, twice).expect("its own value");
    let text = skeleton()
        .compose(fill(&body))
        .expect("all holes are filled");
    assert_eq!(
        text.matches(".global .align 4 .b8 __const_").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("bra\t$end;").count(), 2, "{text}");
    ptx_syntax::parse(&text).expect("it is PTX");
}

#[test]
fn a_result_of_a_wide_register_is_its_low_bits() {
    let text = |declared: &str, from: &str| {
        let ptx = format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n\
             .visible .func (.param .b32 func_retval0) low(\n.param .b32 low_param_0\n)\n{{\n\
             {declared}\nld.param.b32 \t%r0, [low_param_0];\ncvt.u64.u32 \t{from}, %r0;\n\
             st.param.b32 \t[func_retval0], {from};\nret;\n}}\n"
        );
        // SAFETY: the text converts its argument, and touches nothing else.
        let low = unsafe { Fragment::from_ptx(&ptx, "low", &[Scalar::U32], Scalar::U32) };
        let mut body = Body::default();
        let input = body.input(0);
        let result = body.apply(&low.expect("it is there"), &[input]);
        body.output(0, result.expect("it fits"))
            .expect("it is there");
        skeleton().compose(fill(&body)).expect("it fits")
    };
    for (declared, from) in [
        (".reg .b32\t%r<1>;\n.reg .b64\t%rd<2>;", "%rd1"),
        (".reg .b32\t%r<1>;\n.reg .b64\t%D<10>,%E<3>;", "%E2"),
        (".reg .b32\t%r<1>;\n.reg .b64\t%D<1>,%wide;", "%wide"),
    ] {
        let text = text(declared, from);
        assert!(
            text.contains("cvt.u32.u64\t$w") && text.contains(&format!(",{from};\n")),
            "{text}"
        );
    }
    let text = text(".reg .b32\t%r<9>;\n.reg .b64\t%r1<9>;", "%r8");
    assert!(!text.contains("cvt.u32.u64"), "{text}");
}

#[test]
fn what_the_launch_gives_is_read_where_it_lies() {
    let mut body = Body::default();
    let number = body.param(2, 12, Scalar::U32);
    body.output(0, number).expect("its own value");
    let text = skeleton()
        .compose(fill(&body))
        .expect("all holes are filled");
    assert!(
        text.contains("ld.param.b32\t$w0,[map_param_2+12];"),
        "{text}"
    );

    for offset in [13, u32::MAX] {
        let mut behind = Body::default();
        let number = behind.param(2, offset, Scalar::U32);
        behind.output(0, number).expect("its own value");
        let error = skeleton()
            .compose(fill(&behind))
            .expect_err("behind the end");
        assert!(
            reason(&error).contains(&format!("has 16 bytes, not byte {offset}")),
            "{error}"
        );
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let relu = fragment("f32_relu");
    let mut body = Body::default();
    let word = body.input(0);
    let error = body.apply(&relu, &[word]).expect_err("a word is no float");
    let (got, want) = (Scalar::U32, Scalar::F32);
    let fragment: Box<str> = "f32_relu".into();
    assert_eq!(
        error,
        FuseError::ArgumentType {
            fragment,
            index: 0,
            got,
            want
        }
    );
    let error = body.apply(&relu, &[]).expect_err("no argument");
    assert!(
        matches!(
            error,
            FuseError::ArgumentCount {
                got: 0,
                want: 1,
                ..
            }
        ),
        "{error}"
    );
    let stranger = {
        let mut other = Body::default();
        other.input(0);
        other.input(1)
    };
    let error = body.output(0, stranger).expect_err("of another body");
    assert_eq!(error, FuseError::UnknownValue { index: 1, len: 1 });

    body.output(3, word).expect("its own value");
    let error = skeleton().compose(fill(&body)).expect_err("one output");
    assert!(
        reason(&error).contains("1 outputs, not output 3"),
        "{error}"
    );
    let unfilled = skeleton().compose(|_| Ok::<_, FuseError>(None));
    let error = unfilled.expect_err("nothing is filled");
    assert!(matches!(error, FuseError::Unfilled { .. }), "{error}");
    let constants = skeleton().compose(|_| Ok::<_, FuseError>(Some(Filling::Constant(1))));
    let error = constants.expect_err("a load is no constant");
    assert!(matches!(error, FuseError::Misfit { .. }), "{error}");
}

#[test]
fn names_and_signatures_are_held_against_the_text() {
    let fragment = |name: &str, params: &[Scalar], result| {
        Fragment::of(&Pieces::of(FRAGMENTS), name, params, result)
            .map(|_| ())
            .expect_err("must be refused")
    };
    let error = fragment("f32_gelu", &[Scalar::F32], Scalar::F32);
    assert!(
        reason(&error).contains("it has f32_relu, u32_first_if"),
        "{error}"
    );
    for (params, result) in [
        (vec![Scalar::F64], Scalar::F32),
        (vec![Scalar::F32; 2], Scalar::F32),
        (vec![Scalar::F32], Scalar::I64),
    ] {
        let error = fragment("f32_relu", &params, result);
        assert!(matches!(error, FuseError::NotAFragment { .. }), "{error}");
    }
    let error = fragment("f64_calls", &[Scalar::F64], Scalar::F64);
    assert!(reason(&error).contains("call.uni"), "{error}");
    let error = Skeleton::from_ptx(SKELETON, "f32_relu").expect_err("no kernel");
    assert!(
        error.to_string().contains("no kernel `f32_relu`"),
        "{error}"
    );
}

#[test]
fn every_embedded_fragment_can_be_composed() {
    let manifest = crate::builtin_manifest().expect("kernels are embedded");
    let mut count = 0;
    for module in &manifest.modules {
        for entry in &module.fragments {
            let fragment = super::builtin_fragment(&entry.name, (9, 0)).expect("it is there");
            assert!(
                fragment.params().len() == entry.params.len(),
                "{}",
                entry.name
            );
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}
