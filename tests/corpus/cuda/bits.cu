// arch: sm_75 sm_80 sm_90a -- --device-int128
// Integer intrinsics: dot products of bytes, permutations, counts, shifts, packed bytes.

extern "C" __global__ void integers(const unsigned int *in, unsigned int *out)
{
    unsigned int a = in[3 * threadIdx.x], b = in[3 * threadIdx.x + 1], c = in[3 * threadIdx.x + 2];
    unsigned int *to = out + 32 * threadIdx.x;
    to[0] = __dp4a((int)a, (int)b, (int)c);
    to[1] = __dp4a(a, b, c);
    to[2] = __dp2a_lo((int)a, (int)b, (int)c);
    to[3] = __dp2a_hi(a, b, c);
    to[4] = __byte_perm(a, b, c & 0x7777);
    to[5] = __brev(a);
    to[6] = __clz(a) * 64 + __clzll(((unsigned long long)a << 32) | b);
    to[7] = __popc(a) * 64 + __popcll(((unsigned long long)a << 32) | b);
    to[8] = __ffs(a) * 64 + __ffsll((unsigned long long)b << 32);
    to[9] = __funnelshift_l(a, b, c);
    to[10] = __funnelshift_rc(a, b, c & 63);
    to[11] = __mulhi((int)a, (int)b);
    to[12] = __umulhi(a, b);
    to[13] = __mul24((int)a, (int)b);
    to[14] = __umul24(a, b) + __sad((int)a, (int)b, c);
    to[15] = (unsigned int)__umul64hi(((unsigned long long)a << 32) | b, ((unsigned long long)b << 32) | c);
    to[16] = __rhadd((int)a, (int)b);
    to[17] = __uhadd(a, b);
    to[18] = (a & b) ^ (~c | a);
    to[19] = b == 0 ? 0 : a / b + a % b;
    to[20] = b == 0 ? 0 : (int)a / (int)(b | 1) + (int)a % (int)(b | 1);
    unsigned long long wide = ((unsigned long long)a << 32) | c;
    to[21] = (unsigned int)(wide / (b | 1ull)) ^ (unsigned int)(wide % (b | 1ull));
    to[22] = (unsigned int)((long long)wide / (long long)((int)b | 1));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(to[23]) : "r"(a), "r"(b & 31), "r"(c & 31));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(to[24]) : "r"(a), "r"(b & 31), "r"(c & 31));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(to[25]) : "r"(a), "r"(b), "r"(c & 31), "r"(b & 15));
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(to[26]) : "r"(a), "r"(b), "r"(c));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(to[27]) : "r"(a), "r"(b), "r"(c));
    asm("{ .reg .u64 t; mad.wide.u32 t, %1, %2, 7; mov.b64 {_, %0}, t; }" : "=r"(to[28]) : "r"(a), "r"(b));
    asm("szext.clamp.s32 %0, %1, %2;" : "=r"(to[29]) : "r"(a), "r"(b & 31));
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(to[30]) : "r"(a & 31), "r"(b & 31));
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(to[31]) : "r"(a | 1));
}

// Packed bytes and halfwords, which CUDA offers as functions.
extern "C" __global__ void packed(const unsigned int *in, unsigned int *out)
{
    unsigned int a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
    unsigned int *to = out + 16 * threadIdx.x;
    to[0] = __vadd4(a, b);
    to[1] = __vsub4(a, b);
    to[2] = __vabsdiffu4(a, b);
    to[3] = __vmaxs4(a, b);
    to[4] = __vminu4(a, b);
    to[5] = __vavgu4(a, b);
    to[6] = __vcmpgtu4(a, b);
    to[7] = __vadd2(a, b);
    to[8] = __vmaxs2(a, b);
    to[9] = __vsadu4(a, b);
    to[10] = __vaddss4(a, b);
    to[11] = __vsubus4(a, b);
    to[12] = __vabsss4(a);
    to[13] = __vcmpeq2(a, b);
    to[14] = __vaddus2(a, b);
    to[15] = __vabsdiffs4(a, b);
}

// Arithmetic of 128 bits: the compiler carries.
extern "C" __global__ void wide(const unsigned long long *in, unsigned long long *out)
{
    unsigned __int128 a = ((unsigned __int128)in[3 * threadIdx.x] << 64) | in[3 * threadIdx.x + 1];
    unsigned __int128 b = in[3 * threadIdx.x + 2];
    unsigned __int128 c = a * b + (a >> 17) - (b << 65);
    unsigned __int128 q = a / (b | 1);
    unsigned long long *to = out + 4 * threadIdx.x;
    to[0] = (unsigned long long)c;
    to[1] = (unsigned long long)(c >> 64);
    to[2] = (unsigned long long)q;
    to[3] = (unsigned long long)(q >> 64);
}
