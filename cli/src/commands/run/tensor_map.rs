//! `[[tensor_map]]` of `launch.toml`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use warpsmith::{TensorMapDesc, TensorMapFill, TensorMapSwizzle};

use super::description::{Buffer, listed};

/// A tensor map, as the file describes it.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) name: String,
    /// Which buffer holds its tensor.
    pub(super) buffer: usize,
    pub(super) desc: TensorMapDesc,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMap {
    name: String,
    buffer: String,
    dims: Vec<u64>,
    strides_bytes: Vec<u64>,
    #[serde(rename = "box")]
    box_dims: Vec<u32>,
    element_strides: Option<Vec<u32>>,
    #[serde(default)]
    swizzle: u64,
    #[serde(default = "zeros")]
    fill: String,
}

fn zeros() -> String {
    "zeros".into()
}

/// Checks names, swizzles and fills; the rest is checked against the driver's rules when the map is
/// encoded.
pub(super) fn check(raw: Vec<RawMap>, buffers: &[Buffer]) -> Result<Vec<Map>> {
    let mut maps: Vec<Map> = Vec::new();
    for raw in raw {
        let name = raw.name.clone();
        ensure!(
            maps.iter().all(|map| map.name != name),
            "two tensor maps have the name `{name}`"
        );
        maps.push(map(raw, buffers).with_context(|| format!("tensor_map `{name}`"))?);
    }
    Ok(maps)
}

fn map(raw: RawMap, buffers: &[Buffer]) -> Result<Map> {
    let known: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    let buffer = known.iter().position(|name| *name == raw.buffer);
    let buffer = buffer.with_context(|| {
        let known = listed(&known);
        format!(
            "buffer = \"{}\": no such buffer; there are: {known}",
            raw.buffer
        )
    })?;
    let swizzle = TensorMapSwizzle::from_span_bytes(raw.swizzle)
        .with_context(|| format!("swizzle: {} is not 0, 32, 64 or 128", raw.swizzle))?;
    let fill = match raw.fill.as_str() {
        "zeros" => TensorMapFill::Zeros,
        "nan" => TensorMapFill::Nan,
        other => anyhow::bail!("fill: `{other}` is neither zeros nor nan"),
    };
    let data_type = buffers[buffer].dtype.into();
    let mut desc = TensorMapDesc::new(data_type, &raw.dims, &raw.strides_bytes, &raw.box_dims)
        .swizzle(swizzle)
        .fill(fill);
    if let Some(strides) = raw.element_strides {
        desc = desc.element_strides(&strides);
    }
    Ok(Map {
        name: raw.name,
        buffer,
        desc,
    })
}
