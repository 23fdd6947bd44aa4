// The platform for AMD GPUs: the names of platform_nvidia.h for clang's HIP, written for gfx90a, float32
// only. No header is included and no HIP header is needed: compile with hipcc --offload-arch=gfx90a -x hip,
// or with clang -x hip -nogpuinc.
//
// A warp is one half of a 64-wide wavefront. There are no asynchronous copies, matrix products or 16-bit
// conversions here: the former are plain copies, a use of the others does not compile and is refused by name.
#ifndef FUSETUNE_KERNELS_CUDA_PLATFORM_H
#define FUSETUNE_KERNELS_CUDA_PLATFORM_H

#define FT_INLINE __attribute__((device, always_inline)) inline
/// Head of a kernel: FT_KERNEL(symbol, threads) { ... args ... }. Names it for tools: see ft_kernel_id.
#define FT_KERNEL(symbol, threads)                                                               \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void symbol( \
      const ft_gpu_args args)
/// The block's dynamic shared memory.
#define FT_SHARED(name) extern __attribute__((shared, aligned(128))) unsigned char name[]
#define FT_UNROLL _Pragma("unroll")
#define FT_NO_UNROLL _Pragma("unroll 1")
/// The kernel's identity as a symbol of the compiled image.
#define FT_KERNEL_ID(id) extern "C" __attribute__((device, used)) unsigned long long ft_kernel_id = id

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

FT_INLINE int thread_index() { return int(__builtin_amdgcn_workitem_id_x()); }
FT_INLINE int block_index() { return int(__builtin_amdgcn_workgroup_id_x()); }
FT_INLINE int grid_blocks() {
  return int(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
}

/// All threads of the block; their earlier writes are visible to all of them afterwards.
FT_INLINE void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/// All lanes of the warp, the same for them. A wavefront runs in step: only the order has to be kept.
FT_INLINE void warp_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/// The lane of the wavefront, 0 to 63.
FT_INLINE int wavefront_lane() {
  return int(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)));
}
FT_INLINE float wavefront_shuffle(float x, int lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, x)));
}
/// The value of lane `lane ^ mask`, of lane `source`, of the same warp.
FT_INLINE float shuffle_xor(float x, int mask) {
  return wavefront_shuffle(x, wavefront_lane() ^ (mask & 31));
}
FT_INLINE float shuffle(float x, int source) {
  return wavefront_shuffle(x, (wavefront_lane() & ~31) | (source & 31));
}

// ---------------------------------------------------------------------------------------------- numbers

FT_INLINE u32 float_bits(float x) { return __builtin_bit_cast(u32, x); }
FT_INLINE float bits_float(u32 x) { return __builtin_bit_cast(float, x); }

FT_INLINE float to_float(float x) { return x; }
FT_INLINE float to_float(f16 x) = delete;
FT_INLINE float to_float(bf16 x) = delete;

template <class T>
FT_INLINE T from_float(float x) = delete;
template <>
FT_INLINE float from_float<float>(float x) {
  return x;
}
template <class T>
FT_INLINE u32 pack_pair(float low, float high) = delete;

/// 2^x, 2 units in the last place; 0 for -infinity.
FT_INLINE float exp2_fast(float x) { return __builtin_exp2f(x); }
FT_INLINE float square_root(float x) { return __builtin_sqrtf(x); }

// -------------------------------------------------------------------------------------- matrix products

template <class T>
FT_INLINE void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) = delete;
template <class T>
FT_INLINE void ldmatrix_x4(u32 (&r)[4], const T* row) = delete;
template <class T>
FT_INLINE void ldmatrix_x4_transposed(u32 (&r)[4], const T* row) = delete;

// -------------------------------------------------------------------------------------- asynchronous copies

/// Copies Bytes (4, 8 or 16) from global to shared memory, both aligned to Bytes; zeroes where not `valid`
/// (`global` is then not read).
template <int Bytes>
FT_INLINE void copy_async(void* shared, const void* global, bool valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "copies are of 4, 8 or 16 bytes");
  typedef u32 words __attribute__((ext_vector_type(Bytes / 4)));
  *static_cast<words*>(shared) = valid ? *static_cast<const words*>(global) : words(0);
}
/// Nothing is under way: the block_sync() that follows a wait orders the copies.
FT_INLINE void copy_async_commit() {}
template <int Groups>
FT_INLINE void copy_async_wait() {}

// ------------------------------------------------------------------------------------- among blocks

FT_INLINE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
FT_INLINE u32 load_acquire(const u32* word) {
  return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
}
FT_INLINE u32 add_acquire_release(u32* word, u32 amount) {
  return __hip_atomic_fetch_add(word, amount, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}

/// All blocks of a cooperative launch; what any of them wrote before is visible to all afterwards. `word` is
/// zero before its first use; its upper bit flips with every barrier and the rest is zero again, so that any
/// number of launches on any number of blocks may follow.
FT_INLINE void grid_barrier(u32* word) {
  block_sync();
  if (thread_index() == 0) {
    constexpr u32 flip = 0x80000000u;
    device_fence();
    const u32 old = add_acquire_release(word, block_index() == 0 ? flip - u32(grid_blocks() - 1) : 1);
    while (((old ^ load_acquire(word)) & flip) == 0) __builtin_amdgcn_s_sleep(1);
    device_fence();
  }
  block_sync();
}

/// All threads of a block: adds to a counter; what the block wrote before is visible to who waits for it.
FT_INLINE void counter_add(u32* counter, u32 amount) {
  block_sync();
  if (thread_index() == 0) {
    device_fence();
    add_acquire_release(counter, amount);
  }
}
/// All threads of a block: until the counter has reached `target`. Cooperative launches only.
FT_INLINE void counter_wait(const u32* counter, u32 target) {
  if (thread_index() == 0) {
    while (load_acquire(counter) < target) __builtin_amdgcn_s_sleep(1);
    device_fence();
  }
  block_sync();
}
/// All threads of a block: true in the block that is the last of `total` to arrive, which sees what the
/// others wrote before; the counter is zero again. `flag` is a word of shared memory for the answer.
FT_INLINE bool counter_last(u32* counter, u32 total, u32* flag) {
  block_sync();
  if (thread_index() == 0) {
    device_fence();
    const bool last = add_acquire_release(counter, 1) == total - 1;
    if (last) *counter = 0;
    device_fence();
    *flag = last;
  }
  block_sync();
  const bool last = *flag != 0;
  block_sync();
  return last;
}

}  // namespace ft

#endif
