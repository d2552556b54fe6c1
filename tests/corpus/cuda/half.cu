// arch: sm_75 sm_80 sm_90a
// Arithmetic of halves, brain floats and 8-bit floats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half2 *in, __half2 *out)
{
    __half2 a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
    __half2 *to = out + 16 * threadIdx.x;
    to[0] = __hadd2(a, b);
    to[1] = __hsub2(a, b);
    to[2] = __hmul2(a, b);
    to[3] = __hfma2(a, b, a);
    to[4] = __h2div(a, b);
    to[5] = __hadd2_sat(a, b);
    to[6] = __hmax2(a, b);
    to[7] = __hmin2(a, __hneg2(b));
    to[8] = __habs2(a);
    to[9] = __hge2(a, b);
    to[10] = __float2half2_rn(__hbgt2(a, b) ? 1 : 0);
    to[11] = __lowhigh2highlow(a);
    to[12] = h2floor(a);
    to[13] = __halves2half2(__float2half_rz(__low2float(a) / 3), __int2half_rn(threadIdx.x));
    to[14] = __halves2half2(__short2half_rn(__half2short_rz(a.x)), __ushort_as_half(__half_as_ushort(b.y)));
    to[15] = __hfma2_relu(a, b, __hneg2(a));
}

extern "C" __global__ void half_functions(const __half *in, __half *out)
{
    __half a = in[threadIdx.x];
    __half *to = out + 10 * threadIdx.x;
    to[0] = hexp(a);
    to[1] = hlog(__habs(a));
    to[2] = hsqrt(__habs(a));
    to[3] = hrsqrt(__habs(a));
    to[4] = hsin(a);
    to[5] = hcos(a);
    to[6] = hrcp(a);
    to[7] = hexp2(a);
    to[8] = hrint(a);
    to[9] = htanh(a);
}

extern "C" __global__ void brain_floats(const __nv_bfloat162 *in, __nv_bfloat162 *out)
{
    __nv_bfloat162 a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
    __nv_bfloat162 *to = out + 12 * threadIdx.x;
    to[0] = __hadd2(a, b);
    to[1] = __hsub2(a, b);
    to[2] = __hmul2(a, b);
#if __CUDA_ARCH__ >= 800
    to[3] = __hfma2(a, b, b);
#else
    to[3] = __floats2bfloat162_rn(fmaf(__low2float(a), __low2float(b), __low2float(b)),
                                  fmaf(__high2float(a), __high2float(b), __high2float(b)));
#endif
    to[4] = __h2div(a, b);
    to[5] = __hmax2(a, b);
    to[6] = __hmin2(a, b);
    to[7] = __habs2(a);
    to[8] = __floats2bfloat162_rn(__low2float(a) * 1.5f, __high2float(b) - 0.25f);
    to[9] = __hneg2(a);
    to[10] = h2exp(a);
    to[11] = h2rsqrt(__habs2(b));
}

// Through e4m3 and e5m2 and back.
extern "C" __global__ void eighths(const float *in, unsigned char *bytes, float *out)
{
    float a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
    __nv_fp8_e4m3 e4(a);
    __nv_fp8_e5m2 e5(a);
    __nv_fp8x2_e4m3 pair(make_float2(a, b));
    bytes[4 * threadIdx.x] = e4.__x;
    bytes[4 * threadIdx.x + 1] = e5.__x;
    bytes[4 * threadIdx.x + 2] = pair.__x & 255;
    bytes[4 * threadIdx.x + 3] = pair.__x >> 8;
    float2 back = float2(pair);
    out[4 * threadIdx.x] = float(e4);
    out[4 * threadIdx.x + 1] = float(e5);
    out[4 * threadIdx.x + 2] = back.x;
    out[4 * threadIdx.x + 3] = back.y;
}
