//! The files in `benches/results` are as they are written, and the pages are what they make.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use warpsmith_benches::page::{self, readme};
use warpsmith_benches::record;

type Tested = Result<(), Box<dyn Error>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

const REMEDY: &str = "cargo run -p warpsmith-benches --bin results makes it anew";

#[test]
fn the_page_is_what_the_files_make() -> Tested {
    let files = page::read_all(&root().join("benches/results"))?;
    let page = fs::read_to_string(root().join("docs/results.md"))?;
    assert!(page == page::text(&files), "docs/results.md: {REMEDY}");
    assert!(page.lines().count() <= 500, "docs/results.md is too long");
    Ok(())
}

#[test]
fn the_parts_of_the_readme_are_what_the_files_make() -> Tested {
    let files = page::read_all(&root().join("benches/results"))?;
    let path = root().join("README.md");
    let made = readme::rewritten(&path, &files)?;
    assert!(fs::read_to_string(path)? == made, "README.md: {REMEDY}");
    Ok(())
}

#[test]
fn files_are_as_they_are_written_and_where_their_rows_belong() -> Tested {
    let folder = root().join("benches/results");
    for file in page::read_all(&folder)? {
        let path = folder
            .join(&file.card)
            .join(format!("{}.csv", file.operation));
        let text = fs::read_to_string(&path)?;
        assert!(text == record::text(&file.records)?, "{}", path.display());
        for row in &file.records {
            assert!(
                row.case.starts_with(&format!("{}/", file.operation)),
                "{}",
                row.case
            );
            assert_eq!(record::card_folder(&row.card), file.card);
        }
    }
    Ok(())
}
