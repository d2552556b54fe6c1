/// What `#[kernel(attribute)] item` expands to, or its error.
fn expand(attribute: &str, item: &str) -> String {
    let parse = |text: &str| text.parse().expect("the test's text is tokens");
    match crate::kernel::expand(parse(attribute), parse(item)) {
        Ok(tokens) => tokens.to_string(),
        Err(error) => error.to_string(),
    }
}

const ITEM: &str = "fn f(n: u32, s: f32, x: &[f32], v: View3<'_, f32>, \
                    y: Disjoint<'_, f32, InTile<16, 32>>, w: Disjoint<'_, f32, PerWarp>, \
                    z: Disjoint<'_, f32, Index2>) {}";

#[test]
fn conditions_are_formulas_over_what_a_launch_passes() {
    let requires = "requires = \"x.len() >= w.len() * 2 && (v.planes() == SIZE || !(n < 3))\"";
    let number = "@".repeat(20);
    let expanded = expand(requires, ITEM);
    for part in [
        format!(
            r#"{{\"text\":\"x.len() >= w.len() * 2\",\"code\":\"$x.len $w.len {number} * >=\"}}"#
        ),
        format!(r#"\"code\":\"$v.planes {number} == $n {number} < ! ||\"}}]"#),
        "assert_unchecked (((p2_shape as u64) >= u64 :: unchecked_mul".to_owned(),
    ] {
        assert!(expanded.contains(&part), "{expanded} lacks {part}");
    }
}

#[test]
fn a_grid_is_that_of_a_parameter_or_a_number_of_threads() {
    let number = "@".repeat(20);
    for (grid, want) in [
        (
            "block = (32, 8), grid = \"y\"",
            "[\\\"$y.columns N div_ceil\\\",\\\"$y.rows N div_ceil\\\",\\\"1\\\"]",
        ),
        (
            "grid = \"w\"",
            "[\\\"$w.len N div_ceil\\\",\\\"1\\\",\\\"1\\\"]",
        ),
        (
            "block = 64, grid = \"resident(w)\"",
            "[\\\"$w.len N div_ceil $resident() min\\\",\\\"1\\\",\\\"1\\\"]",
        ),
        (
            "grid = \"x.len() / 4\"",
            "[\\\"$x.len N / N div_ceil\\\",\\\"1\\\",\\\"1\\\"]",
        ),
        (
            "block = (4, 4), grid = \"(n, n, 2)\"",
            "[\\\"$n N div_ceil\\\",\\\"$n N div_ceil\\\",\\\"N N div_ceil\\\"]",
        ),
    ] {
        let expanded = expand(grid, ITEM);
        let want = want.replace('N', &number);
        assert!(expanded.contains(&want), "{expanded} lacks {want}");
    }
}

#[test]
fn what_is_no_contract_is_refused_with_the_reason() {
    for (attribute, want) in [
        ("requires = 1", "requires takes a condition"),
        ("requires = \"x.len()\"", "requires is a condition"),
        (
            "requires = \"x.len() == x.rows()\"",
            "`x.rows()` is no value of a launch; there are `n`, `x.len()`",
        ),
        ("requires = \"s > 1\"", "`s` is no value of a launch"),
        ("requires = \"z > 1\"", "a parameter has a length"),
        ("requires = \"n + (n > 1) > 2\"", "a number has to be here"),
        ("requires = \"!n\"", "a condition has to be here"),
        ("requires = \"n.pow(2) > 1\"", "there are min, max"),
        ("requires = \"n & 1 == 0\"", "there are + - * / %"),
        ("requires = \"n > 1\", requires = \"n > 1\"", "given twice"),
        ("grid = \"z\"", "needs the block's: block = (32, 8)"),
        ("grid = \"x.len() > 1\"", "a grid is a number of threads"),
        ("grid = \"()\"", "one to three extents"),
        ("grid = \"resident(x.len(), n)\"", "may be `resident(y)`"),
        (
            "block = (4, 4), grid = \"resident((n, n))\"",
            "along x alone",
        ),
        ("grid = x", "grid takes an output"),
    ] {
        let got = expand(attribute, ITEM);
        assert!(got.contains(want), "`{attribute}`: {got}, want {want}");
    }
    let got = expand(
        "requires = \"x.len() > 1\"",
        "unsafe fn f(x: *const f32, n: u32) {}",
    );
    assert!(got.contains("there are `n`, and constants"), "{got}");
}

#[test]
fn a_launch_has_the_dimensions_in_which_its_indices_are_unique() {
    let of = |outputs: &str| expand("", &format!("fn f({outputs}) {{}}"));
    let one = of("y: Disjoint<'_, f32, Index1>");
    for part in [
        r#"{\"text\":\"a grid and a block of one dimension\","#,
        r#"\"code\":\"$grid.y $grid.z max $block.y max $block.z max 1 ==\"}"#,
        "assert_unchecked ((:: cuda_std :: thread :: block_dim_z () == 1))",
    ] {
        assert!(one.contains(part), "{one} lacks {part}");
    }
    for (outputs, want) in [
        ("y: Disjoint<'_, f32, PerBlock>", "a grid of one dimension"),
        (
            "y: Disjoint<'_, f32, InTile<8, 8>>",
            "a grid of two dimensions",
        ),
        (
            "y: Disjoint<'_, f32, Index2>",
            "a grid and a block of two dimensions",
        ),
        (
            "y: Disjoint<'_, f32, Index2>, z: Disjoint<'_, f32, InRow>",
            "a grid of one dimension and a block of two dimensions",
        ),
    ] {
        let expanded = of(outputs);
        assert!(expanded.contains(want), "{expanded} lacks {want}");
    }
    for outputs in ["y: Disjoint<'_, f32, Index3>", "x: &[f32]"] {
        assert!(!of(outputs).contains("requires"), "{outputs}");
    }
}

#[test]
fn values_that_a_launch_has_found_equal_are_one_value() {
    let item = "fn f(n: u32, x: View2<'_, f32>, z: Disjoint<'_, f32, Index3>) {}";
    let of = |requires: &str| expand(&format!("requires = \"{requires}\""), item);
    for (requires, want) in [
        (
            "x.rows() == z.rows()",
            "p3_shape . rows = (p1_shape . rows as u64) as _",
        ),
        (
            "x.column_stride() == 1",
            "p1_shape . column_stride = ((1) as u64) as _",
        ),
        ("4 == n", "p0 = ((4) as u64) as _"),
        ("x.rows() == n + 1", "assert_unchecked"),
        ("x.rows() >= n", "assert_unchecked"),
    ] {
        let expanded = of(requires);
        assert!(expanded.contains(want), "{expanded} lacks {want}");
    }
}
