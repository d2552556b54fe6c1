//! The files in `benches/results` are as they are written, and the pages are what they make.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use warpsmith::DType;
use warpsmith::fitting::{MachineModel, h200};
use warpsmith_benches::page::{self, readme};
use warpsmith_benches::{fit, record};

type Tested = Result<(), Box<dyn Error>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cost model is fitted to more products than these, so it does not choose the fastest for each.
#[test]
fn the_cost_model_chooses_kernels_that_are_close_to_the_fastest() -> Tested {
    let records = record::read(&root().join("benches/results/h200/gemm.csv"))?;
    let samples = fit::samples(&records);
    let samples: Vec<_> = samples
        .into_iter()
        .filter(|sample| sample.problem.input == DType::Bf16)
        .collect();
    let found = fit::fit(&samples, &h200(), &MachineModel::H200);
    assert!(found.choices.len() > 30, "{} products", found.choices.len());
    assert!(found.loss < 1.01, "{}", found.loss);
    let worst = found.choices.first().ok_or("no product")?;
    assert!(worst.loss < 1.05, "{worst:?}");
    Ok(())
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
