//! The file of tuned choices: one for each GPU, driver and version of this crate.
//!
//! It is optional: if it cannot be read or written, that is a warning, and the cost model chooses.

use crate::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;

/// Environment variable with the directory of the file. If it is empty, there is no file.
pub(super) const FOLDER: &str = "WARPSMITH_TUNING_DIR";

/// Version of the file's format.
const FORMAT: u32 = 2;

/// Contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    format: u32,
    #[serde(flatten)]
    machine: Key,
    /// Names of candidates, by operations and descriptions.
    choices: BTreeMap<String, String>,
}

/// The machine and version that choices are valid for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    gpu: String,
    multiprocessors: u32,
    driver: String,
    version: String,
}

impl Key {
    fn of(device: &DeviceInfo) -> Self {
        let driver = match device.driver_version {
            Some((major, minor)) => format!("{major}.{minor}"),
            None => "none".into(),
        };
        Self {
            gpu: device.name.clone(),
            multiprocessors: device.multiprocessors,
            driver,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    fn file_name(&self) -> String {
        let Self {
            gpu,
            multiprocessors,
            driver,
            version,
        } = self;
        let name = format!("{gpu}-{multiprocessors}-{driver}-{version}");
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        let name: String = name.chars().map(plain).collect();
        name.to_ascii_lowercase() + ".json"
    }
}

/// The tuned choices of one device: those that the process read at first, and those it added.
#[derive(Debug)]
pub(super) struct Tuned {
    key: Key,
    /// `None` if nothing is stored.
    path: Option<PathBuf>,
    choices: BTreeMap<String, String>,
}

impl Tuned {
    /// Loads the choices stored for `device`.
    pub(super) fn load(device: &DeviceInfo) -> Self {
        let folder = match std::env::var_os(FOLDER) {
            Some(folder) if folder.is_empty() => None,
            Some(folder) => Some(PathBuf::from(folder)),
            None => dirs::cache_dir().map(|folder| folder.join("warpsmith")),
        };
        Self::load_from(folder, device)
    }

    fn load_from(folder: Option<PathBuf>, device: &DeviceInfo) -> Self {
        let key = Key::of(device);
        let path = folder.map(|folder| folder.join(key.file_name()));
        let choices = match &path {
            Some(path) => read_or_warn(path, &key),
            None => BTreeMap::new(),
        };
        Self { key, path, choices }
    }

    /// Name of the candidate that was measured to be the fastest.
    pub(super) fn get(&self, description: &str) -> Option<&str> {
        self.choices.get(description).map(String::as_str)
    }

    /// Adds a choice, and stores it in the file.
    pub(super) fn keep(&mut self, description: String, name: String) {
        self.choices.insert(description.clone(), name.clone());
        let Some(path) = &self.path else { return };
        if let Err(error) = add(path, &self.key, description, name) {
            let path = path.display();
            tracing::warn!(%error, %path, "a tuned choice was not written");
        }
    }
}

/// The file's choices; none if it is missing, damaged, or for another machine.
fn read_or_warn(path: &Path, key: &Key) -> BTreeMap<String, String> {
    match read(path, key) {
        Ok(choices) => choices,
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%error, %path, "tuned choices are not read");
            BTreeMap::new()
        }
    }
}

fn read(path: &Path, key: &Key) -> io::Result<BTreeMap<String, String>> {
    let content: Content = serde_json::from_slice(&fs::read(path)?)?;
    if content.format != FORMAT || content.machine != *key {
        let detail = format!("format {} of {:?}", content.format, content.machine);
        return Err(io::Error::new(ErrorKind::InvalidData, detail));
    }
    Ok(content.choices)
}

/// Adds a choice to the current contents of the file, since other processes may have added theirs.
/// The file is replaced atomically, so that readers never see a part of it.
fn add(path: &Path, key: &Key, description: String, name: String) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?; // until it is dropped
    let mut choices = read_or_warn(path, key);
    choices.insert(description, name);
    let content = Content {
        format: FORMAT,
        machine: key.clone(),
        choices,
    };
    let fresh = path.with_extension(format!("{}.new", process::id()));
    fs::write(&fresh, serde_json::to_vec_pretty(&content)?)?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("warpsmith-{name}-{}", process::id()));
        fs::remove_dir_all(&folder).unwrap_or_default();
        folder
    }

    fn load(folder: &Path) -> Tuned {
        let device = Device::emulator().expect("the emulator");
        Tuned::load_from(Some(folder.to_path_buf()), device.info())
    }

    #[test]
    fn choices_are_found_again_and_added_to_those_of_others() {
        let folder = folder("tuned-kept");
        let (mut first, mut second) = (load(&folder), load(&folder));
        first.keep("m1".into(), "x".into());
        second.keep("m2".into(), "y".into());
        second.keep("m2".into(), "z".into());
        assert_eq!(second.get("m1"), None, "not read again");
        let third = load(&folder);
        assert_eq!((third.get("m1"), third.get("m2")), (Some("x"), Some("z")));
        let left: Vec<_> = fs::read_dir(&folder)
            .expect("it is there")
            .flatten()
            .collect();
        assert_eq!(left.len(), 2, "the file and its lock: {left:?}");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let folder = folder("tuned-damaged");
        load(&folder).keep("m1".into(), "x".into());
        let path = load(&folder).path.expect("a path");
        let whole = fs::read_to_string(&path).expect("it was written");
        for damaged in [
            &whole[..whole.len() / 2],
            "",
            "[]",
            &whole.replace("\"format\": 2", "\"format\": 1"),
            &whole.replace("\"driver\": \"none\"", "\"driver\": \"99.9\""),
        ] {
            fs::write(&path, damaged).expect("it can be written");
            let mut tuned = load(&folder);
            assert_eq!(tuned.get("m1"), None, "{damaged}");
            tuned.keep("m3".into(), "y".into());
            assert_eq!(load(&folder).get("m3"), Some("y"));
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_failure() {
        let file = folder("tuned-no-folder");
        fs::write(&file, "in the way").expect("it can be written");
        let mut tuned = load(&file);
        tuned.keep("m1".into(), "x".into());
        assert_eq!(tuned.get("m1"), Some("x"));
        fs::remove_file(&file).expect("it is there");
    }
}
