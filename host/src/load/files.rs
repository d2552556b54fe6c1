//! The files of built-in PTX: embedded in the library or, in a debug build that was given a folder
//! by `WARPSMITH_PTX_DIR`, read from there when they are needed. An edit of a kernel then rebuilds
//! neither the library nor the programs that use it.

use flate2::read::ZlibDecoder;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Names the folder: when the library is built, and again when a program runs.
const VARIABLE: &str = "WARPSMITH_PTX_DIR";

/// Text of the file at `path`; `None` where this build embeds none of that name.
///
/// # Errors
/// What is wrong with the file, in words: it cannot be unpacked, or the folder that is read does not
/// hold it.
pub(crate) fn file(path: &str) -> Result<Option<String>, Box<str>> {
    let Some(of_build) = embedded::FOLDER else {
        return embedded_text(path);
    };
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| of_build.into(), PathBuf::from);
    from_folder(folder, path).map(Some)
}

fn embedded_text(path: &str) -> Result<Option<String>, Box<str>> {
    let found = embedded::FILES.iter().find(|(name, _)| *name == path);
    found.map(|(_, packed)| unpacked(packed)).transpose()
}

fn unpacked(packed: &[u8]) -> Result<String, Box<str>> {
    let mut text = String::new();
    match ZlibDecoder::new(packed).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("cannot be unpacked: {error}").into()),
    }
}

fn from_folder(folder: PathBuf, path: &str) -> Result<String, Box<str>> {
    std::fs::read_to_string(folder.join(path)).map_err(|error| {
        let folder = folder.display();
        let cause = match error.kind() {
            ErrorKind::NotFound => "is not there".to_owned(),
            _ => error.to_string(),
        };
        format!(
            "`{folder}/{path}`: {cause}; this debug build reads its PTX from the folder that \
             {VARIABLE} names"
        )
        .into()
    })
}

#[cfg(test)]
#[expect(dead_code, reason = "its `main` runs as a build script only")]
#[path = "../../build.rs"]
mod build_script;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::path::Path;

    /// A folder of this process.
    fn folder(name: &str) -> PathBuf {
        let name = format!("warpsmith-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_folder_without_the_file_is_named_with_the_variable() {
        let said = from_folder("/no/such/folder".into(), "manifest.json").expect_err("no folder");
        for part in ["/no/such/folder/manifest.json", "is not there", VARIABLE] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }

    #[test]
    fn a_build_without_a_folder_embeds_its_files() {
        let manifest = embedded_text("manifest.json").expect("unpacks");
        assert_eq!(manifest.is_some(), embedded::FOLDER.is_none());
    }

    #[test]
    fn what_the_build_script_embeds_is_the_folders_text() {
        let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/sm_89");
        let out = folder("embedded");
        let mut found = Vec::new();
        build_script::collect(&ptx, &ptx, &mut found).expect("the folder is read");
        let source = build_script::table(None, &found, &out).expect("a table");
        assert!(source.contains("FOLDER: Option<&str> = None") && !found.is_empty());
        for (index, (name, path)) in found.iter().enumerate() {
            let file = out.join(format!("embedded_{index}.z"));
            let entry = format!(
                "({name:?}, include_bytes!({:?}))",
                file.display().to_string()
            );
            assert!(source.contains(&entry), "{entry} is not in: {source}");
            let packed = std::fs::read(&file).expect("a packed file");
            let text = std::fs::read_to_string(path).expect("a file of PTX");
            assert_eq!(unpacked(&packed), Ok(text), "{name}");
        }
        std::fs::remove_dir_all(&out).expect("the folder goes");
    }

    /// The most bytes of all files below `ptx/`, with the manifest.
    const TEXT_BYTES: u64 = 24_000_000;
    /// The most bytes of the same files as the library embeds them, compressed by zlib.
    const COMPRESSED_BYTES: u64 = 6_000_000;

    #[test]
    fn the_compiled_kernels_are_within_their_budget() {
        let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx");
        let mut files = Vec::new();
        build_script::collect(&ptx, &ptx, &mut files).expect("the folder can be read");
        let packed = folder("budget");
        build_script::table(None, &files, &packed).expect("the files can be compressed");
        let bytes = |path: &Path| std::fs::metadata(path).expect("it is there").len();
        let mut sizes: Vec<(u64, u64, &str)> = Vec::new();
        for (index, (name, path)) in files.iter().enumerate() {
            let packed = packed.join(format!("embedded_{index}.z"));
            sizes.push((bytes(path), bytes(&packed), name));
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let text: u64 = sizes.iter().map(|(text, ..)| text).sum();
        let compressed: u64 = sizes.iter().map(|(_, compressed, _)| compressed).sum();
        assert!(text > 1_000_000, "there are {} files", files.len());
        let mut all = format!(
            "ptx/ has {text} bytes of text, want less than {TEXT_BYTES}; compressed {compressed}, want \
             less than {COMPRESSED_BYTES}; the largest:"
        );
        for (text, compressed, name) in sizes.iter().take(8) {
            let _ = write!(all, "\n{text:>10} {compressed:>9} {name}");
        }
        std::fs::remove_dir_all(&packed).expect("the folder goes");
        println!("{all}");
        assert!(text < TEXT_BYTES && compressed < COMPRESSED_BYTES, "{all}");
    }
}
