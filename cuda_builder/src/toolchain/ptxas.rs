//! Finds ptxas, CUDA's assembler.

use std::env;
use std::path::{Path, PathBuf};

use super::{PTXAS_VARIABLE, Rejected, ToolchainError, output, path_folders};

/// A Python program that prints the folders in which pip installs ptxas.
const ASK_PYTHON: &str = "\
import importlib.util
for name in ('nvidia.cu13', 'nvidia.cuda_nvcc'):
    try:
        found = importlib.util.find_spec(name)
    except ImportError:
        continue
    for place in (found.submodule_search_locations if found else ()):
        print(place + '/bin')
";

/// A working ptxas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its release, `13.0`.
    pub version: String,
}

impl Ptxas {
    /// Looks for a ptxas in the order that [`super`] documents.
    ///
    /// # Errors
    /// [`ToolchainError::NoPtxas`] with the reason and the command that installs it.
    pub fn discover() -> Result<Self, ToolchainError> {
        let no = |candidate: &str, reason: String| {
            let rejected = Rejected {
                candidate: candidate.to_owned(),
                reason,
            };
            ToolchainError::NoPtxas { rejected }
        };
        if let Some(path) = env::var_os(PTXAS_VARIABLE) {
            return inspect(Path::new(&path)).map_err(|reason| no(PTXAS_VARIABLE, reason));
        }
        let mut last = no(
            "PATH, CUDA_HOME and Python's packages",
            "no ptxas in any".to_owned(),
        );
        for folder in folders() {
            let path = folder.join(format!("ptxas{}", env::consts::EXE_SUFFIX));
            if !path.is_file() {
                continue;
            }
            match inspect(&path) {
                Ok(ptxas) => return Ok(ptxas),
                Err(reason) => last = no(&path.display().to_string(), reason),
            }
        }
        Err(last)
    }
}

fn folders() -> Vec<PathBuf> {
    let mut folders = path_folders();
    let homes = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(env::var_os);
    folders.extend(homes.map(|home| PathBuf::from(home).join("bin")));
    folders.push("/usr/local/cuda/bin".into());
    for python in ["python3", "python"] {
        if let Ok(printed) = output(Path::new(python), &["-c", ASK_PYTHON]) {
            folders.extend(printed.lines().map(PathBuf::from));
        }
    }
    folders
}

fn inspect(path: &Path) -> Result<Ptxas, String> {
    let about = output(path, &["--version"])?;
    let version = about
        .lines()
        .find_map(|line| line.split_once("release ")?.1.split(',').next());
    let version = version.ok_or_else(|| "`ptxas --version` names no release".to_owned())?;
    Ok(Ptxas {
        path: path.to_owned(),
        version: version.to_owned(),
    })
}
