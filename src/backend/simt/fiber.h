// One GPU thread's stack and registers.
#pragma once

#include <cstddef>
#include <memory>

#include <boost/context/detail/fcontext.hpp>

namespace fusetune::backend::simt {

/// A context that can be left and entered again: a GPU thread, or the scheduler itself.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const unsigned char* stack_begin = nullptr;  // lowest address; of the scheduler: learnt when it is left
  std::size_t stack_bytes = 0;
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
#endif
};

/// Makes `fiber` start at `entry` when it is first entered. `offset` lowers the top of the stack: stacks
/// whose tops differ do not compete for the same cache sets.
void prepare_fiber(Fiber& fiber, unsigned char* stack, std::size_t stack_bytes, std::size_t offset,
                   void (*entry)());

/// Leaves `from`, which is running, and enters `to`; returns when somebody enters `from` again.
void switch_fiber(Fiber& from, Fiber& to);

/// Stacks for many fibers, each below a guard page. The memory is reserved once and committed as it is used.
class StackPool {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;  // usable; the guard page comes on top

  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// At least `count` stacks. Throws base::EnvironmentError when there is no address space.
  void reserve(std::size_t count);
  /// Lowest usable address of a stack.
  unsigned char* stack(std::size_t index) const;
  bool contains(const void* address) const;
  /// Gives the memory of unusually many stacks back to the system.
  void trim();

 private:
  void release();

  unsigned char* memory_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace fusetune::backend::simt
