//! Signatures of kernels, read from PTX text: parameters and launch requirements.

use super::contract::Contract;
use super::edit::waits;
use crate::error::{Error, KernelError, Result};
use ptx_syntax::ast::{self, FunctionKind};
use ptx_syntax::explain::KernelReport;

/// Size and alignment of one parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamInfo {
    /// Size in bytes.
    pub size_bytes: u32,
    /// Alignment in bytes.
    pub align_bytes: u32,
}

/// Signature of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) name: Box<str>,
    pub(crate) params: Box<[ParamInfo]>,
    /// Name and Rust type of each parameter (`y`, `*mut f32`). PTX does not say it, a manifest does.
    pub(crate) declared: Box<[(Box<str>, Box<str>)]>,
    /// Layouts of its structs, by parameter. A manifest says them.
    pub(crate) layouts: Box<[Option<u64>]>,
    /// What it says of its launches. A manifest has it.
    pub(crate) contract: Contract,
    /// The kernel is a `fn` without `unsafe`, whose parameters are declared.
    pub(crate) is_safe: bool,
    /// `.reqntid`: the only block extents that it may be launched with.
    pub(crate) required_block: Option<[u32; 3]>,
    /// Product of the extents of `.maxntid`.
    pub(crate) max_threads: Option<u32>,
    /// `.reqnctapercluster`: the only cluster extents that it may be launched with.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Its blocks wait for each other, so all of them run at a time: its launches are cooperative.
    pub(crate) is_cooperative: bool,
    /// `griddepcontrol.wait` stands in its body.
    pub(crate) waits: bool,
    /// It is launched with programmatic dependent launch (PDL): it may begin before the launch
    /// before it has ended, for which it waits itself.
    pub(crate) begins_early: bool,
    /// Static shared memory of the kernel and the functions it calls, in bytes.
    #[cfg_attr(not(feature = "emulator"), allow(dead_code))] // a driver counts for itself
    pub(crate) static_shared_bytes: u32,
    /// Least dynamic shared memory of a launch, in bytes. PTX does not say it, a manifest does.
    pub(crate) dynamic_shared_bytes: u32,
}

/// Parses PTX text.
pub(crate) fn parse(ptx: &str) -> Result<ast::Module> {
    ptx_syntax::parse(ptx).map_err(|error| {
        Error::Kernel(KernelError::PtxSyntax {
            line: error.line,
            column: error.column,
            message: error.message.into(),
        })
    })
}

/// The kernels of a module, in order.
pub(crate) fn signatures(module: &ast::Module) -> Result<Vec<Signature>> {
    let reports = ptx_syntax::explain::explain(module).kernels;
    let report = |name: &str| reports.iter().find(|report| report.name == name);
    let entries = module
        .functions
        .iter()
        .filter(|f| f.kind == FunctionKind::Entry && f.body.is_some());
    entries
        .map(|entry| signature(entry, report(&entry.name)))
        .collect()
}

fn signature(entry: &ast::Function, report: Option<&KernelReport>) -> Result<Signature> {
    let shared_bytes = report.map_or(0, |report| report.static_shared_bytes);
    let params = entry.params.iter().map(|param| {
        let size_bytes = param.bytes().and_then(|bytes| u32::try_from(bytes).ok());
        let size_bytes = size_bytes.ok_or_else(|| {
            Error::Kernel(KernelError::PtxSyntax {
                line: param.line,
                column: 1,
                message: format!("parameter `{}` has no size", param.name).into(),
            })
        })?;
        Ok(ParamInfo {
            size_bytes,
            align_bytes: param.alignment(),
        })
    });
    let directives = &entry.directives;
    let product = |extents: [u32; 3]| extents.into_iter().fold(1, u32::saturating_mul);
    Ok(Signature {
        waits: waits(entry),
        begins_early: false,
        name: entry.name.as_str().into(),
        params: params.collect::<Result<_>>()?,
        declared: Box::default(),
        layouts: Box::default(),
        contract: Contract::default(),
        is_safe: false,
        required_block: directives.reqntid,
        max_threads: directives.maxntid.map(product),
        cluster: directives.reqnctapercluster,
        is_cooperative: report.is_some_and(|report| report.cooperative),
        static_shared_bytes: u32::try_from(shared_bytes).unwrap_or(u32::MAX),
        dynamic_shared_bytes: 0,
    })
}
