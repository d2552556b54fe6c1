//! A pass over tidy PTX that gives the shared memory of a kernel short names. LLVM's have the path of
//! the Rust item in them, which says nothing inside of the kernel:
//!
//! ```text
//! .shared .align 16 .b8 __kernels_gpu_reduce_entries_reduce_arg_bf16_SHARED[24592];
//! ```

use crate::registers::{bodies, words};

/// What the first is called; others have a number behind it.
const NAME: &str = "SHARED";

/// The text of a module, tidy, with short names for what kernels have for themselves.
pub(crate) fn shorten(ptx: &str) -> String {
    bodies(ptx, |_, body| shortened(body))
}

fn shortened(body: &str) -> String {
    let long: Vec<&str> = body.lines().filter_map(declared).collect();
    let short = |number: usize| match number {
        0 => NAME.to_owned(),
        number => format!("{NAME}{number}"),
    };
    let is_taken = |name: &str| body.lines().flat_map(words).any(|(_, word)| word == name);
    if (0..long.len()).any(|number| is_taken(&short(number))) {
        return body.to_owned();
    }
    let mut out = String::with_capacity(body.len());
    for line in body.lines() {
        let mut copied = 0;
        for (start, word) in words(line) {
            if let Some(number) = long.iter().position(|name| *name == word) {
                out.push_str(&line[copied..start]);
                out.push_str(&short(number));
                copied = start + word.len();
            }
        }
        out.push_str(&line[copied..]);
        out.push('\n');
    }
    out
}

/// The name that a line declares in shared memory.
fn declared(line: &str) -> Option<&str> {
    let declaration = line.strip_prefix(".shared ")?;
    let end = declaration.find(['[', ';'])?;
    declaration[..end].rsplit([' ', '\t']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(body: &str) -> String {
        format!(".visible .entry f(\n)\n{{\n{body}ret;\n}}\n")
    }

    #[test]
    fn each_array_of_a_kernel_has_a_short_name() {
        let long = ".shared .align 16 .b8 a_long_SHARED[64];\n\
                    .shared .align 4 .u32 a_long_SHARED_$_0;\n\
                    mov.b64\t%rd1,a_long_SHARED;\n\
                    st.shared.b32\t[a_long_SHARED_$_0],%r1;\n\
                    ld.shared.b32\t%r2,[a_long_SHARED+4];\n";
        let short = ".shared .align 16 .b8 SHARED[64];\n\
                     .shared .align 4 .u32 SHARED1;\n\
                     mov.b64\t%rd1,SHARED;\n\
                     st.shared.b32\t[SHARED1],%r1;\n\
                     ld.shared.b32\t%r2,[SHARED+4];\n";
        assert_eq!(shorten(&kernel(long)), kernel(short));
    }

    #[test]
    fn what_is_taken_or_of_the_whole_module_stays() {
        let taken = ".shared .align 4 .b8 long[4];\nmov.b32\t%r1,SHARED;\n";
        assert_eq!(shorten(&kernel(taken)), kernel(taken));
        let module = ".extern .shared .align 16 .b8 all[];\n".to_owned()
            + &kernel("mov.b32\t%r1,all;\nld.shared.b32\t%r2,[%r1];\n");
        assert_eq!(shorten(&module), module);
    }
}
