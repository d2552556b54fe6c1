//! One launch of an entry and of what turns its sums into gradients, as `abi` says.

use abi::attention::{BshStrides, FlashFwdParams, OutputDType};
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm90::{Heads, Sm90GradEntry, Sm90GradTile, THREADS};
use abi::attention_grad::sums::ROUND_ENTRY;
use abi::gemm::sm90::{SPAN_BYTES, WARPGROUP};
use warpsmith::{
    DType, Device, DeviceBuffer, LaunchConfig, TensorMap, TensorMapDesc, TensorMapSwizzle,
};
use warpsmith_tests::element::TestElement;

use super::case::Case;

/// So many that some cases have heads side by side and others not.
const MULTIPROCESSORS: u32 = 4;

/// The gradients, in the layouts of q, k and v.
pub(crate) struct Grads<T> {
    pub(crate) dq: Vec<T>,
    pub(crate) dk: Vec<T>,
    pub(crate) dv: Vec<T>,
}

impl<T: TestElement> Grads<T> {
    /// All bits, those of the padding too.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let all = [&self.dq, &self.dk, &self.dv];
        all.into_iter().flatten().map(|x| x.bits()).collect()
    }
}

/// What a launch reads: q, k, v and d_o with padding, and lse and delta.
pub(crate) struct Inputs<T> {
    pub(crate) q: Vec<T>,
    pub(crate) k: Vec<T>,
    pub(crate) v: Vec<T>,
    pub(crate) d_o: Vec<T>,
    pub(crate) lse: Vec<f32>,
    pub(crate) delta: Vec<f32>,
}

/// Strides of a tensor with `padding` elements between its heads.
pub(crate) fn strides(seqlen: u32, heads: u32, head_dim: u32, padding: u32) -> BshStrides {
    let head = i64::from(head_dim + padding);
    BshStrides {
        batch: i64::from(seqlen) * i64::from(heads) * head,
        seq: i64::from(heads) * head,
        head,
    }
}

impl Case {
    pub(crate) fn tile(&self) -> Sm90GradTile {
        Sm90GradEntry::of(DType::Bf16, self.head_dim, self.head_dim_v)
            .expect("there is a tile for it")
            .tile
    }

    pub(crate) fn params(&self, dtype: DType) -> AttentionGradParams {
        let heads_q = self.heads_kv * self.group;
        let of_q = |head_dim| strides(self.seqlen_q, heads_q, head_dim, self.padding);
        let of_k = |head_dim| strides(self.seqlen_k, self.heads_kv, head_dim, self.padding);
        let scale = self.softmax_scale();
        let (scale_log2, softcap_scale) = match self.softcap {
            None => (scale, 0.0),
            Some(softcap) => (softcap, scale / softcap),
        };
        AttentionGradParams {
            fwd: FlashFwdParams {
                q: of_q(self.head_dim),
                k: of_k(self.head_dim),
                v: of_k(self.head_dim_v),
                o: of_q(self.head_dim_v),
                batch: self.batch,
                seqlen_q: self.seqlen_q,
                seqlen_k: self.seqlen_k,
                total_q: 0,
                total_k: 0,
                heads_q,
                heads_kv: self.heads_kv,
                head_dim: self.head_dim,
                head_dim_v: self.head_dim_v,
                window_left: self.window.0,
                window_right: self.window.1,
                top_left: u32::from(self.top_left),
                softmax_scale_log2: scale_log2 * std::f32::consts::LOG2_E,
                softcap_scale,
                o_dtype: OutputDType::new(dtype).expect("a dtype of o").code(),
                write_lse: 0,
            },
            d_o: of_q(self.head_dim_v),
            dq: of_q(self.head_dim),
            dk: of_k(self.head_dim),
            dv: of_k(self.head_dim_v),
            softmax_scale: scale,
            heads_together: self.heads_together,
        }
    }

