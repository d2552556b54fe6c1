//! The book's page of kernels, rendered from the tables of `abi` and the manifest.

use abi::DType;
use abi::entry::{Table, tables};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# The kernels

<!-- Made by `BLESS=1 cargo test -p warpsmith-tests kernels_page::`; do not edit. -->

Each row is one table of entries. A kernel takes its pointers and tensor maps first, and then the \
parameter blocks. A block in brackets is one that only some entries of the table take. Dtypes are \
those in the names of entries. Where none is stated, a parameter contains the dtype, or the kernel \
moves bytes. `b32` stands for every dtype of 32 bits.

| entries | such as | number | parameter blocks | built for | dtypes | launched by | source |
|---|---|---:|---|---|---|---|---|
";

/// A Rust source file, and its path from the root of the repository.
struct Source {
    path: String,
    text: String,
}

/// All Rust sources under a folder of the repository.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let path = path.strip_prefix(root()).expect("under the root");
                let path = path.to_str().expect("a path in UTF-8").to_owned();
                found.push(Source { path, text });
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether `word` is in `text`, whole.
fn has_word(text: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_of_word) && !behind.starts_with(is_of_word)
    })
}

/// The folders and files of `host/src/ops` that name the entries. Where none does, a function of `abi`
/// returns them: then the folder of the same name as its module.
fn operations(table: &Table, ops: &[Source], abi: &[Source]) -> BTreeSet<String> {
    let family = table.module.split("::").nth(1).expect("a module of abi");
    let from = format!("abi::{family}::");
    let is_single = table.lists.is_empty();
    // Entries of two families may have one name.
    let launches = ops.iter().filter(|source| {
        has_word(&source.text, table.entry) && (is_single || source.text.contains(&from))
    });
    let first = |source: &Source, under: &str| {
        let path = source.path.strip_prefix(under)?;
        path.split('/').next().map(str::to_owned)
    };
    let found: BTreeSet<String> = launches
        .filter_map(|source| first(source, "host/src/ops/"))
        .collect();
    if !found.is_empty() {
        return found;
    }
    let returns = abi
        .iter()
        .filter(|source| source.path != "abi/src/single.rs" && has_word(&source.text, table.entry));
    let found = returns.filter_map(|source| first(source, "abi/src/"));
    found.collect()
}

/// The files of `kernels-gpu/src` with the kernels: those that call a macro of the table's lists. One
/// kernel alone is a function, or a macro of its family makes it.
fn files(table: &Table, kernels: &[Source]) -> BTreeSet<String> {
    let with = |words: Vec<String>| -> BTreeSet<String> {
        let has_one = |source: &&Source| words.iter().any(|word| has_word(&source.text, word));
        let found = kernels.iter().filter(has_one);
        found.map(|source| source.path.clone()).collect()
    };
    if !table.lists.is_empty() {
        return with(table.lists.iter().map(|list| format!("{list}!")).collect());
    }
    let name = table.names[0];
    let functions = with(vec![format!("fn {name}")]);
    match functions.is_empty() {
        true => with(vec![name.to_owned()]),
        false => functions,
    }
}

/// The dtypes that names have, in the order of [`DType::ALL`], and then sizes.
fn dtypes(table: &Table) -> Vec<String> {
    let names = DType::ALL.iter().map(|dtype| dtype.name().to_owned());
    let sizes = [8, 16, 32, 64, 128].map(|bits| format!("b{bits}"));
    let is_stated =
        |what: &String| (table.names.iter()).any(|name| name.split('_').any(|part| part == what));
    names.chain(sizes).filter(is_stated).collect()
}

fn row(table: &Table, [ops, kernels, abi]: &[Vec<Source>; 3]) -> String {
    let manifest = warpsmith::builtin_manifest().expect("kernels are embedded");
    let has_entries = manifest.modules.iter().filter(|module| {
        let mut kernels = module.kernels.iter();
        kernels.any(|kernel| table.names.contains(&&*kernel.name))
    });
    let archs: BTreeSet<String> = has_entries.map(|module| module.arch.to_string()).collect();
    let blocks = table.blocks().map(|(block, is_in_all)| match is_in_all {
        true => format!("`{block}`"),
        false => format!("[`{block}`]"),
    });
    let link = |folder: &str, path: &str| format!("[{path}](../{folder}{path})");
    let ops = operations(table, ops, abi);
    let files = files(table, kernels);
    let of_crate = |path: &String| path.trim_start_matches("kernels-gpu/src/").to_owned();
    let joined = |parts: Vec<String>| parts.join(", ");
    format!(
        "| `{}` | `{}` | {} | {} | {} | {} | {} | {} |\n",
        table.entry,
        table.names[0],
        table.names.len(),
        joined(blocks.collect()),
        joined(archs.into_iter().collect()),
        joined(dtypes(table)),
        joined(ops.iter().map(|op| link("host/src/ops/", op)).collect()),
        joined(
            files
                .iter()
                .map(|file| link("kernels-gpu/src/", &of_crate(file)))
                .collect()
        ),
    )
}

fn render() -> String {
    let of_repository = ["host/src/ops", "kernels-gpu/src", "abi/src"].map(sources);
    let mut page = HEAD.to_owned();
    let mut count = 0;
    for table in tables() {
        page += &row(table, &of_repository);
        count += table.names.len();
    }
    writeln!(page, "\n{count} entries in all.").expect("a string takes it");
    page
}

/// With `BLESS=1` in the environment, the page is written.
#[test]
fn the_page_is_what_the_tables_say() {
    let path = root().join("docs/kernels.md");
    let page = render();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let at = kept
        .lines()
        .zip(page.lines())
        .find(|(kept, new)| kept != new);
    assert!(
        kept == page,
        "docs/kernels.md is not what the tables say, first at {at:?}; BLESS=1 writes it"
    );
}
