//! Links between the pages and into the repository, and paths of the repository in their text.

use std::path::{Component, Path, PathBuf};

use super::markdown::Page;

/// The links of `page` that lead to a file or a heading that does not exist.
pub(super) fn broken(page: &Page, pages: &[Page], root: &Path) -> Vec<String> {
    let is_relative = |target: &str| !target.contains("://") && !target.starts_with("mailto:");
    let links = page.links.iter().filter(|(_, target)| is_relative(target));
    let wrong = links.filter_map(|(line, target)| {
        let why = why_broken(page, target, pages, root)?;
        Some(page.at(*line, &format!("the link {target} leads to {why}")))
    });
    wrong.collect()
}

fn why_broken(page: &Page, target: &str, pages: &[Page], root: &Path) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&page.name).parent()?;
    let name = match path {
        "" => PathBuf::from(&page.name),
        path => normalised(&folder.join(path)),
    };
    if !path.is_empty() && !root.join(&name).exists() {
        return Some(format!("{}, which does not exist", name.display()));
    }
    if anchor.is_empty() {
        return None;
    }
    let linked = pages.iter().find(|other| Path::new(&other.name) == name)?;
    let exists = linked.anchors.iter().any(|other| other == anchor);
    (!exists).then(|| format!("{}, which has no heading {anchor}", linked.name))
}

/// The paths in the text of `page` that begin with a folder of the repository and do not exist. Of
/// `tests/cases/*.toml` or `abi/src/<family>.rs`, the folder before the first mark is looked for.
pub(super) fn stale_paths(page: &Page, root: &Path) -> Vec<String> {
    let is_of_repository = |path: &str| {
        let (folder, _) = path.split_once('/').unwrap_or_default();
        !folder.is_empty() && root.join(folder).is_dir()
    };
    let paths = page.paths.iter().filter(|(_, path)| is_of_repository(path));
    let stale = paths.filter(|(_, path)| {
        let known = match path.find(['*', '<', '{']) {
            Some(mark) => path[..mark]
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder),
            None => path.as_str(),
        };
        !root.join(known).exists()
    });
    stale
        .map(|(line, path)| page.at(*line, &format!("the path {path} does not exist")))
        .collect()
}

/// `path` without `..`.
fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text =
            "[a](../src/prose/links.rs) [b](#here) [c](https://x/y) [d](b.md#there)\n\n# Here\n";
        let page = Page::new("src/a.md", text);
        let found = broken(&page, std::slice::from_ref(&page), root);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("src/a.md:1: the link b.md#there leads to src/b.md"));
        let page = Page::new("src/a.md", "[b](#nowhere)\n");
        let found = broken(&page, std::slice::from_ref(&page), root);
        assert!(
            found[0].ends_with("src/a.md, which has no heading nowhere"),
            "{found:?}"
        );
    }

    #[test]
    fn paths_of_the_repository_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "`src/main.rs`, `src/<task>.rs`, `out/a.rs`, `a / b`\n\nIt is in `src/no.rs`.\n";
        let found = stale_paths(&Page::new("a.md", text), root);
        assert_eq!(found, ["a.md:3: the path src/no.rs does not exist"]);
    }
}
