// The platform for the emulator (src/backend/simt): the names of platform_nvidia.h for g++ and clang++ as
// C++17, on the CPU. What a GPU does for a warp, a block or the grid is a call of the emulator, with the
// statement's place in the source for its findings.
//
// Not here, because only platform_nvidia.h itself needs them: shared_address, load_acquire,
// add_acquire_release. A kernel that uses them would wait on other blocks in a way of its own.
#ifndef FUSETUNE_KERNELS_CUDA_PLATFORM_H
#define FUSETUNE_KERNELS_CUDA_PLATFORM_H

#define FT_INLINE inline __attribute__((always_inline))
/// Head of a kernel: FT_KERNEL(symbol, threads) { ... args ... }.
#define FT_KERNEL(symbol, threads)                                              \
  extern "C" __attribute__((visibility("default"))) const int symbol##_threads; \
  const int symbol##_threads = threads;                                         \
  extern "C" __attribute__((visibility("default"), noinline)) void symbol(const ft_gpu_args& args)
/// The block's dynamic shared memory.
#define FT_SHARED(name) unsigned char* const name = static_cast<unsigned char*>(ft_simt_shared_memory())
#define FT_UNROLL
#define FT_NO_UNROLL
/// Only images for a driver are recognised by a symbol; several kernels share a library here.
#define FT_KERNEL_ID(id) static_assert(true, "")

extern "C" {
// Constant for a thread's whole life: the compiler may call once, or not again after a barrier.
__attribute__((const)) int ft_simt_thread_index();
__attribute__((const)) int ft_simt_block_index();
__attribute__((const)) int ft_simt_grid_blocks();
__attribute__((const)) void* ft_simt_shared_memory();

void ft_simt_block_sync(int line, const char* file);
void ft_simt_warp_sync(int line, const char* file);
unsigned ft_simt_shuffle_xor(unsigned value, int mask, int line, const char* file);
unsigned ft_simt_shuffle(unsigned value, int source, int line, const char* file);
void ft_simt_mma_f16(float* d, const unsigned* a, unsigned b0, unsigned b1, int line, const char* file);
void ft_simt_mma_bf16(float* d, const unsigned* a, unsigned b0, unsigned b1, int line, const char* file);
void ft_simt_ldmatrix(unsigned* r, const void* row, int line, const char* file);
void ft_simt_ldmatrix_transposed(unsigned* r, const void* row, int line, const char* file);
void ft_simt_copy_async(void* shared, const void* global, int bytes, int valid, int line, const char* file);
void ft_simt_copy_async_commit();
void ft_simt_copy_async_wait(int groups, int line, const char* file);
void ft_simt_grid_barrier(unsigned* word, int line, const char* file);
void ft_simt_counter_add(unsigned* counter, unsigned amount, int line, const char* file);
void ft_simt_counter_wait(const unsigned* counter, unsigned target, int line, const char* file);
int ft_simt_counter_last(unsigned* counter, unsigned total, unsigned* flag, int line, const char* file);

// What kernels may use of CUDA's mathematics.
float sqrtf(float);
float expf(float);
float exp2f(float);
float logf(float);
float tanhf(float);
float erff(float);
float fabsf(float);
float fminf(float, float);
float fmaxf(float, float);
float fmaf(float, float, float);
}

/// Last parameters of every operation: the place of the call.
#define FT_SIMT_HERE int line = __builtin_LINE(), const char *file = __builtin_FILE()

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

// ---------------------------------------------------------------------------------------------- numbers

