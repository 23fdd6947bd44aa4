#include "backend/simt/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fusetune::backend::simt {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kStride = StackPool::kStackBytes + kGuardBytes;
constexpr std::size_t kKeptStacks = 2048;  // 32 MB if all are touched down to 16 KB

/// One switch: who was left, and who is entered.
struct Transition {
  Fiber* from;
  Fiber* to;
};

void announce_switch([[maybe_unused]] Fiber& from, [[maybe_unused]] const Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_begin, to.stack_bytes);
#endif
}

/// In the entered fiber: remembers where the one that was left goes on.
void complete_switch(transfer_t transfer) {
  const Transition transition = *static_cast<const Transition*>(transfer.data);
  transition.from->context = transfer.fctx;
#ifdef __SANITIZE_ADDRESS__
  const void* left_bottom = nullptr;
  std::size_t left_bytes = 0;
  __sanitizer_finish_switch_fiber(transition.to->fake_stack, &left_bottom, &left_bytes);
  transition.from->stack_begin = static_cast<const unsigned char*>(left_bottom);
  transition.from->stack_bytes = left_bytes;
#endif
}

void (*fiber_entry)() = nullptr;  // the same for all fibers: a switch passes one pointer only

void start(transfer_t transfer) {
  complete_switch(transfer);
  fiber_entry();
}

}  // namespace

void prepare_fiber(Fiber& fiber, unsigned char* stack, std::size_t stack_bytes, std::size_t offset,
                   void (*entry)()) {
  fiber_entry = entry;
  fiber.stack_begin = stack;
  fiber.stack_bytes = stack_bytes;
#ifdef __SANITIZE_ADDRESS__
  fiber.fake_stack = nullptr;
  ASAN_UNPOISON_MEMORY_REGION(stack, stack_bytes);  // of fibers that were never entered again
#endif
  fiber.context = make_fcontext(stack + stack_bytes - offset, stack_bytes - offset, &start);
}

void switch_fiber(Fiber& from, Fiber& to) {
  Transition transition{&from, &to};
  announce_switch(from, to);
  complete_switch(jump_fcontext(to.context, &transition));
}

StackPool::~StackPool() { release(); }

void StackPool::release() {
  if (memory_ != nullptr) munmap(memory_, count_ * kStride);
  memory_ = nullptr;
  count_ = 0;
}

void StackPool::reserve(std::size_t count) {
  if (count <= count_) return;
  release();
  void* memory = mmap(nullptr, count * kStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw base::EnvironmentError("cannot reserve " + std::to_string(count * kStride >> 20) +
                                 " MiB for the stacks of " + std::to_string(count) +
                                 " GPU threads: " + std::generic_category().message(errno) +
                                 "; launch fewer blocks, or raise `ulimit -v`");
  }
  memory_ = static_cast<unsigned char*>(memory);
  count_ = count;
  for (std::size_t i = 0; i < count; ++i) mprotect(memory_ + i * kStride, kGuardBytes, PROT_NONE);
}

unsigned char* StackPool::stack(std::size_t index) const { return memory_ + index * kStride + kGuardBytes; }

bool StackPool::contains(const void* address) const {
  return static_cast<std::size_t>(static_cast<const unsigned char*>(address) - memory_) < count_ * kStride;
}

void StackPool::trim() {
  if (count_ > kKeptStacks) release();
}

}  // namespace fusetune::backend::simt
