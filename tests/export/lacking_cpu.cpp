// Compiled by the test with the sources of a bundle that needs AVX-512: what it says on lesser CPUs.
#include <cstdio>
#include <cstring>

#include "internal.h"

static int refused(unsigned features, const char* words) {
  enc_block* block = nullptr;
  const int status = enc_create_on(features, ENC_ABI_VERSION, 1, &block);
  if (status == ENC_UNSUPPORTED_CPU && block == nullptr && std::strstr(enc_error(), words)) return 0;
  std::printf("features %x: status %d, '%s'\n", features, status, enc_error());
  return 1;
}

int main() {
  int failures =
      refused(0, "lacks avx2 fma f16c bmi bmi2 popcnt avx512f avx512bw avx512dq avx512vl avx512cd");
  failures += refused(0x3f, "lacks avx512f avx512bw avx512dq avx512vl avx512cd:");
  failures += refused(0x7fe, "lacks avx2:");
  enc_block* block = nullptr;
  failures += enc_create_on(0x7ff, ENC_ABI_VERSION, 1, &block) != ENC_OK;
  enc_destroy(block);
  return failures;
}
