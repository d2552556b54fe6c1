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

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let folder = &args.folder;
    if folder.exists() {
        let message = format!("{} is there already", folder.display());
        return Err(UsageError(message).into());
    }
    let name = name(folder)?;
    let clone = clone(args.path.as_deref())?;
    let filled = |template: &str| {
        let crates = ["cuda_std", "cuda_builder", "host"];
        let text = template
            .replace("{name}", name)
            .replace("{rust}", PINNED_RUST);
        crates.iter().fold(text, |text, member| {
            text.replace(&format!("{{{member}}}"), &source(clone.as_deref(), member))
        })
    };
    for (path, template) in FILES {
        write(&folder.join(path), &filled(template))?;
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

/// The crate's name: that of the folder.
fn name(folder: &Path) -> Result<&str> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if begins_well && name.chars().all(is_letter) {
        return Ok(name);
    }
    let message = format!(
        "`{name}` is not a crate's name: it begins with a letter, and has letters, digits, `-` and `_`"
    );
    Err(UsageError(message).into())
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
            // A literal string, in which TOML knows no escapes.
            format!("path = '{}'", clone.join(member).display())
        }
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}
