// What the assembler says about a kernel: --ptxas-options=-v.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fusetune::backend::cuda {

/// What a compiled kernel needs, known without a GPU. Zero where the log says nothing: the assembler leaves
/// out constant memory from sm_90 on, and shared memory where there is none.
struct KernelResources {
  int registers = 0;                     // 32-bit, per thread
  int barriers = 0;                      // named barriers of the block
  std::int64_t stack_frame_bytes = 0;    // per thread: its own frame, or its calls' too where known
  std::int64_t spill_store_bytes = 0;    // per thread, over the kernel's code
  std::int64_t spill_load_bytes = 0;     // per thread, over the kernel's code
  std::int64_t static_shared_bytes = 0;  // per block; dynamic shared memory is not in the log
  std::int64_t constant_bytes = 0;       // all banks: the arguments, constants
  bool operator==(const KernelResources&) const = default;
};

/// The resources of the kernel `symbol`, with the spills of functions it did not inline; nothing when the log
/// does not speak of it.
std::optional<KernelResources> parse_ptxas_log(std::string_view log, std::string_view symbol);

}  // namespace fusetune::backend::cuda