FT_INLINE u32 float_bits(float x) {
  u32 bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
FT_INLINE float bits_float(u32 x) {
  float value;
  __builtin_memcpy(&value, &x, sizeof(value));
  return value;
}

/// The conversions without F16C, always compiled so that tests can compare the two.
namespace software {

FT_INLINE float half_to_float(u16 half) {
  const u32 sign = u32(half & 0x8000u) << 16;
  const u32 magnitude = u32(half & 0x7fffu) << 13;  // exponent still biased by 15
  if (magnitude >= 0x0f800000u) {                   // infinity, NaN (made quiet)
    const u32 quiet = magnitude > 0x0f800000u ? 0x00400000u : 0;
    return bits_float(sign | 0x70000000u | magnitude | quiet);
  }
  constexpr u32 two_to_112 = 0x77800000u;
  return bits_float(sign | float_bits(bits_float(magnitude) * bits_float(two_to_112)));
}

FT_INLINE u16 float_to_half(float x) {
  const u32 bits = float_bits(x);
  const u32 sign = (bits >> 16) & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x47800000u) return u16(sign | 0x7c00u);  // 65536 and more: infinity
  if (magnitude < 0x38800000u) {                             // below 2^-14: subnormal, unit 2^-24
    // Adding 0.5 puts the unit of the sum at 2^-24, and the addition rounds to nearest even.
    return u16(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u));
  }
  const u32 rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return u16(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace software

FT_INLINE float to_float(float x) { return x; }
FT_INLINE float to_float(f16 x) {
#ifdef __F16C__
  typedef short halves __attribute__((vector_size(16)));
  const halves input = {short(x.bits), 0, 0, 0, 0, 0, 0, 0};
  return __builtin_ia32_vcvtph2ps(input)[0];
#else
  return software::half_to_float(x.bits);
#endif
}
FT_INLINE float to_float(bf16 x) { return bits_float(u32(x.bits) << 16); }

/// Rounds to nearest even; every NaN becomes 0x7fff, as on the GPU.
template <class T>
FT_INLINE T from_float(float x);
template <>
FT_INLINE float from_float<float>(float x) {
  return x;
}
template <>
FT_INLINE f16 from_float<f16>(float x) {
  if (x != x) return f16{0x7fff};
#ifdef __F16C__
  typedef float floats __attribute__((vector_size(16)));
  const floats input = {x, 0, 0, 0};
  return f16{u16(__builtin_ia32_vcvtps2ph(input, 0)[0])};
#else
  return f16{software::float_to_half(x)};
#endif
}
template <>
FT_INLINE bf16 from_float<bf16>(float x) {
  if (x != x) return bf16{0x7fff};
  const u32 bits = float_bits(x);
  return bf16{u16((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Two values in one register, `low` in the lower half.
template <class T>
FT_INLINE u32 pack_pair(float low, float high) {
  return u32(from_float<T>(low).bits) | u32(from_float<T>(high).bits) << 16;
}

/// 2^x; subnormal results are 0.
FT_INLINE float exp2_fast(float x) {
  const float result = exp2f(x);
  return result < bits_float(0x00800000u) ? 0.0f : result;
}
FT_INLINE float square_root(float x) { return sqrtf(x); }

// ---------------------------------------------------------------------------------------------- threads

FT_INLINE int thread_index() { return ft_simt_thread_index(); }
FT_INLINE int block_index() { return ft_simt_block_index(); }
FT_INLINE int grid_blocks() { return ft_simt_grid_blocks(); }

/// All threads of the block; their earlier writes are visible to all of them afterwards.
FT_INLINE void block_sync(FT_SIMT_HERE) { ft_simt_block_sync(line, file); }
/// All lanes of the warp, the same for them.
FT_INLINE void warp_sync(FT_SIMT_HERE) { ft_simt_warp_sync(line, file); }
/// The value of lane `lane ^ mask`, of lane `source`.
FT_INLINE float shuffle_xor(float x, int mask, FT_SIMT_HERE) {
  return bits_float(ft_simt_shuffle_xor(float_bits(x), mask, line, file));
}
FT_INLINE float shuffle(float x, int source, FT_SIMT_HERE) {
  return bits_float(ft_simt_shuffle(float_bits(x), source, line, file));
}

// -------------------------------------------------------------------------------------- matrix products

/// d += a * b: m16n8k16, fragments laid out as PTX's mma.sync prescribes.
template <class T>
FT_INLINE void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, FT_SIMT_HERE);
template <>
FT_INLINE void mma_16x8x16<f16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, int line,
                                const char* file) {
  ft_simt_mma_f16(d, a, b0, b1, line, file);
}
template <>
FT_INLINE void mma_16x8x16<bf16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, int line,
                                 const char* file) {
  ft_simt_mma_bf16(d, a, b0, b1, line, file);
}

/// Four 8 x 8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i, 16-byte
/// aligned in shared memory.
template <class T>
FT_INLINE void ldmatrix_x4(u32 (&r)[4], const T* row, FT_SIMT_HERE) {
  ft_simt_ldmatrix(r, row, line, file);
}
/// The same, each matrix transposed.
template <class T>
FT_INLINE void ldmatrix_x4_transposed(u32 (&r)[4], const T* row, FT_SIMT_HERE) {
  ft_simt_ldmatrix_transposed(r, row, line, file);
}

// -------------------------------------------------------------------------------------- asynchronous copies

/// Copies Bytes (4, 8 or 16) from global to shared memory, both aligned to Bytes; zeroes where not `valid`
/// (`global` is then not read, but must be an address of the buffer). Until the wait, the destination holds
/// a poison pattern.
template <int Bytes>
FT_INLINE void copy_async(void* shared, const void* global, bool valid, FT_SIMT_HERE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  ft_simt_copy_async(shared, global, Bytes, valid, line, file);
}
/// Closes the group of copies this thread has begun.
FT_INLINE void copy_async_commit() { ft_simt_copy_async_commit(); }
/// Until all but this thread's last Groups groups have arrived; block_sync() then shows them to the others.
template <int Groups>
FT_INLINE void copy_async_wait(FT_SIMT_HERE) {
  ft_simt_copy_async_wait(Groups, line, file);
}

// ------------------------------------------------------------------------------------- among blocks

/// All blocks of a cooperative launch; what any of them wrote before is visible to all afterwards. `word` is
/// zero before its first use; its upper bit flips with every barrier and the rest is zero again.
FT_INLINE void grid_barrier(u32* word, FT_SIMT_HERE) { ft_simt_grid_barrier(word, line, file); }

/// All threads of a block: adds to a counter; what the block wrote before is visible to who waits for it.
FT_INLINE void counter_add(u32* counter, u32 amount, FT_SIMT_HERE) {
  ft_simt_counter_add(counter, amount, line, file);
}
/// All threads of a block: until the counter has reached `target`. Cooperative launches only.
FT_INLINE void counter_wait(const u32* counter, u32 target, FT_SIMT_HERE) {
  ft_simt_counter_wait(counter, target, line, file);
}
/// All threads of a block: true in the block that is the last of `total` to arrive, which sees what the
/// others wrote before; the counter is zero again. `flag` is a word of shared memory for the answer.
FT_INLINE bool counter_last(u32* counter, u32 total, u32* flag, FT_SIMT_HERE) {
  return ft_simt_counter_last(counter, total, flag, line, file) != 0;
}

}  // namespace ft

#undef FT_SIMT_HERE

#endif
