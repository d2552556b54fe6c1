//! Which elements a thread has, and their loads and stores.
//!
//! A group's elements travel as raw words, in two halves of four elements: words 0.. and 4.., as many
//! as the dtype's size says.

use core::array;

use cuda_std::{hint, mem, walk};
use spec::elementwise::{ChainParams, GROUP, THREADS};

use super::convert;

/// Bytes of an element of the dtype of that number.
#[inline(always)]
fn size_of_code(dtype: u32) -> u32 {
    // The logarithm, two bits a dtype: a match would become a table in memory.
    1 << ((0b01_01_10 >> (2 * dtype)) & 3)
}

/// The elements of a thread.
pub(super) struct Tile {
    /// Groups of 8 elements.
    pub(super) groups: u32,
    /// Neighbours of a chunk: 8 or 4; 1 where elements are gathered.
    chunk: u32,
    /// First element of the thread's first chunk; the next one is `step` further.
    first: u32,
    step: u32,
}

impl Tile {
    #[inline(always)]
    pub(super) fn of(params: &ChainParams, block: u32, thread: u32) -> Self {
        let groups = if params.walk.chunk == 8 { 2 } else { 1 };
        let len = THREADS * GROUP * groups;
        let start = block * len;
        let is_full = start + len <= params.walk.len;
        let chunk = if is_full { params.walk.chunk } else { 1 };
        Self {
            groups,
            chunk,
            first: start + thread * chunk,
            step: THREADS * chunk,
        }
    }

    /// The same, of which the compiler knows nothing: what is computed from it is computed where it
    /// is needed. Else it would move out of the loop over steps, and fill the registers.
    #[inline(always)]
    fn here(&self) -> Self {
        Self {
            first: hint::opaque(self.first),
            ..*self
        }
    }

    /// First element of chunk `index`.
    #[inline(always)]
    fn chunk_at(&self, index: u32) -> u32 {
        self.first + index * self.step
    }
}

/// Output and inputs.
pub(super) struct Tensors<'a> {
    pub(super) tensors: [*mut u8; 5],
    pub(super) params: &'a ChainParams,
}

/// Words of the first two inputs, both chunks each.
pub(super) struct Early([[u32; 8]; 2]);

