// arch: sm_75 sm_80 sm_90a -- --use_fast_math
// Gravity of all on all, bodies as float4 through shared tiles.

extern "C" __global__ void accelerations(int n, const float4 *bodies, float4 *out)
{
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 a = {0, 0, 0};
    for (int base = 0; base < n; base += blockDim.x) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < blockDim.x; ++k) {
            float4 other = tile[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
            float s = other.w * inverse * inverse * inverse;
            a.x += dx * s;
            a.y += dy * s;
            a.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n)
        out[i] = make_float4(a.x, a.y, a.z, sqrtf(a.x * a.x + a.y * a.y + a.z * a.z));
}
