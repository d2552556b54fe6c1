//! What a kernel requires of a launch, and the grid that it states: the formulas of its manifest.

use crate::argument::last;
use crate::error::{Error, KernelError, Result};
use crate::launch::LaunchConfig;
use ptx_syntax::contract::Formula;
use ptx_syntax::manifest::{KernelEntry, ParamEntry};
use std::ffi::c_void;

/// Names of a shape's words, in order.
const EXTENTS: [(&str, &[&str]); 3] = [
    ("usize", &["len"]),
    (
        "Shape2",
        &["rows", "columns", "row_stride", "column_stride"],
    ),
    (
        "Shape3",
        &[
            "planes",
            "rows",
            "columns",
            "plane_stride",
            "row_stride",
            "column_stride",
        ],
    ),
];
/// Numbers without a sign.
const UNSIGNED: [&str; 5] = ["u8", "u16", "u32", "u64", "usize"];

/// Requirements and grid of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contract {
    requirements: Box<[Requirement]>,
    /// Extents of the block, and numbers of blocks.
    grid: Option<([u32; 3], [Formula<Value>; 3])>,
}

/// What a launch has to meet.
#[derive(Clone, Debug)]
struct Requirement {
    /// As the source has it.
    text: Box<str>,
    formula: Formula<Required>,
    /// Whether it is about grid or block.
    is_of_extents: bool,
}

/// A number that a grid follows from.
#[derive(Clone, Debug)]
enum Value {
    /// Among the bytes of a launch's parameters.
    Passed(Passed),
    /// Of blocks that the device holds at a time.
    Resident,
}

/// The name of [`Value::Resident`].
const RESIDENT: &str = "resident()";

/// A number that a requirement is about.
#[derive(Clone, Debug)]
enum Required {
    /// Among the bytes of a launch's parameters.
    Passed(Passed),
    /// An extent of the grid, by axis.
    Grid(usize),
    /// An extent of the block, by axis.
    Block(usize),
}

impl Required {
    /// That of this name: `x.len`, `n`, `grid.y`.
    fn named(params: &[ParamEntry], name: &str) -> Result<Self, String> {
        let (of, axis) = name.split_once('.').unwrap_or((name, ""));
        let axis = AXES.iter().position(|known| *known == axis);
        match (of, axis) {
            ("grid", Some(axis)) => Ok(Self::Grid(axis)),
            ("block", Some(axis)) => Ok(Self::Block(axis)),
            _ => find(params, name).map(Self::Passed),
        }
    }

    /// As the source has it.
    fn name(&self) -> String {
        match self {
            Self::Passed(value) => value.name.to_string(),
            Self::Grid(axis) => format!("grid.{}", AXES[*axis]),
            Self::Block(axis) => format!("block.{}", AXES[*axis]),
        }
    }
}

/// The axes of grid and block.
const AXES: [&str; 3] = ["x", "y", "z"];

/// A number among the bytes of a launch's parameters.
#[derive(Clone, Debug)]
struct Passed {
    /// As the source has it: `x.len()`.
    name: Box<str>,
    parameter: usize,
    /// Place and number of its bytes in the parameter.
    at: usize,
    bytes: usize,
}

impl Passed {
    /// # Safety
    /// The parameters are at these addresses.
    unsafe fn read(&self, parameters: &[*const c_void]) -> u64 {
        let mut bytes = [0; 8];
        // SAFETY: `Contract::of` has found these bytes inside of the parameter.
        let from = unsafe {
            let first = parameters[self.parameter].cast::<u8>().add(self.at);
            std::slice::from_raw_parts(first, self.bytes)
        };
        bytes[..self.bytes].copy_from_slice(from);
        u64::from_le_bytes(bytes)
    }
}

impl Contract {
    /// That of a kernel.
    ///
    /// # Errors
    /// What is wrong with its formulas.
    pub(super) fn of(entry: &KernelEntry) -> Result<Self, String> {
        let blocks = |code: &str| {
            Formula::parse(code, |name| match find(&entry.params, name) {
                Err(_) if name == RESIDENT => Ok(Value::Resident),
                found => found.map(Value::Passed),
            })
        };
        let requirements = entry.requires.iter().map(|requirement| {
            let named = |name: &str| Required::named(&entry.params, name);
            let formula = Formula::parse(&requirement.code, named)?;
            let of_extents = |value: &Required| !matches!(value, Required::Passed(_));
            let is_of_extents = formula.values().any(of_extents);
            Ok(Requirement {
                text: requirement.text.as_str().into(),
                formula,
                is_of_extents,
            })
        });
        let grid = entry.grid.as_ref().map(|grid| {
            let [x, y, z] = grid.blocks.each_ref().map(|code| blocks(code));
            Ok::<_, String>((grid.block, [x?, y?, z?]))
        });
        Ok(Self {
            requirements: requirements.collect::<Result<_, String>>()?,
            grid: grid.transpose()?,
        })
    }

