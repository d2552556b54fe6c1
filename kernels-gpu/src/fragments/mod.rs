//! Fragments: the functions of registers of which the host composes elementwise kernels.
//!
//! A name begins with the type that a fragment computes in: `f32_exp` is [`cuda_std::math::exp`].
//! Functions have the names that `abi` gives them.
//!
//! | name | what it is |
//! |---|---|
//! | `f32_exp`, `f64_add`, `i32_max` | a function |
//! | `f32_exp_narrow` | its short form, for results of 16 bits and fewer |
//! | `f32_is_true`, `f32_select` | a condition as 0 or 1; one of two values by a condition |
//! | `f32_of_bf16_1` | element 1 of a word, converted to the type of the arithmetic |
//! | `bf16_from_f32` | a word of as many elements as it holds |
//! | `f32_odd_of_f64` | a value rounded to odd, from which narrower floats are rounded |
//! | `score_alibi` | what attention does to a score |
//! | `philox_mix`, `dropout_kept` | what dropout of attention is made of |
//! | `.._sm89` | the same bits by an instruction of that architecture and later ones |

/// Functions, one a line.
macro_rules! fragments {
    ($($name:ident($($x:ident: $ty:ty),+) -> $result:ty = $body:expr;)*) => {$(
        #[doc = concat!("`", stringify!($body), "`")]
        #[cuda_std::fragment]
        #[allow(clippy::too_many_arguments, reason = "a fragment takes registers, each by itself")]
        pub fn $name($($x: $ty),+) -> $result {
            $body
        }
    )*};
}

/// Functions that need an architecture.
macro_rules! fragments_for {
    ($arch:tt; $($name:ident($($x:ident: $ty:ty),+) -> $result:ty = $body:expr;)*) => {$(
        #[doc = concat!("`", stringify!($body), "`")]
        #[cuda_std::fragment(arch = $arch)]
        pub fn $name($($x: $ty),+) -> $result {
            $body
        }
    )*};
}

pub mod dropout;
pub mod f32;
pub mod f64;
pub mod integer;
pub mod narrow;
pub mod score;
pub mod widen;
