//! For `#[kernel]` alone: metadata with numbers that only constant evaluation knows, and a bound of
//! its parameters.

/// A kernel's parameter is `Copy`: every thread has one of its own, of the launch's bytes.
pub const fn is_copied_to_each_thread<Parameter: Copy>() {}

/// The slice of a launch's address and length.
///
/// # Safety
/// `len` elements are at `pointer`, which nothing writes while a kernel runs. If `len` is 0, `pointer` may
/// be any.
#[inline(always)]
pub unsafe fn slice<'kernel, T>(pointer: *const T, len: usize) -> &'kernel [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: passed on to the caller.
    unsafe { core::slice::from_raw_parts(pointer, len) }
}

/// Returns `template` with each run of `@` replaced by the next of `numbers`, padded with spaces on
/// the left.
///
/// # Panics
/// In constant evaluation: where there are more or fewer runs than numbers, or a run is too short
/// for its number.
pub const fn fill<const LEN: usize>(template: &str, numbers: &[u64]) -> [u8; LEN] {
    let mut out = [b' '; LEN];
    let text = template.as_bytes();
    assert!(text.len() == LEN);
    let (mut at, mut used) = (0, 0);
    while at < LEN {
        if text[at] != b'@' {
            out[at] = text[at];
            at += 1;
            continue;
        }
        let mut end = at;
        while end < LEN && text[end] == b'@' {
            end += 1;
        }
        assert!(used < numbers.len(), "more places than numbers");
        let mut rest = numbers[used];
        used += 1;
        let mut digit = end;
        while digit == end || rest > 0 {
            assert!(digit > at, "a number of #[kernel(..)] is too large");
            digit -= 1;
            out[digit] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        at = end;
    }
    assert!(used == numbers.len(), "more numbers than places");
    out
}
