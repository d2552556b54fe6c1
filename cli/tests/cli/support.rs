//! Running the program, and reading what it wrote.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What a run of the program left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, with nothing from this machine's environment that could change its answers.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WARPSMITH_") {
            command.env_remove(name);
        }
    }
    command.env("RUST_BACKTRACE", "1");
    command
}

pub(crate) fn warpsmith<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    ran(command().args(args))
}

/// What `command`, which is the program or a shell that runs it, left.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let ran = Ran {
        code: output.status.code().expect("no signal ended it"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    ran
}

impl Ran {
    /// Asserts exit code 0 and a silent stderr; gives stdout.
    pub(crate) fn done(self) -> String {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (0, ""),
            "{}",
            self.stdout
        );
        self.stdout
    }

    /// Asserts that it failed with `code`, said so in one line that has all of `words`, and
    /// printed nothing else.
    pub(crate) fn failed(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        for word in words {
            assert!(
                self.stderr.contains(word),
                "`{word}` is not in: {}",
                self.stderr
            );
        }
    }
}

/// A file of tests/data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A folder for one test's files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(TempDir::new().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).expect("the folder can be written");
        path
    }

    /// Names of all that is in it, sorted, hidden files too.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("the folder can be read");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}
/// A little-endian array in C order, as numpy writes it: its type, its shape as Python prints it,
/// and its data. Own code, so that the program's reader and writer are not their own judges.
pub(crate) struct Npy {
    pub(crate) descr: String,
    pub(crate) shape: String,
    pub(crate) data: Vec<u8>,
}

impl Npy {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!((10 + length) % 64, 0, "the data is aligned");
        let header = std::str::from_utf8(&bytes[10..10 + length]).expect("ASCII");
        assert!(header.contains("'fortran_order': False"), "{header}");
        let between = |from: &str, to: &str| {
            let (_, rest) = header.split_once(from).expect("the header has it");
            rest.split_once(to)
                .expect("the header has its end")
                .0
                .to_owned()
        };
        Npy {
            descr: between("'descr': '", "'"),
            shape: between("'shape': (", ")"),
            data: bytes[10 + length..].to_vec(),
        }
    }

    pub(crate) fn f32s(&self) -> Vec<f32> {
        assert_eq!(self.descr, "<f4");
        let elements = self.data.chunks_exact(4);
        elements
            .map(|e| f32::from_le_bytes(e.try_into().expect("4 bytes")))
            .collect()
    }

    pub(crate) fn f64s(&self) -> Vec<f64> {
        assert_eq!(self.descr, "<f8");
        let elements = self.data.chunks_exact(8);
        elements
            .map(|e| f64::from_le_bytes(e.try_into().expect("8 bytes")))
            .collect()
    }

    pub(crate) fn i64s(&self) -> Vec<i64> {
        assert_eq!(self.descr, "<i8");
        let elements = self.data.chunks_exact(8);
        elements
            .map(|e| i64::from_le_bytes(e.try_into().expect("8 bytes")))
            .collect()
    }
}

/// The words of a command: `out:NAME` is a file of `folder`, a name in .npy one of tests/data.
pub(crate) fn words(folder: &Folder, words: &str) -> Vec<OsString> {
    let word = |word: &str| match word.strip_prefix("out:") {
        Some(name) => folder.path(name).into_os_string(),
        None if word.ends_with(".npy") => data(word).into_os_string(),
        None => word.into(),
    };
    words.split(' ').map(word).collect()
}
