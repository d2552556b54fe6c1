//! Printing from kernels, for debugging: [`print!`](crate::print!) and
//! [`println!`](crate::println!).
//!
//! A call is one `vprintf`, so the pieces of a line stay together; lines of different threads come
//! in any order, and on a GPU only when the host synchronises. The arguments pass through local
//! memory, which cuda_builder must be told to allow for that kernel.

/// Most bytes of a format string, its end included.
const FORMAT_MAX: usize = 512;

/// Something that `{}` prints.
///
/// # Safety
/// `CONVERSION` is one conversion of `printf`, which reads what `pass` gives as C passes it and, where
/// that is a pointer, what it points to.
///
/// ```compile_fail,E0200
/// use cuda_std::print::Arg;
/// #[derive(Clone, Copy)]
/// struct Number(u64);
/// impl Arg for Number {
///     type Passed = u64;
///     const CONVERSION: &'static str = "%s"; // reads memory anywhere
///     fn pass(self) -> u64 {
///         self.0
///     }
///     fn text(self) -> String {
///         self.0.to_string()
///     }
/// }
/// ```
pub unsafe trait Arg: Copy {
    /// How C passes it to a variadic function.
    type Passed: Copy;
    /// How `vprintf` is told of it.
    const CONVERSION: &'static str;

    /// As C passes it.
    fn pass(self) -> Self::Passed;

    /// What the host prints.
    #[cfg(not(target_arch = "nvptx64"))]
    fn text(self) -> String;
}

macro_rules! arguments {
    ($($ty:ty => $passed:ty, $conversion:literal, |$x:ident| $pass:expr, $host:literal;)*) => {$(
        // SAFETY: C's conversion of what it is passed as; a string is ended by a zero byte.
        unsafe impl Arg for $ty {
            type Passed = $passed;
            const CONVERSION: &'static str = $conversion;

            #[inline(always)]
            fn pass(self) -> $passed {
                let $x = self;
                $pass
            }
            #[cfg(not(target_arch = "nvptx64"))]
            fn text(self) -> String {
                format!($host, self)
            }
        }
    )*};
}

arguments! {
    i8 => i32, "%d", |x| i32::from(x), "{}";
    i16 => i32, "%d", |x| i32::from(x), "{}";
    i32 => i32, "%d", |x| x, "{}";
    i64 => i64, "%lld", |x| x, "{}";
    isize => i64, "%lld", |x| x as i64, "{}";
    u8 => u32, "%u", |x| u32::from(x), "{}";
    u16 => u32, "%u", |x| u32::from(x), "{}";
    u32 => u32, "%u", |x| x, "{}";
    u64 => u64, "%llu", |x| x, "{}";
    usize => u64, "%llu", |x| x as u64, "{}";
    bool => u32, "%u", |x| u32::from(x), "{}";
    f32 => f64, "%g", |x| f64::from(x), "{}";
    f64 => f64, "%g", |x| x, "{}";
    &'static core::ffi::CStr => *const core::ffi::c_char, "%s", |x| x.as_ptr(), "{:?}";
}

// SAFETY: `%p` reads the pointer and nothing that it points to.
unsafe impl<T> Arg for *const T {
    type Passed = *const T;
    const CONVERSION: &'static str = "%p";

    #[inline(always)]
    fn pass(self) -> *const T {
        self
    }
    #[cfg(not(target_arch = "nvptx64"))]
    fn text(self) -> String {
        format!("{self:p}")
    }
}

// SAFETY: as above.
unsafe impl<T> Arg for *mut T {
    type Passed = *mut T;
    const CONVERSION: &'static str = "%p";

    #[inline(always)]
    fn pass(self) -> *mut T {
        self
    }
    #[cfg(not(target_arch = "nvptx64"))]
    fn text(self) -> String {
        format!("{self:p}")
    }
}