    /// Holds the parameters against what is required of them, or a launch with them against what is
    /// required of grid and block.
    ///
    /// # Errors
    /// [`KernelError::Requirement`] for the first requirement that is not met.
    ///
    /// # Safety
    /// The parameters of kernel `kernel` are at these addresses.
    pub(crate) unsafe fn check(
        &self,
        kernel: &str,
        parameters: &[*const c_void],
        launch: Option<&LaunchConfig>,
    ) -> Result<()> {
        let extents = launch.map_or(([0; 3], [0; 3]), |launch| (launch.grid, launch.block));
        let read = |value: &Required| match value {
            // SAFETY: guaranteed by the caller.
            Required::Passed(value) => unsafe { value.read(parameters) },
            Required::Grid(axis) => extents.0[*axis].into(),
            Required::Block(axis) => extents.1[*axis].into(),
        };
        let due = |requirement: &&Requirement| requirement.is_of_extents == launch.is_some();
        for requirement in self.requirements.iter().filter(due) {
            let formula = &requirement.formula;
            if formula.value(read) == Some(1) {
                continue;
            }
            let mut values: Vec<String> = Vec::new();
            for value in formula.values() {
                let known = format!("{} = {}", value.name(), read(value));
                if !values.contains(&known) {
                    values.push(known);
                }
            }
            return Err(Error::Kernel(KernelError::Requirement {
                kernel: kernel.into(),
                condition: requirement.text.clone(),
                values: values.join(", ").into(),
            }));
        }
        Ok(())
    }

    /// The launch that the kernel states: at least one block, and whole clusters of these extents.
    /// `resident` says of which number of blocks of these extents the device holds at a time.
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) if it states none, or one with too many
    /// blocks; those of `resident`.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    pub(crate) unsafe fn launch(
        &self,
        kernel: &str,
        parameters: &[*const c_void],
        cluster: Option<[u32; 3]>,
        resident: impl FnOnce([u32; 3]) -> Result<u32>,
    ) -> Result<LaunchConfig> {
        let (block, blocks) = self.grid.as_ref().ok_or_else(|| {
            let want = format!("grid and block, which kernel `{kernel}` does not state");
            Error::value("launch configuration", "None", want)
        })?;
        let mut values = blocks.iter().flat_map(Formula::values);
        let needs_resident = values.any(|value| matches!(value, Value::Resident));
        let resident = match needs_resident {
            true => resident(*block)?,
            false => 0,
        };
        let read = |value: &Value| match value {
            // SAFETY: guaranteed by the caller.
            Value::Passed(value) => unsafe { value.read(parameters) },
            Value::Resident => resident.into(),
        };
        let mut grid = cluster.unwrap_or([1; 3]);
        for (extent, formula) in grid.iter_mut().zip(blocks) {
            let blocks = formula.value(read);
            let whole =
                blocks.and_then(|blocks| blocks.max(1).checked_next_multiple_of((*extent).into()));
            *extent = whole
                .and_then(|blocks| u32::try_from(blocks).ok())
                .ok_or_else(|| {
                    let want = format!("fewer than 2^32 blocks of kernel `{kernel}`");
                    Error::value("grid", format!("{blocks:?} blocks"), want)
                })?;
        }
        Ok(LaunchConfig {
            grid,
            block: *block,
            ..LaunchConfig::linear(1, 1)
        })
    }
}

/// The value of this name: `x.len`, `n`.
fn find(params: &[ParamEntry], name: &str) -> Result<Passed, String> {
    let unknown = || format!("there is no value `{name}` of a launch");
    let (of, extent) = name.split_once('.').unwrap_or((name, ""));
    let of_shape = |param: &&ParamEntry| {
        let shape = param.name.strip_prefix(of);
        matches!(shape, Some(".len" | ".shape"))
    };
    let is_it = |param: &&ParamEntry| match extent {
        "" => param.name == of && UNSIGNED.contains(&last(&param.ty)),
        _ => of_shape(param),
    };
    let mut all = params.iter().enumerate();
    let (parameter, param) = all.find(|(_, param)| is_it(param)).ok_or_else(unknown)?;
    let bytes = if extent.is_empty() {
        param.size as usize
    } else {
        8
    };
    let word = match extent {
        "" => 0,
        _ => {
            let mut shapes = EXTENTS.iter();
            let shape = shapes.find(|(ty, _)| *ty == param.ty);
            let names = shape.map_or(&[][..], |(_, names)| names);
            let word = names.iter().position(|name| *name == extent);
            word.ok_or_else(unknown)?
        }
    };
    if (word + 1) * bytes > param.size as usize || bytes > 8 {
        return Err(unknown());
    }
    Ok(Passed {
        name: match extent {
            "" => of.into(),
            extent => format!("{of}.{extent}()").into(),
        },
        parameter,
        at: word * bytes,
        bytes,
    })
}
