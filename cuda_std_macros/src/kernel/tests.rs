use super::*;

/// The compile error of `#[kernel(attribute)] item`; empty if there is none.
fn refusal(attribute: &str, item: &str) -> String {
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    match expand(parse(attribute), parse(item)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_cannot_be_an_entry_is_refused_with_the_reason() {
    let cases = [
        ("unsafe fn f<T>(x: *mut T) {}", "cannot be generic"),
        ("unsafe fn f<'a>(x: &'a f32) {}", "cannot be generic"),
        ("unsafe fn f(x: impl Copy) {}", "cannot be generic"),
        ("async unsafe fn f() {}", "cannot be async"),
        ("const unsafe fn f() {}", "cannot be const"),
        ("unsafe extern \"C\" fn f() {}", "chooses the ABI"),
        ("unsafe fn f() -> u32 { 1 }", "returns nothing"),
        ("unsafe fn f(&self) {}", "cannot be a method"),
        ("unsafe fn r#loop() {}", "kernel's name cannot be a raw"),
        (
            "unsafe fn f(#[cfg(debug_assertions)] x: u32) {}",
            "the same in every build",
        ),
        (
            "unsafe fn f(x: u32, #[cfg_attr(test, cfg(test))] y: u32) {}",
            "a kernel for each",
        ),
        ("unsafe fn f((a, b): (u32, u32)) {}", "plain name"),
        ("unsafe fn f(x: &mut [f32]) {}", "two parameters"),
        ("unsafe fn f(x: &str) {}", "two parameters"),
        ("unsafe fn f(x: &dyn Fn()) {}", "vtable"),
        ("unsafe fn f(x: *const [f32]) {}", "two parameters"),
        ("unsafe fn f(x: *const str) {}", "two parameters"),
        ("unsafe fn f(x: *mut dyn Fn()) {}", "vtable"),
        ("unsafe fn f(x: &mut f32) {}", "pass `*mut T`"),
        ("unsafe fn f(x: &mut [f32]) {}", "two parameters"),
    ];
    for (item, want) in cases {
        let got = refusal("", item);
        assert!(got.contains(want), "`{item}`: {got:?}, want {want:?}");
    }
}

#[test]
fn a_safe_kernel_takes_no_pointers() {
    let cases = [
        (
            "fn f(x: *const f32) {}",
            "takes no raw pointer: take `&[T]`",
        ),
        ("fn f(x: *mut f32) {}", "`Disjoint<'_, T, Index1>`"),
        ("fn f(x: &f32) {}", "no such reference: take `&[T]`"),
        ("fn f(x: &mut [f32]) {}", "the same `&mut`"),
        ("fn f(x: &'static [f32]) {}", "names no lifetime"),
        (
            "fn f(x: Disjoint<'static, f32, Index1>) {}",
            "names no lifetime",
        ),
        ("fn f(b: Block<'_, 32>) {}", "block's extents are missing"),
        ("fn f<T>(x: &[T]) {}", "cannot be generic"),
        ("fn f(x: impl Copy) {}", "cannot be generic"),
    ];
    for (item, want) in cases {
        let got = refusal("", item);
        assert!(got.contains(want), "`{item}`: {got:?}, want {want:?}");
    }
}

#[test]
fn memory_is_an_address_and_a_shape() {
    let item = "fn f(n: u32, x: &[AtomicU32], y: Disjoint<'_, f32, safe::InTile<2, 2>>, \
                t: SharedTile<'_, f32, 8>, b: Block<'_, 32>) {}";
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    let expanded = expand(parse("block = 32"), parse(item)).expect("a kernel");
    let expanded = expanded.to_string();
    for part in [
        r#"{\"name\":\"n\",\"type\":\"u32\"},{\"name\":\"x\",\"type\":\"*const AtomicU32\","#,
        r#"{\"name\":\"x.len\",\"type\":\"usize\"},{\"name\":\"y\",\"type\":\"*mut f32\","#,
        r#"{\"name\":\"y.shape\",\"type\":\"Shape2\"}],"#,
        r#"\"safe\":true}"#,
    ] {
        assert!(expanded.contains(part), "{expanded} lacks {part}");
    }
}

#[test]
fn a_slice_of_an_unsafe_kernel_is_an_address_and_a_length() {
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    let item = "unsafe fn f(x: &[half::f16], n: u32) { x }";
    let requires = "requires = \"x.len() > n\"";
    let expanded = expand(parse(requires), parse(item)).expect("a kernel");
    let expanded = expanded.to_string();
    for part in [
        "fn f (x : * const half :: f16 , __x_len : usize , n : u32) {",
        "let x : & [half :: f16] = unsafe { :: cuda_std :: meta :: slice (x , __x_len) }",
        r#"{\"name\":\"x\",\"type\":\"*const half::f16\"},{\"name\":\"x.len\",\"type\":\"usize\"},"#,
        r#"\"code\":\"$x.len $n >\""#,
    ] {
        assert!(expanded.contains(part), "{expanded} lacks {part}");
    }
}

#[test]
fn a_cooperative_kernel_begins_with_an_assertion() {
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    let asserts = |attribute, item| {
        let expanded = expand(parse(attribute), parse(item)).expect("a kernel");
        let expanded = expanded.to_string();
        expanded.contains("{ :: cuda_std :: grid :: assert_cooperative () ;")
    };
    for item in [
        "unsafe fn f(n: u32) { n }",
        "unsafe fn f(x: &[f32]) { x }",
        "fn f(n: u32) { n }",
    ] {
        assert!(asserts("cooperative", item), "{item}");
        assert!(!asserts("", item), "{item}");
    }
    let generic = "unsafe fn f<T>(x: *mut T) {}";
    assert!(asserts("f_u8 = <u8>, cooperative", generic));
}

#[test]
fn a_generic_kernel_has_the_entries_that_it_names() {
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    let item = "pub fn f<T: Plain, const N: usize>(a: T, x: &[[T; N]], \
                mut y: Disjoint<'_, T, Index1>) { y }";
    let entries = "f_f32 = <f32, 4>, f_wide = <f64, { 1 + 1 }>, max_threads = 64";
    let expanded = expand(parse(entries), parse(item)).expect("a kernel");
    let expanded = expanded.to_string();
    for part in [
        r#"{\"name\":\"f_f32\",\"module\":\""#,
        r#"{\"name\":\"a\",\"type\":\"f32\"},{\"name\":\"x\",\"type\":\"*const [f32;4]\","#,
        r#"{\"name\":\"y\",\"type\":\"*mut f64\","#,
        "f :: < f32 , 4 > (a , x , y)",
        "fn f < T : Plain , const N : usize >",
    ] {
        assert!(expanded.contains(part), "{expanded} lacks {part}");
    }
    let contract = "f_f32 = <f32, 4>, f_wide = <f64, { 1 + 1 }>, block = 8 * N, \
                    requires = \"x.len() % N == 0 && x.len() <= y.len()\", grid = \"y.len() / N\"";
    let expanded = expand(parse(contract), parse(item)).expect("a kernel");
    let expanded = expanded.to_string();
    for part in [
        r#"{\"text\":\"x.len() % 4 == 0\",\"code\":\"$x.len "#,
        r#"{\"text\":\"x.len() % { 1 + 1 } == 0\",\"code\":\"$x.len "#,
        "let value : u64 = ((8 * 4) as u64)",
        "let value : u64 = ((8 * { 1 + 1 }) as u64)",
    ] {
        assert!(expanded.contains(part), "{expanded} lacks {part}");
    }
    let item = "unsafe fn f<T>(x: *mut T) {}";
    let expanded = expand(parse("f_u8 = <u8>"), parse(item)).expect("a kernel");
    let call = "unsafe { f :: < u8 > (x) }";
    assert!(expanded.to_string().contains(call), "{expanded}");
    for (entries, item, want) in [
        ("g = <u8, u8>", item, "`f` takes 1 arguments, got 2"),
        ("g = <u8>", "unsafe fn f(x: u32) {}", "takes 0 arguments"),
        ("r#loop = <u8>", item, "cannot be a raw identifier"),
        ("g = <u8>", "fn f<'a>(x: &'a [u8]) {}", "names no lifetime"),
    ] {
        let got = refusal(entries, item);
        assert!(got.contains(want), "`{entries}`: {got:?}, want {want:?}");
    }
}

#[test]
fn wrong_arguments_are_refused_with_the_reason() {
    let cases = [
        ("threads = 4", "unknown argument"),
        ("max_threads = 4, max_threads = 5", "given twice"),
        ("min_blocks = 2", "needs max_threads"),
        ("block = 32, max_threads = 32", "leave out max_threads"),
        ("block = (1, 2, 3, 4)", "block takes three extents"),
        ("cluster = 2", "three extents"),
        ("cluster = (2, 1)", "three extents"),
        ("arch = 90", "architecture's name"),
        ("arch = \"Hopper\"", "`Hopper` is not an architecture"),
        ("arch = \"sm_12\"", "known: sm_75, sm_80"),
        ("arch = \"sm_80\", arch = \"sm_80\"", "given twice"),
    ];
    for (attribute, want) in cases {
        let got = refusal(attribute, "unsafe fn f() {}");
        assert!(got.contains(want), "`{attribute}`: {got:?}, want {want:?}");
    }
}

#[test]
fn what_can_be_an_entry_is_accepted() {
    let attribute = "max_threads = 8 * 32, min_blocks = 1, cluster = (2, 1, 1), dynamic_shared = N, arch = \"sm_90a\"";
    let item = "pub unsafe fn f(x: &f32, mut n: usize, p: Params) -> () { n += 1; }";
    assert_eq!(refusal(attribute, item), "");
    let lints = "unsafe fn f(#[allow(unused)] x: u32) {}";
    assert_eq!(refusal("", lints), "");
    let raw = "unsafe fn f(r#type: u32) {}".parse().expect("tokens");
    let expanded = expand(TokenStream::new(), raw).expect("a kernel");
    let expanded = expanded.to_string();
    assert!(expanded.contains(r#"{\"name\":\"type\","#), "{expanded}");
}
