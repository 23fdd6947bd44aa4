// The platform for CUDA: everything that is not plain C++ (NVRTC and nvcc, sm_80 and newer). No header is
// included; all PTX of the project is in this file.
//
// platform_hip.h and platform_simt.h offer the same names for AMD GPUs and for the emulator. Kernels use
// nothing else of a platform. Rules that keep them portable: 1-D blocks of a multiple of 32 threads, no lane
// leaves before a collective, all threads of a block meet at the same block_sync(), dynamic shared memory
// only, waiting on other blocks only through grid_barrier() and the counters below.
#ifndef FUSETUNE_KERNELS_CUDA_PLATFORM_H
#define FUSETUNE_KERNELS_CUDA_PLATFORM_H

#define FT_INLINE __device__ __forceinline__
/// Head of a kernel: FT_KERNEL(symbol, threads) { ... args ... }. Names it for tools: see ft_kernel_id.
#define FT_KERNEL(symbol, threads) \
  extern "C" __global__ void __launch_bounds__(threads) symbol(const __grid_constant__ ft_gpu_args args)
/// The block's dynamic shared memory.
#define FT_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define FT_UNROLL _Pragma("unroll")
#define FT_NO_UNROLL _Pragma("unroll 1")
/// The kernel's identity as a symbol of the compiled image.
#define FT_KERNEL_ID(id) extern "C" __device__ unsigned long long ft_kernel_id = id

namespace ft {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct alignas(8) float_pair {
  float x, y;
};
struct alignas(16) float_quad {
  float x, y, z, w;
};

// ---------------------------------------------------------------------------------------------- threads

FT_INLINE int thread_index() { return int(threadIdx.x); }
FT_INLINE int block_index() { return int(blockIdx.x); }
FT_INLINE int grid_blocks() { return int(gridDim.x); }

/// All threads of the block; their earlier writes are visible to all of them afterwards.
FT_INLINE void block_sync() { __syncthreads(); }
/// All lanes of the warp, the same for them.
FT_INLINE void warp_sync() { __syncwarp(); }
/// The value of lane `lane ^ mask`, of lane `source`.
FT_INLINE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask, 32); }
FT_INLINE float shuffle(float x, int source) { return __shfl_sync(0xffffffffu, x, source, 32); }

// ---------------------------------------------------------------------------------------------- numbers

FT_INLINE u32 float_bits(float x) { return __float_as_uint(x); }
FT_INLINE float bits_float(u32 x) { return __uint_as_float(x); }

FT_INLINE float to_float(float x) { return x; }
FT_INLINE float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
FT_INLINE float to_float(bf16 x) { return bits_float(u32(x.bits) << 16); }

/// Rounds to nearest even.
template <class T>
FT_INLINE T from_float(float x);
template <>
FT_INLINE float from_float<float>(float x) {
  return x;
}
template <>
FT_INLINE f16 from_float<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <>
FT_INLINE bf16 from_float<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

/// Two values in one register, `low` in the lower half.
template <class T>
FT_INLINE u32 pack_pair(float low, float high);
template <>
FT_INLINE u32 pack_pair<f16>(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
FT_INLINE u32 pack_pair<bf16>(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 2^x, 2 units in the last place; 0 for -infinity, subnormal results are 0.
FT_INLINE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FT_INLINE float square_root(float x) { return __fsqrt_rn(x); }

// -------------------------------------------------------------------------------------- matrix products

/// d += a * b on the tensor cores: m16n8k16, fragments laid out as PTX's mma.sync prescribes.
template <class T>
FT_INLINE void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
FT_INLINE void mma_16x8x16<f16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
FT_INLINE void mma_16x8x16<bf16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

FT_INLINE u32 shared_address(const void* shared) {
  return static_cast<u32>(__cvta_generic_to_shared(shared));
}

/// Four 8 x 8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i, 16-byte
/// aligned in shared memory.
template <class T>
FT_INLINE void ldmatrix_x4(u32 (&r)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same, each matrix transposed.
template <class T>
FT_INLINE void ldmatrix_x4_transposed(u32 (&r)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// -------------------------------------------------------------------------------------- asynchronous copies

/// Copies Bytes (4, 8 or 16) from global to shared memory, both aligned to Bytes; zeroes where not `valid`
/// (`global` is then not read, but must be an address of the buffer).
template <int Bytes>
FT_INLINE void copy_async(void* shared, const void* global, bool valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "n"(Bytes), "r"(valid ? Bytes : 0)
                 : "memory");
}
/// Closes the group of copies this thread has begun.
FT_INLINE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until all but this thread's last Groups groups have arrived; block_sync() then shows them to the others.
template <int Groups>
FT_INLINE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

// ------------------------------------------------------------------------------------- among blocks

FT_INLINE u32 load_acquire(const u32* word) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
FT_INLINE u32 add_acquire_release(u32* word, u32 amount) {
  u32 old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(word), "r"(amount)
               : "memory");
  return old;
}

/// All blocks of a cooperative launch; what any of them wrote before is visible to all afterwards. `word` is
/// zero before its first use; its upper bit flips with every barrier and the rest is zero again, so that any
/// number of launches on any number of blocks may follow.
FT_INLINE void grid_barrier(u32* word) {
  __syncthreads();
  if (threadIdx.x == 0) {
    constexpr u32 flip = 0x80000000u;
    __threadfence();
    const u32 old = add_acquire_release(word, blockIdx.x == 0 ? flip - (gridDim.x - 1) : 1);
    while (((old ^ load_acquire(word)) & flip) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}

/// All threads of a block: adds to a counter; what the block wrote before is visible to who waits for it.
FT_INLINE void counter_add(u32* counter, u32 amount) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    add_acquire_release(counter, amount);
  }
}
/// All threads of a block: until the counter has reached `target`. Cooperative launches only.
FT_INLINE void counter_wait(const u32* counter, u32 target) {
  if (threadIdx.x == 0) {
    while (load_acquire(counter) < target) {
    }
    __threadfence();
  }
  __syncthreads();
}
/// All threads of a block: true in the block that is the last of `total` to arrive, which sees what the
/// others wrote before; the counter is zero again. `flag` is a word of shared memory for the answer.
FT_INLINE bool counter_last(u32* counter, u32 total, u32* flag) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const bool last = add_acquire_release(counter, 1) == total - 1;
    if (last) *counter = 0;
    __threadfence();
    *flag = last;
  }
  __syncthreads();
  const bool last = *flag != 0;
  __syncthreads();
  return last;
}

}  // namespace ft

#endif