impl Tensors<'_> {
    /// The first two inputs of a full tile.
    #[inline(always)]
    pub(super) unsafe fn load_early(&self, tile: &Tile) -> Early {
        let mut words = [[0; 8]; 2];
        if tile.chunk == 1 {
            return Early(words);
        }
        let mut input = 0;
        while input < 2 {
            if (input as u32) < self.params.inputs {
                let size = size_of_code((self.params.dtypes >> (8 * input)) & 0xff);
                // SAFETY: passed on to the caller.
                let chunks = [0, 1].map(|k| unsafe { self.load_chunk(tile, input + 1, size, k) });
                words[input] = array::from_fn(|i| chunks[i / 4][i % 4]);
            }
            input += 1;
        }
        Early(words)
    }

    /// A chunk's words in order.
    #[inline(always)]
    unsafe fn load_chunk(&self, tile: &Tile, tensor: usize, size: u32, index: u32) -> [u32; 4] {
        let at = walk::offset(&self.params.walk, tensor, tile.chunk_at(index));
        let from = self.tensors[tensor].wrapping_offset(at * size as isize);
        let is_splat = (self.params.walk.splat >> tensor) & 1 == 1;
        let words = if tile.chunk == 8 { 2 * size } else { size };
        // SAFETY: so many words from here are the chunk, aligned; or one element stands for all.
        unsafe {
            if is_splat {
                [match size {
                    4 => from.cast::<u32>().read(),
                    2 => u32::from(from.cast::<u16>().read()) * 0x0001_0001,
                    _ => u32::from(from.read()) * 0x0101_0101,
                }; 4]
            } else if words == 4 {
                mem::ld_global_v4_u32(from.cast())
            } else if words == 2 {
                let [a, b] = mem::ld_global_v2_u32(from.cast());
                [a, b, 0, 0]
            } else {
                [from.cast::<u32>().read(), 0, 0, 0]
            }
        }
    }

    /// A group of an input, in halves.
    #[inline(always)]
    pub(super) unsafe fn load(
        &self,
        tile: &Tile,
        group: u32,
        early: &Early,
        input: u32,
        dtype: u32,
    ) -> [u32; 8] {
        let size = size_of_code(dtype);
        // SAFETY: passed on to the caller.
        unsafe {
            if tile.chunk == 1 {
                return self.gather(&tile.here(), group, input, size);
            }
            let words = match input {
                0 => early.0[0],
                1 => early.0[1],
                _ => {
                    let tensor = if input == 2 { 3 } else { 4 };
                    let tile = tile.here();
                    let chunks = [0, 1].map(|k| self.load_chunk(&tile, tensor, size, k));
                    array::from_fn(|i| chunks[i / 4][i % 4])
                }
            };
            if tile.chunk == 4 {
                return words;
            }
            let [a, b, c, d] = if group == 0 {
                [words[0], words[1], words[2], words[3]]
            } else {
                [words[4], words[5], words[6], words[7]]
            };
            if size == 2 {
                [a, b, 0, 0, c, d, 0, 0]
            } else {
                [a, 0, 0, 0, b, 0, 0, 0]
            }
        }
    }

    /// Element `j` of a gathered group, where there is one.
    #[inline(always)]
    fn gathered(&self, tile: &Tile, group: u32, j: u32) -> Option<u32> {
        let index = tile.first + (group * GROUP + j) * THREADS;
        (index < self.params.walk.len).then_some(index)
    }

    /// A group element by element; those beyond the end are 0.
    #[inline(always)]
    unsafe fn gather(&self, tile: &Tile, group: u32, input: u32, size: u32) -> [u32; 8] {
        let tensor = input as usize + 1;
        let base = match input {
            0 => self.tensors[1],
            1 => self.tensors[2],
            2 => self.tensors[3],
            _ => self.tensors[4],
        };
        let mut elements = [0; 8];
        for j in 0..GROUP {
            if let Some(index) = self.gathered(tile, group, j) {
                let at = walk::offset(&self.params.walk, tensor, index);
                let from = base.wrapping_offset(at * size as isize);
                // SAFETY: an element of the input.
                elements[j as usize] = unsafe {
                    match size {
                        4 => from.cast::<u32>().read(),
                        2 => u32::from(from.cast::<u16>().read()),
                        _ => u32::from(from.read()),
                    }
                };
            }
        }
        let [a, b, c, d, e, f, g, h] = elements;
        match size {
            4 => elements,
            2 => [
                a | b << 16,
                c | d << 16,
                0,
                0,
                e | f << 16,
                g | h << 16,
                0,
                0,
            ],
            _ => {
                let word = |a, b, c, d| a | b << 8 | c << 16 | d << 24;
                [word(a, b, c, d), 0, 0, 0, word(e, f, g, h), 0, 0, 0]
            }
        }
    }

    /// Rounds a group to the output's dtype and writes it.
    #[inline(always)]
    pub(super) unsafe fn store<const CVT: bool>(&self, tile: &Tile, group: u32, value: [f32; 8]) {
        let size = size_of_code(self.params.output);
        let words = convert::narrow::<CVT>(value, self.params.output);
        let tile = &tile.here();
        let y = |index: u32| {
            let at = walk::offset(&self.params.walk, 0, index);
            self.tensors[0].wrapping_offset(at * size as isize)
        };
        // SAFETY: a full tile's chunks lie inside of y and are aligned; else each element is checked.
        unsafe {
            if tile.chunk == 8 {
                let to = y(tile.chunk_at(group));
                if size == 2 {
                    mem::st_global_v4_u32(to.cast(), [words[0], words[1], words[4], words[5]]);
                } else {
                    mem::st_global_v2_u32(to.cast(), [words[0], words[4]]);
                }
            } else if tile.chunk == 4 {
                for half in 0..2 {
                    let to = y(tile.chunk_at(half));
                    let h = 4 * half as usize;
                    match size {
                        4 => mem::st_global_v4_u32(
                            to.cast(),
                            [words[h], words[h + 1], words[h + 2], words[h + 3]],
                        ),
                        2 => mem::st_global_v2_u32(to.cast(), [words[h], words[h + 1]]),
                        _ => to.cast::<u32>().write(words[h]),
                    }
                }
            } else {
                self.scatter(tile, group, size, words, y);
            }
        }
    }

    /// Writes a group element by element.
    #[inline(always)]
    unsafe fn scatter(
        &self,
        tile: &Tile,
        group: u32,
        size: u32,
        words: [u32; 8],
        y: impl Fn(u32) -> *mut u8,
    ) {
        for j in 0..GROUP {
            if let Some(index) = self.gathered(tile, group, j) {
                let half = 4 * (j as usize / 4);
                let k = j as usize % 4;
                // SAFETY: an element of the output.
                unsafe {
                    match size {
                        4 => y(index).cast::<u32>().write(words[half + k]),
                        2 => {
                            let word = words[half + k / 2] >> (16 * (k % 2));
                            y(index).cast::<u16>().write(word as u16);
                        }
                        _ => y(index).write((words[half] >> (8 * k)) as u8),
                    }
                }
            }
        }
    }
}
