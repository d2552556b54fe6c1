// arch: sm_75 sm_90a
// The mathematics library, which nvcc puts into the text: tables, slow paths, local arrays.

extern "C" __global__ void singles(const float *in, float *out)
{
    float a = in[threadIdx.x];
    float *to = out + 24 * threadIdx.x;
    float p = fabsf(a) + 0.001f;
    to[0] = sinf(a);
    to[1] = cosf(a);
    to[2] = tanf(a);
    to[3] = expf(a * 0.01f);
    to[4] = logf(p);
    to[5] = powf(p, 0.7f);
    to[6] = sqrtf(p);
    to[7] = 1.0f / p;
    to[8] = a / 3.7f;
    to[9] = atan2f(a, 2);
    to[10] = tanhf(a * 0.1f);
    to[11] = erff(a * 0.1f);
    to[12] = lgammaf(p);
    to[13] = cbrtf(a);
    to[14] = fmodf(a, 1.7f);
    to[15] = floorf(a) + ceilf(a * 0.5f) + truncf(a * 0.25f) + rintf(a * 0.125f) + roundf(a);
    to[16] = hypotf(a, 3);
    int exponent;
    to[17] = frexpf(a, &exponent) + exponent;
    to[18] = ldexpf(a, 5);
    to[19] = asinf(a * 1e-5f) + acosf(a * 1e-5f);
    to[20] = sinhf(a * 0.001f) + coshf(a * 0.001f);
    to[21] = exp2f(a * 0.01f) + log2f(p) + log10f(p) + log1pf(p) + expm1f(a * 0.001f);
    to[22] = __fmaf_rz(a, a, 1.0f) + __fadd_ru(a, 0.1f) + __fdiv_rn(a, 7) + __fsqrt_rd(p);
    to[23] = copysignf(p, a) + fmaxf(a, 0.5f) + fminf(a, 0.25f) + nextafterf(a, 0);
}

extern "C" __global__ void doubles(const double *in, double *out)
{
    double a = in[threadIdx.x];
    double *to = out + 16 * threadIdx.x;
    double p = fabs(a) + 0.001;
    to[0] = sin(a);
    to[1] = cos(a);
    to[2] = exp(a * 0.01);
    to[3] = log(p);
    to[4] = pow(p, 0.7);
    to[5] = sqrt(p);
    to[6] = 1.0 / p;
    to[7] = a / 3.7;
    to[8] = atan2(a, 2.0);
    to[9] = tanh(a * 0.1);
    to[10] = erf(a * 0.1);
    to[11] = cbrt(a);
    to[12] = fmod(a, 1.7);
    to[13] = floor(a) + rint(a * 0.5);
    to[14] = tgamma(p * 1e-4);
    to[15] = (double)(long long)(a * 1e3) + (double)(unsigned)p;
}

extern "C" __global__ void fast(const float *in, float *out)
{
    float a = in[threadIdx.x];
    float *to = out + 8 * threadIdx.x;
    float p = fabsf(a) + 0.001f;
    to[0] = __sinf(a * 0.001f);
    to[1] = __cosf(a * 0.001f);
    to[2] = __expf(a * 0.01f);
    to[3] = __logf(p);
    to[4] = __powf(p, 0.7f);
    to[5] = __fdividef(a, 3.7f);
    to[6] = __frsqrt_rn(p);
    to[7] = __saturatef(a) + __frcp_rn(p);
}