/// The arguments of one call, a tuple.
///
/// # Safety
/// What `pass` gives are as many arguments as there are `CONVERSIONS`, each of which is one of `printf`
/// that reads its own, laid out as C's variadic functions read them.
pub unsafe trait Args {
    /// What `vprintf` reads.
    type Passed: Copy;
    /// A conversion for each.
    const CONVERSIONS: &'static [&'static str];

    /// As `vprintf` reads them.
    fn pass(self) -> Self::Passed;

    /// What the host prints.
    #[cfg(not(target_arch = "nvptx64"))]
    fn texts(self) -> Vec<String>;
}

macro_rules! tuples {
    ($($packed:ident: $($arg:ident $index:tt),*;)*) => {$(
        /// Arguments as C lays them out.
        #[doc(hidden)]
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $packed<$($arg),*>($($arg),*);

        // SAFETY: each argument's own, in order, in a struct of C.
        unsafe impl<$($arg: Arg),*> Args for ($($arg,)*) {
            type Passed = $packed<$($arg::Passed),*>;
            const CONVERSIONS: &'static [&'static str] = &[$($arg::CONVERSION),*];

            #[inline(always)]
            fn pass(self) -> Self::Passed {
                $packed($(self.$index.pass()),*)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            fn texts(self) -> Vec<String> {
                vec![$(self.$index.text()),*]
            }
        }
    )*};
}

