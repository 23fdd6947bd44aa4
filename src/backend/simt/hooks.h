// The functions that a kernel library calls: the platform's operations, and in checked libraries one per
// access to memory. Internal to the emulator.
//
// A library does not find them by name in the program, which would need to export them and would clash with
// the sanitizer runtime whose names they have. Instead each library gets a table of pointers and, per hook, a
// symbol of its own that jumps through it (kernel_library.cpp). The jump leaves the return address alone: a
// hook's return address is in the kernel, where findings look for the source line.
#pragma once

#include <span>

namespace fusetune::backend::simt {

/// A library's symbol for its table: hooks().size() pointers.
inline constexpr const char* kHookTable = "ft_simt_table";
/// Its symbols around the jumps, which no line table knows.
inline constexpr const char* kHooksBegin = "ft_simt_hooks_begin";
inline constexpr const char* kHooksEnd = "ft_simt_hooks_end";

struct Hook {
  const char* name;  // the symbol in the library
  const void* function;
  bool checked_only;  // fast libraries use the C library's
};
/// The order is the order of the table.
std::span<const Hook> hooks();

}  // namespace fusetune::backend::simt
