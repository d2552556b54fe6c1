//! `warpsmith new`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cuda_builder::toolchain::PINNED_RUST;

use crate::failure::{Outcome, UsageError};
use crate::output::Output;

/// Make a crate of kernels with a test, a benchmark and a CI workflow.
///
/// Its `cargo test` needs the device toolchain (`warpsmith doctor`), and no GPU.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith new my-kernels && cd my-kernels && cargo test
  warpsmith new my-kernels --path ~/warpsmith")]
pub(crate) struct Args {
    /// The folder of the crate, whose name is the crate's. It must not exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// A clone of warpsmith that the crate depends on; default: the clone that this program was
    /// built in, if it is there, else the release on crates.io.
    #[arg(long, value_name = "CLONE")]
    path: Option<PathBuf>,
}

/// The files, with their templates.
const FILES: [(&str, &str); 6] = [
    (
        "Cargo.toml",
        include_str!("../../templates/new/Cargo.toml.txt"),
    ),
    ("build.rs", include_str!("../../templates/new/build.rs")),
    ("src/lib.rs", include_str!("../../templates/new/src/lib.rs")),
    (
        "tests/saxpy.rs",
        include_str!("../../templates/new/tests/saxpy.rs"),
    ),
    (
        "benches/saxpy.rs",
        include_str!("../../templates/new/benches/saxpy.rs"),
    ),
    (
        ".github/workflows/test.yml",
        include_str!("../../templates/new/.github/workflows/test.yml"),
    ),
];

/// Names that a crate cannot have: Rust's words, and the crates that it uses.
const TAKEN: &str = "abstract alloc as async await become box break const continue core crate \
    cuda_builder cuda_std do dyn else enum extern false final fn for gen if impl in let loop macro \
    match mod move mut override priv pub ref return self static std struct super test trait true \
    try type typeof unsafe unsized use virtual warpsmith where while yield";

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let folder = &args.folder;
    // A link to nothing is there too.
    if folder.symlink_metadata().is_ok() {
        let message = format!("{} exists: name a new folder", folder.display());
        return Err(UsageError(message).into());
    }
    let name = name(folder)?;
    let clone = clone(args.path.as_deref())?;
    for (path, template) in FILES {
        let text = filled(template, name, clone.as_deref());
        write(&folder.join(path), &text)?;
    }
    write(&folder.join(".gitignore"), "/target\n")?;
    if let Some(clone) = &clone {
        // The versions that the clone is tested with.
        let lock = clone.join("Cargo.lock");
        let text = fs::read_to_string(&lock);
        let text = text.with_context(|| format!("cannot read {}", lock.display()))?;
        write(&folder.join("Cargo.lock"), &text)?;
    }
    writeln!(
        output,
        "{}: kernels in src/lib.rs, tests in tests/. Next: cd {0} && cargo test",
        folder.display()
    )?;
    Ok(Outcome::Done)
}

/// The text of a file.
fn filled(template: &str, name: &str, clone: Option<&Path>) -> String {
    let text = template
        .replace("{name}", name)
        .replace("{rust}", PINNED_RUST)
        .replace("{clone}", &clone.map(clone_step).unwrap_or_default());
    let crates = ["cuda_std", "cuda_builder", "host"];
    crates.iter().fold(text, |text, member| {
        text.replace(&format!("{{{member}}}"), &source(clone, member))
    })
}

/// The crate's name: that of the folder.
fn name(folder: &Path) -> Result<&str> {
    let name = folder.file_name().unwrap_or_default();
    match name.to_str().filter(|name| is_right(name)) {
        Some(name) => Ok(name),
        None => {
            let name = name.to_string_lossy();
            let message = format!(
                "`{name}` cannot be a crate's name; `{}` can: a letter first, then letters, \
                 digits, `-` and `_`, and no word of Rust or name of a crate that it uses",
                right_name(&name)
            );
            Err(UsageError(message).into())
        }
    }
}

fn is_right(name: &str) -> bool {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = name.replace('-', "_");
    let is_taken = TAKEN.split(' ').any(|taken| taken == word);
    begins_well && name.chars().all(is_letter) && !is_taken
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// A right name that is like `name`.
fn right_name(name: &str) -> String {
    let letters = name.replace(|c| !is_letter(c), "-");
    let letters = letters.trim_matches(['-', '_']);
    match letters {
        "" => "my-kernels".to_owned(),
        right if is_right(right) => right.to_owned(),
        wrong => format!("kernels-{wrong}"),
    }
}

/// The clone that the crate depends on: `given`, or the one that this program was built in.
fn clone(given: Option<&Path>) -> Result<Option<PathBuf>> {
    let is_clone = |folder: &Path| folder.join("cuda_std/Cargo.toml").is_file();
    let Some(given) = given else {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        return Ok(own.filter(|own| is_clone(own)).map(Path::to_owned));
    };
    let folder = given.canonicalize();
    let folder = folder.with_context(|| format!("cannot find {}", given.display()))?;
    if is_clone(&folder) {
        return Ok(Some(folder));
    }
    let message = format!("--path: {} is not a clone of warpsmith", given.display());
    Err(UsageError(message).into())
}

/// Where the crate `member` comes from, as Cargo.toml says it.
fn source(clone: Option<&Path>, member: &str) -> String {
    match clone {
        Some(clone) => {
            let path = clone.join(member).to_string_lossy().into_owned();
            format!("path = {}", toml::Value::String(path))
        }
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    }
}

/// The step of the workflow that makes the clone on its machine.
fn clone_step(clone: &Path) -> String {
    format!(
        "      # Cargo.toml has the path of a clone of warpsmith.\n      \
         - run: sudo git clone --depth 1 {} '{}'\n",
        env!("CARGO_PKG_REPOSITORY"),
        clone.display()
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}
