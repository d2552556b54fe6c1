// arch: sm_75 sm_80 sm_90a
// Calls: recursion, tables of functions, virtual functions, aggregates by value, local arrays.

extern "C" __device__ __noinline__ unsigned int fibonacci(unsigned int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ unsigned int ackermann(unsigned int m, unsigned int n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

extern "C" __global__ void recursion(unsigned int *out)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = fibonacci(i % 12) * 1000 + ackermann(i % 3, i % 4);
}

__device__ float twice(float x) { return 2 * x; }
__device__ float square(float x) { return x * x; }
__device__ float negate(float x) { return -x; }
typedef float (*Function)(float);
__device__ Function table[3] = {twice, square, negate};
__constant__ Function constant_table[3] = {negate, twice, square};

extern "C" __global__ void pointers(const float *in, float *out)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = table[i % 3](in[i]) + constant_table[i / 3 % 3](in[i]);
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual float scaled(float by) const { return area() * by; }
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ __noinline__ float area() const override { return side * side; }
};
struct Disc : Shape {
    float radius;
    __device__ explicit Disc(float radius) : radius(radius) {}
    __device__ __noinline__ float area() const override { return 3 * radius * radius; }
    __device__ __noinline__ float scaled(float by) const override { return area() * by * by; }
};

extern "C" __global__ void virtuals(const float *in, float *out)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    Square square(in[i]);
    Disc disc(in[i]);
    const Shape *shape = i % 2 ? static_cast<const Shape *>(&square) : &disc;
    out[i] = shape->scaled(2);
}

struct Pair {
    double sum;
    int count;
    unsigned char kind;
};

__device__ __noinline__ Pair combine(Pair a, Pair b)
{
    return {a.sum + b.sum, a.count + b.count, (unsigned char)(a.kind ^ b.kind)};
}

extern "C" __global__ void aggregates(const double *in, double *sums, int *counts)
{
    unsigned int i = threadIdx.x;
    Pair p{in[i], 1, (unsigned char)i};
    for (int k = 0; k < 3; ++k)
        p = combine(p, Pair{in[(i + k) % blockDim.x], 2, (unsigned char)k});
    sums[i] = p.sum;
    counts[i] = p.count * 256 + p.kind;
}

// An insertion sort in a local array, whose indices the compiler does not know.
extern "C" __global__ void local_sort(int n, const int *in, int *out)
{
    int own[24];
    const int *from = in + (blockIdx.x * blockDim.x + threadIdx.x) * n;
    int *to = out + (blockIdx.x * blockDim.x + threadIdx.x) * n;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
        int value = from[i], at = i;
#pragma unroll 1
        for (; at > 0 && own[at - 1] > value; --at)
            own[at] = own[at - 1];
        own[at] = value;
    }
#pragma unroll 1
    for (int i = 0; i < n; ++i)
        to[i] = own[i];
}

__device__ __noinline__ void swap(int &a, int &b)
{
    int t = a;
    a = b;
    b = t;
}

// Pointers to locals go through calls; a switch becomes a jump table.
extern "C" __global__ void dispatch(const int *ops, int count, int *out)
{
    int a = threadIdx.x, b = 1;
    for (int i = 0; i < count; ++i) {
        switch (ops[(i + threadIdx.x) % count]) {
        case 0: a += b; break;
        case 1: a -= 2 * b; break;
        case 2: swap(a, b); break;
        case 3: a ^= b << 3; break;
        case 4: b = a * 5 + b; break;
        case 5: a = (a << 7) | ((unsigned)a >> 25); break;
        case 6: b = ~b; break;
        case 7: a = a / 3 - b % 7; break;
        default: a = -a; break;
        }
    }
    out[2 * threadIdx.x] = a;
    out[2 * threadIdx.x + 1] = b;
}
