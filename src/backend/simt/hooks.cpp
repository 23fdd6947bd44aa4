#include "backend/simt/hooks.h"

#include <cstring>

#include "backend/simt/access_check.h"
#include "backend/simt/access_counts.h"
#include "backend/simt/operations.h"

namespace fusetune::backend::simt {
namespace {

#define FT_RETURN_ADDRESS __builtin_return_address(0)

Stamp current_stamp() { return current_lane == nullptr ? 0 : current_lane->stamp; }

// What the compilers' thread sanitizer instrumentation calls before an access.
template <std::size_t Bytes, AccessKind kind, bool aligned>
void access(void* address) {
  const void* const pc = FT_RETURN_ADDRESS;
  check_access(address, Bytes, kind, aligned, current_stamp(), pc);
  note_shared_access(kind == AccessKind::read ? SharedAccess::Kind::load : SharedAccess::Kind::store, address,
                     Bytes, pc);
}

void read_range(void* address, std::size_t bytes) {
  check_access(address, bytes, AccessKind::read, false, current_stamp(), FT_RETURN_ADDRESS);
}

void write_range(void* address, std::size_t bytes) {
  check_access(address, bytes, AccessKind::write, false, current_stamp(), FT_RETURN_ADDRESS);
}

void* copy(void* to, const void* from, std::size_t bytes) {
  const void* const pc = FT_RETURN_ADDRESS;
  check_access(from, bytes, AccessKind::read, false, current_stamp(), pc);
  check_access(to, bytes, AccessKind::write, false, current_stamp(), pc);
  return std::memmove(to, from, bytes);
}

void* set(void* to, int value, std::size_t bytes) {
  check_access(to, bytes, AccessKind::write, false, current_stamp(), FT_RETURN_ADDRESS);
  return std::memset(to, value, bytes);
}

void nothing() {}

template <class Function>
Hook hook(const char* name, Function* function) {
  return {name, reinterpret_cast<const void*>(function), false};
}

template <class Function>
Hook checked_hook(const char* name, Function* function) {
  return {name, reinterpret_cast<const void*>(function), true};
}

constexpr AccessKind kRead = AccessKind::read;
constexpr AccessKind kWrite = AccessKind::write;

const Hook kHooks[] = {
    hook("ft_simt_thread_index", &operations::thread_index),
    hook("ft_simt_block_index", &operations::block_index),
    hook("ft_simt_grid_blocks", &operations::grid_blocks),
    hook("ft_simt_shared_memory", &operations::shared_memory),
    hook("ft_simt_block_sync", &operations::block_sync),
    hook("ft_simt_warp_sync", &operations::warp_sync),
    hook("ft_simt_shuffle_xor", &operations::shuffle_xor),
    hook("ft_simt_shuffle", &operations::shuffle_from),
    hook("ft_simt_mma_f16", &operations::mma_f16),
    hook("ft_simt_mma_bf16", &operations::mma_bf16),
    hook("ft_simt_ldmatrix", &operations::ldmatrix),
    hook("ft_simt_ldmatrix_transposed", &operations::ldmatrix_transposed),
    hook("ft_simt_copy_async", &operations::copy_async),
    hook("ft_simt_copy_async_commit", &operations::copy_async_commit),
    hook("ft_simt_copy_async_wait", &operations::copy_async_wait),
    hook("ft_simt_grid_barrier", &operations::grid_barrier),
    hook("ft_simt_counter_add", &operations::counter_add),
    hook("ft_simt_counter_wait", &operations::counter_wait),
    hook("ft_simt_counter_last", &operations::counter_last),

    checked_hook("__tsan_init", &nothing),
    checked_hook("__tsan_func_entry", &nothing),
    checked_hook("__tsan_func_exit", &nothing),
    checked_hook("__tsan_read1", &access<1, kRead, true>),
    checked_hook("__tsan_read2", &access<2, kRead, true>),
    checked_hook("__tsan_read4", &access<4, kRead, true>),
    checked_hook("__tsan_read8", &access<8, kRead, true>),
    checked_hook("__tsan_read16", &access<16, kRead, true>),
    checked_hook("__tsan_write1", &access<1, kWrite, true>),
    checked_hook("__tsan_write2", &access<2, kWrite, true>),
    checked_hook("__tsan_write4", &access<4, kWrite, true>),
    checked_hook("__tsan_write8", &access<8, kWrite, true>),
    checked_hook("__tsan_write16", &access<16, kWrite, true>),
    checked_hook("__tsan_unaligned_read2", &access<2, kRead, false>),
    checked_hook("__tsan_unaligned_read4", &access<4, kRead, false>),
    checked_hook("__tsan_unaligned_read8", &access<8, kRead, false>),
    checked_hook("__tsan_unaligned_read16", &access<16, kRead, false>),
    checked_hook("__tsan_unaligned_write2", &access<2, kWrite, false>),
    checked_hook("__tsan_unaligned_write4", &access<4, kWrite, false>),
    checked_hook("__tsan_unaligned_write8", &access<8, kWrite, false>),
    checked_hook("__tsan_unaligned_write16", &access<16, kWrite, false>),
    checked_hook("__tsan_read_range", &read_range),
    checked_hook("__tsan_write_range", &write_range),
    checked_hook("__tsan_memcpy", &copy),
    checked_hook("__tsan_memmove", &copy),
    checked_hook("__tsan_memset", &set),
    // Compilers also call these for copies of large objects, without saying so before.
    checked_hook("memcpy", &copy),
    checked_hook("memmove", &copy),
    checked_hook("memset", &set),
};

}  // namespace

std::span<const Hook> hooks() { return kHooks; }

}  // namespace fusetune::backend::simt
