"""Writes the .npy files of this folder. Small integers and halves: every product is exact."""

import os

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def save(name, array):
    np.save(os.path.join(here, name + ".npy"), array)


def grid(*shape):
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5) / 2


a, b, c = grid(3, 4), grid(4, 5), grid(3, 5)
save("a_f32_c", a.astype(np.float32))
save("a_f64_fortran", np.asfortranarray(a))
save("a_f16_big_endian", a.astype(">f2"))
save("at_f32_c", np.ascontiguousarray(a.T).astype(np.float32))
save("b_f16_fortran", np.asfortranarray(b.astype(np.float16)))
save("b_f32_c", b.astype(np.float32))
save("c_f64_c", c)
save("d", (a @ b).astype(np.float32))
save("d_alpha_half_beta_2", (0.5 * (a @ b) + 2 * c).astype(np.float32))
rows, columns = grid(3), grid(5)
save("bias_rows", rows)
save("bias_columns", columns)
save("d_row_bias", (a @ b + rows[:, None]).astype(np.float32))
save("d_column_bias_relu_residual", (np.maximum(a @ b + columns, 0) + c).astype(np.float32))

q, k, v = grid(1, 3, 2, 8), grid(1, 5, 1, 8)[:, ::-1], grid(1, 5, 1, 8)
scores = np.einsum("bqhd,bkgd->bhqk", q, k) / np.sqrt(8)
for name, visible in [("", np.ones((3, 5), bool)), ("_causal", np.tri(3, 5, 2, dtype=bool))]:
    masked = np.where(visible, scores, -np.inf)
    lse = np.log(np.exp(masked).sum(-1))
    p = np.exp(masked - lse[..., None])
    save("o" + name, np.einsum("bhqk,bkgd->bqhd", p, v).astype(np.float32, order="C"))
    save("lse" + name, lse.astype(np.float32, order="C"))
bias, shown, slopes = grid(2, 1, 5), np.tri(3, 5, 1)[None], np.array([0.5, 0.25])
distance = np.abs(np.arange(3)[:, None] + 2 - np.arange(5))
changed = scores + bias - slopes[:, None, None] * distance
masked = np.where(shown, changed, -np.inf)
p = np.exp(masked) / np.exp(masked).sum(-1, keepdims=True)
save("scores_bias", bias.astype(np.float32))
save("scores_mask", shown.astype(np.int32))
save("scores_slopes", slopes)
save("o_scores", np.einsum("bhqk,bkgd->bqhd", p, v).astype(np.float32, order="C"))
save("q_f16_c", q.astype(np.float16))
save("k_f64_fortran", np.asfortranarray(k))
save("v_f32_c", np.ascontiguousarray(v).astype(np.float32))

x = grid(3, 7)
save("x_f64_c", x)
save("x_f32_fortran", np.asfortranarray(x.astype(np.float32)))
save("sum", np.asarray(x.sum(), np.float32))
save("sum_axis_1", x.sum(1).astype(np.float32))
save("max_axis_0", x.max(0).astype(np.float32))
save("argmin_axis_1", x.argmin(1))
save("softmax", (np.exp(x) / np.exp(x).sum(-1, keepdims=True)).astype(np.float32))

save("i32", np.arange(6, dtype=np.int32).reshape(2, 3) - 2)
save("i32_fortran", np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3) - 2))
save("structured", np.zeros(2, [("x", "f4"), ("y", "i4")]))
save("complex", np.zeros(2, np.complex64))
save("empty", np.zeros((0, 4), np.float32))
