// The operations of the platform (kernels/cuda/platform_simt.h declares them for kernels). Each is called by
// the running thread; its return address is in the kernel. Internal to the emulator.
#pragma once

#include <cstdint>

namespace fusetune::backend::simt::operations {

int thread_index();
int block_index();
int grid_blocks();
void* shared_memory();

void block_sync(int line, const char* file);
void warp_sync(int line, const char* file);
std::uint32_t shuffle_xor(std::uint32_t value, int mask, int line, const char* file);
std::uint32_t shuffle_from(std::uint32_t value, int source, int line, const char* file);
void mma_f16(float* d, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, int line,
             const char* file);
void mma_bf16(float* d, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, int line,
              const char* file);
void ldmatrix(std::uint32_t* r, const void* row, int line, const char* file);
void ldmatrix_transposed(std::uint32_t* r, const void* row, int line, const char* file);

void copy_async(void* shared, const void* global, int bytes, int valid, int line, const char* file);
void copy_async_commit();
void copy_async_wait(int groups, int line, const char* file);

void grid_barrier(std::uint32_t* word, int line, const char* file);
void counter_add(std::uint32_t* word, std::uint32_t amount, int line, const char* file);
void counter_wait(const std::uint32_t* word, std::uint32_t target, int line, const char* file);
int counter_last(std::uint32_t* word, std::uint32_t total, std::uint32_t* flag, int line, const char* file);

}  // namespace fusetune::backend::simt::operations

namespace fusetune::backend::simt {

struct Lane;
struct Machine;
struct Block;

/// Checks that a thread may end here, and ends it: called when the kernel has returned. Does not return.
[[noreturn]] void exit_thread(Lane& lane);

/// The stamps of a block's threads, after one of the counts in them has changed.
void restamp(const Machine& machine, Block& block);

}  // namespace fusetune::backend::simt