tuples! {
    Packed0: ;
    Packed1: A 0;
    Packed2: A 0, B 1;
    Packed3: A 0, B 1, C 2;
    Packed4: A 0, B 1, C 2, D 3;
    Packed5: A 0, B 1, C 2, D 3, E 4;
    Packed6: A 0, B 1, C 2, D 3, E 4, F 5;
    Packed7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    Packed8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// The text of one call, as a type.
#[doc(hidden)]
pub trait Template {
    const TEXT: &'static str;
}

/// The next piece of `text` from `at`: a `{}`, an escaped brace, or one byte.
enum Piece {
    Place,
    Byte(u8),
}

/// A piece and where the next begins.
///
/// # Panics
/// In constant evaluation: where a brace is neither `{}` nor doubled.
const fn piece(text: &[u8], at: usize) -> (Piece, usize) {
    let next = if at + 1 < text.len() { text[at + 1] } else { 0 };
    match (text[at], next) {
        (b'{', b'}') => (Piece::Place, at + 2),
        (b'{', b'{') | (b'}', b'}') => (Piece::Byte(next), at + 2),
        (b'{' | b'}', _) => panic!("only {{}} is supported; a brace is written {{{{ or }}}}"),
        (byte, _) => (Piece::Byte(byte), at + 1),
    }
}

/// Holds the text against the number of arguments.
///
/// # Panics
/// In constant evaluation: where they differ.
#[doc(hidden)]
pub const fn check(text: &str, arguments: usize) {
    let text = text.as_bytes();
    let (mut at, mut places) = (0, 0);
    while at < text.len() {
        let (piece, next) = piece(text, at);
        if matches!(piece, Piece::Place) {
            places += 1;
        }
        at = next;
    }
    assert!(places <= arguments, "fewer arguments than {{}} in the text");
    assert!(places >= arguments, "more arguments than {{}} in the text");
    assert!(arguments <= 8, "at most 8 arguments");
}

/// The C format string of `text` with these conversions, ended by a zero byte.
///
/// # Panics
/// In constant evaluation: where it is too long.
const fn format(text: &str, conversions: &[&str]) -> [u8; FORMAT_MAX] {
    let text = text.as_bytes();
    let mut out = [0; FORMAT_MAX];
    let (mut at, mut end, mut used) = (0, 0, 0);
    while at < text.len() {
        let (piece, next) = piece(text, at);
        at = next;
        let single;
        let bytes = match piece {
            Piece::Place => {
                used += 1;
                conversions[used - 1].as_bytes()
            }
            Piece::Byte(b'%') => b"%%",
            Piece::Byte(byte) => {
                single = [byte];
                &single
            }
        };
        let mut i = 0;
        while i < bytes.len() {
            assert!(end + 1 < FORMAT_MAX, "the text is too long to print");
            out[end] = bytes[i];
            end += 1;
            i += 1;
        }
    }
    out
}

/// The format string of a call, where the compiler can make a constant of it.
struct Format<T, A>(core::marker::PhantomData<(T, A)>);

impl<T: Template, A: Args> Format<T, A> {
    const BYTES: [u8; FORMAT_MAX] = format(T::TEXT, A::CONVERSIONS);
}

/// One call of [`print!`](crate::print!).
#[doc(hidden)]
#[inline(always)]
pub fn print<T: Template, A: Args>(args: A) {
    let format: &'static [u8; FORMAT_MAX] = &Format::<T, A>::BYTES;
    #[cfg(target_arch = "nvptx64")]
    {
        let passed = args.pass();
        // SAFETY: the format names exactly these arguments, laid out as C does.
        unsafe {
            core::arch::nvptx::vprintf(format.as_ptr(), (&raw const passed).cast());
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    std::print!("{}", host_text(format, A::CONVERSIONS, &args.texts()));
}

/// What the device prints for a format and its arguments.
#[cfg(not(target_arch = "nvptx64"))]
fn host_text(format: &[u8; FORMAT_MAX], conversions: &[&str], texts: &[String]) -> String {
    let end = format
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(FORMAT_MAX);
    let format = String::from_utf8_lossy(&format[..end]);
    let mut rest: &str = &format;
    let mut out = String::new();
    for (conversion, text) in conversions.iter().zip(texts) {
        if let Some((before, after)) = rest.split_once(conversion) {
            out += &before.replace("%%", "%");
            out += text;
            rest = after;
        }
    }
    out + &rest.replace("%%", "%")
}

/// Prints from a kernel: `print!("row {} is {}", row, sum)`.
///
/// Each `{}` takes an integer, a float (as C's `%g`), a bool (0 or 1; true or false on the host), a pointer or a
/// `&'static CStr` (`c"text"`); `{{` and `}}` are braces. At most 8 arguments. See
/// [`print`](mod@crate::print) for when lines appear. On the host it prints to standard output.
///
/// A wrong number of arguments does not compile:
/// ```compile_fail
/// cuda_std::print!("{} and {}", 1);
/// ```
/// ```
/// cuda_std::print!("{} and {}\n", 1, 2.5_f32);
/// ```
#[macro_export]
macro_rules! print {
    ($text:expr $(, $arg:expr)* $(,)?) => {{
        struct Text;
        impl $crate::print::Template for Text {
            const TEXT: &'static str = $text;
        }
        const _: () = $crate::print::check($text, <[&str]>::len(&[$(stringify!($arg)),*]));
        $crate::print::print::<Text, _>(($($arg,)*))
    }};
}

/// As [`print!`](crate::print!), and ends the line.
///
/// ```
/// cuda_std::println!("thread {} sees {}", 3_u32, 0.5_f32);
/// ```
#[macro_export]
macro_rules! println {
    ($text:literal $(, $arg:expr)* $(,)?) => {
        $crate::print!(concat!($text, "\n") $(, $arg)*)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c_format(text: &str, conversions: &[&str]) -> String {
        let bytes = format(text, conversions);
        let end = bytes.iter().position(|&byte| byte == 0).expect("it ends");
        String::from_utf8(bytes[..end].to_vec()).expect("it is text")
    }

    #[test]
    fn places_become_conversions_and_percents_are_doubled() {
        assert_eq!(
            c_format("100% {{{}}} {}", &["%d", "%llu"]),
            "100%% {%d} %llu"
        );
    }

    #[test]
    fn the_host_prints_what_the_arguments_are() {
        let conversions = <(i64, f32, bool)>::CONVERSIONS;
        let bytes = format("50% of {}, {}, {}", conversions);
        let texts = (-3_i64, 0.5_f32, true).texts();
        assert_eq!(
            host_text(&bytes, conversions, &texts),
            "50% of -3, 0.5, true"
        );
    }

    #[test]
    #[should_panic(expected = "more arguments")]
    fn counts_must_match() {
        check("{}", 2);
    }
}
