// Source of nvcc.ptx (`nvcc -arch=sm_90a -ptx -lineinfo`) and nvcc_debug.ptx (`-G`).
#include <cstdio>
__constant__ float table[4] = {1.f,2.f,3.f,4.f};
__device__ int counter = 7;
__device__ int *ptr = &counter;
extern __shared__ float dyn[];
typedef float (*fn)(float);
__device__ __noinline__ float sq(float x){return x*x;}
__device__ __noinline__ float cu(float x){return x*x*x;}
__device__ fn fns[2]={sq,cu};
struct P{int a; double b; char c[5];};
__global__ void __launch_bounds__(128,2) k(float*__restrict__ o,const float*__restrict__ i,P p,int n){
  int t=blockIdx.x*blockDim.x+threadIdx.x;
  __shared__ float s[128];
  s[threadIdx.x]=t<n?i[t]:0; __syncthreads();
  float v=s[127-threadIdx.x]*table[t&3]+dyn[t&7];
  v=fns[t&1](v);
  if(t==0) printf("hello %d %f\n",p.a,v);
  switch(p.a){case 0:v+=1;break;case 1:v*=3;break;case 2:v=sinf(v);break;case 3:v=expf(v);break;case 4: v=powf(v,p.b);break; case 5: v=(float)counter;break;}
  v+=__shfl_xor_sync(~0u,v,4);
  atomicAdd(&counter,1);
  if(t<n) o[t]=v;
}
