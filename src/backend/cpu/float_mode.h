// Floating-point mode of a thread while kernels run.
#pragma once

#include <cstdint>

namespace fusetune::backend::cpu {

/// Makes this thread treat denormal numbers as zero (FTZ and DAZ on x86, FZ on Arm) for the object's life,
/// then restores the mode it found. Denormals would make a softmax times V 30 times slower, and the caller's
/// own arithmetic must not notice. Construct and destroy on one thread.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(read()) { write(saved_ | kFlush); }
  ~FlushDenormals() { write(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word kFlush = 0x8040;  // MXCSR: FTZ (bit 15), DAZ (bit 6)
  static Word read() { return __builtin_ia32_stmxcsr(); }
  static void write(Word word) { __builtin_ia32_ldmxcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kFlush = Word{1} << 24;  // FPCR: FZ
  static Word read() {
    Word word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = unsigned;
  static constexpr Word kFlush = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif

 private:
  Word saved_;
};

}  // namespace fusetune::backend::cpu
