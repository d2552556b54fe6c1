//! A large GEMM as several launches, each of a band of rows of D.
//!
//! The blocks of a launch share A and B through L2 as long as they are at about the same k. Over
//! many tiles they drift apart. Data that one block reads has then left L2 before other blocks need
//! it. Each launch waits for the launch before it, so its blocks begin together again.
//!
//! On an H100, promoted tiles narrower than 256 columns take 2 to 15 % less time in bands, from 46
//! waves on. Blocks with tiles of 128 x 256 (promoted or not) or 128 x 192 stay together, and lose
//! 1 to 4 % in bands.

use super::super::call::Call;
use super::super::desc::{GemmDesc, Side};
use crate::Result;
use crate::ops::plan::Machine;
use abi::gemm::Transpose;
use abi::gemm::sm90::Sm90Tile;

/// Waves of a band: few enough that blocks stay together, and enough that the end of a launch costs
/// little.
const WAVES: std::ops::RangeInclusive<f64> = 5.0..=12.0;
/// Most that the incomplete waves at the ends of bands may cost.
const MOST_LOSS: f64 = 1.02;

/// Time that one launch of promoted tiles loses as its blocks drift apart, relative to the rest.
pub(super) fn drift(desc: &GemmDesc, tile: &Sm90Tile, machine: &Machine) -> f64 {
    if stays_together(tile) {
        return 0.0;
    }
    let waves = waves(tile.grid_tiles(desc.m, desc.n), machine.multiprocessors);
    let costs = &machine.model.gemm.sm90;
    (waves - costs.drift_after_waves).max(0.0) / costs.drift_doubles_after_waves
}

/// Time of a GEMM in bands of so many rows of tiles, of which one launch would take `whole_ns` without
/// drift.
pub(super) fn estimate_ns(
    desc: &GemmDesc,
    tile: &Sm90Tile,
    machine: &Machine,
    (whole_ns, rows): (f64, u32),
) -> f64 {
    let model = &machine.model;
    let (m_tiles, _) = tile.grid_tiles(desc.m, desc.n);
    let launches = f64::from(m_tiles.div_ceil(rows));
    whole_ns * (1.0 + model.gemm.sm90.lost_in_bands) + launches * model.launch_ns
}

/// Whether the blocks of a launch stay at about the same k, however many waves it has.
fn stays_together(tile: &Sm90Tile) -> bool {
    tile.tile_n >= 256
}

/// Waves of so many rows and columns of tiles.
fn waves((rows, columns): (u32, u32), multiprocessors: u32) -> f64 {
    f64::from(rows) * f64::from(columns) / f64::from(multiprocessors)
}

/// Rows of tiles of each band of `desc`, but for the last. `None` if it is too small to be cut, if
/// no band fills its last wave, or if its blocks stay together.
pub(super) fn rows_of_band(desc: &GemmDesc, tile: &Sm90Tile, machine: &Machine) -> Option<u32> {
    let multiprocessors = machine.multiprocessors;
    let (rows, columns) = tile.grid_tiles(desc.m, desc.n);
    let waves_of = |rows: u32| waves((rows, columns), multiprocessors);
    let whole = waves_of(rows);
    if desc.batch != 1 || whole < machine.model.gemm.sm90.drift_after_waves || stays_together(tile)
    {
        return None;
    }
    let cost = |band: u32| {
        let (bands, rest) = (rows / band, rows % band);
        f64::from(bands) * waves_of(band).ceil() + waves_of(rest).ceil()
    };
    let most = (WAVES.end() * f64::from(multiprocessors) / f64::from(columns)) as u32;
    let best = (1..=most.min(rows - 1))
        .filter(|&band| WAVES.contains(&waves_of(band)))
        .min_by(|&x, &y| cost(x).total_cmp(&cost(y)))?;
    (cost(best) <= MOST_LOSS * whole.ceil()).then_some(best)
}

/// Calls `launch` for each band of `rows` rows of D in turn.
pub(in crate::ops::gemm) fn each(
    call: &Call<'_>,
    rows: u32,
    launch: impl Fn(&Call<'_>) -> Result<()>,
) -> Result<()> {
    let mut first = 0;
    while first < call.desc.m {
        let mut band = call.clone();
        band.desc.m = rows.min(call.desc.m - first);
        let of_line =
            |stride: i64, size_bytes: usize| i64::from(first) * stride * size_bytes as i64;
        let (a, d) = (call.desc.operand(Side::A), &call.desc.d);
        let step = match a.transpose {
            Transpose::N => a.ld,
            Transpose::T => 1,
        };
        band.a = call.a.offset(of_line(step, a.dtype.size_bytes()));
        band.d = call.d.offset(of_line(d.ld, d.dtype.size_bytes()));
        launch(&band)?;
        first += band.desc.m;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::candidates::tests::H200;
    use super::super::super::desc::tests::weighted;
    use super::*;
    use crate::DType;
    use abi::gemm::sm90::{Schedule, Sm90Tile, TILE_128X128};

    const TILE_128X176_PROMOTED: Sm90Tile = Sm90Tile {
        tile_n: 176,
        stages: 5,
        schedule: Schedule::Cooperative,
        ..TILE_128X128
    };

    #[test]
    fn bands_fill_their_waves() {
        let band = |tile, extents| rows_of_band(&weighted(DType::Bf16, extents), &tile, &H200);
        // 94 columns of tiles: 7 rows are 4.98 waves, 14 rows 9.97.
        assert_eq!(band(TILE_128X176_PROMOTED, [16_384; 3]), Some(14));
        assert_eq!(band(TILE_128X128, [4096; 3]), None, "few tiles");
        assert_eq!(band(TILE_128X128, [1 << 20, 128 * 131, 64]), Some(6));
        assert_eq!(band(TILE_128X128, [128, 1 << 20, 64]), None, "one row");
        assert_eq!(band(TILE_128X128, [0, 4096, 64]), None);
    }
}