    /// The gradients, where padding keeps its poison.
    pub(crate) fn launch<T: TestElement>(
        &self,
        device: &Device,
        inputs: &Inputs<T>,
    ) -> warpsmith::Result<Grads<T>> {
        let (tile, params) = (self.tile(), self.params(T::DTYPE));
        let fwd = &params.fwd;
        let entry = Sm90GradEntry::of(T::DTYPE, self.head_dim, self.head_dim_v).expect("an entry");
        let stream = device.default_stream();
        let buffer = |values: &[T]| DeviceBuffer::from_slice(device, values);
        let poisoned = |len| buffer(&vec![T::POISON; len]);
        let (q, k, v, d_o) = (
            buffer(&inputs.q)?,
            buffer(&inputs.k)?,
            buffer(&inputs.v)?,
            buffer(&inputs.d_o)?,
        );
        let map_q = |buffer: &DeviceBuffer<T>, head_dim| {
            let of = (fwd.seqlen_q, fwd.heads_q, head_dim);
            self.map(buffer, of, tile.tile_m)
        };
        let map_k = |buffer: &DeviceBuffer<T>, head_dim| {
            let of = (fwd.seqlen_k, fwd.heads_kv, head_dim);
            self.map(buffer, of, tile.tile_n())
        };
        let (map_q, map_k, map_v, map_d_o) = (
            map_q(&q, self.head_dim)?,
            map_k(&k, self.head_dim)?,
            map_k(&v, self.head_dim_v)?,
            map_q(&d_o, self.head_dim_v)?,
        );
        let lse = DeviceBuffer::from_slice(device, &inputs.lse)?;
        let delta = DeviceBuffer::from_slice(device, &inputs.delta)?;
        let (dq, dk, dv) = (
            poisoned(inputs.q.len())?,
            poisoned(inputs.k.len())?,
            poisoned(inputs.v.len())?,
        );
        let unset = |len| DeviceBuffer::<f32>::from_slice(device, &vec![f32::NAN; len as usize]);
        let (sums, key_sums) = (unset(tile.sums(&params))?, unset(tile.key_sums(&params))?);
        let zeros = vec![0_u32; tile.counters(&params) as usize];
        let counters = DeviceBuffer::from_slice(device, &zeros)?;
        let config = LaunchConfig {
            grid: tile
                .grid(&Heads::of(fwd), self.heads_together, MULTIPROCESSORS)
                .expect("a small attention"),
            block: [THREADS, 1, 1],
            shared_bytes: tile.smem_bytes(),
            cluster: None,
        };
        // SAFETY: maps and buffers are those of the case, as `abi` states.
        unsafe {
            let arguments = (
                &map_q, &map_k, &map_v, &map_d_o, &lse, &delta, &sums, &key_sums, &counters, &dk,
                &dv, params,
            );
            let kernel = device.builtin_kernel(&entry.to_string())?;
            kernel.launch(&stream, config, arguments)?;
            let mut roundings = vec![(&sums, &dq, tile.rounding_of_dq(&params))];
            if params.adders() > 1 {
                let [of_dk, of_dv] = tile.roundings_of_keys(&params);
                roundings.extend([(&key_sums, &dk, of_dk), (&key_sums, &dv, of_dv)]);
            }
            let kernel = device.builtin_kernel(&ROUND_ENTRY.to_string())?;
            for (sums, gradient, rounding) in roundings {
                let config = LaunchConfig {
                    grid: rounding.grid(fwd.batch),
                    block: [WARPGROUP, 1, 1],
                    shared_bytes: 0,
                    cluster: None,
                };
                kernel.launch(&stream, config, (sums, gradient, params, rounding))?;
            }
        }
        assert_eq!(counters.to_vec()?, zeros, "counters are left as they were");
        Ok(Grads {
            dq: dq.to_vec()?,
            dk: dk.to_vec()?,
            dv: dv.to_vec()?,
        })
    }

    fn map<T: TestElement>(
        &self,
        buffer: &DeviceBuffer<T>,
        (seqlen, heads, head_dim): (u32, u32, u32),
        rows: u32,
    ) -> warpsmith::Result<TensorMap> {
        let BshStrides { batch, seq, head } = strides(seqlen, heads, head_dim, self.padding);
        let dims = [head_dim, seqlen, heads, self.batch].map(u64::from);
        let strides = [seq, head, batch].map(|stride| 2 * stride as u64);
        TensorMapDesc::new(
            T::DTYPE.into(),
            &dims,
            &strides,
            &[SPAN_BYTES / 2, rows, 1, 1],
        )
        .swizzle(TensorMapSwizzle::B128)
        .encode(buffer)
    }
}
