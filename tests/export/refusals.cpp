// Compiled by the test against an exported bundle named `enc`: every refusal by its code and its words, and
// what must give the same output as a plain run.
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "data.h"
#include "enc.h"

static int failures = 0;

static void expect(int status, int want, const char* words, const char* what) {
  const bool right = status == want && (want == ENC_OK || std::strstr(enc_error(), words) != nullptr);
  if (right) return;
  ++failures;
  std::printf("%s: status %d, expected %d; error '%s', expected '%s'\n", what, status, want, enc_error(),
              words);
}

static void expect_same(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
  ++failures;
  std::printf("%s: another output\n", what);
}

/// MXCSR where there is one: a run must leave it as it was.
static unsigned mode() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3fu;  // without the exception flags, which arithmetic sets
#else
  return 0;
#endif
}

int main() {
  constexpr int kThreads = 2;
  constexpr std::int64_t kFloats = std::int64_t{ENC_TOKENS} * ENC_HIDDEN;
  std::vector<std::vector<float>> tensors;
  std::vector<enc_input> in;
  for (int stream = 0; stream < 13; ++stream) {
    tensors.push_back(data::make(stream));
    const data::Tensor& t = data::kTensors[stream];
    in.push_back({tensors.back().data(), t.rows, t.columns, t.columns});
  }
  const enc_weights weights = {in[1], in[2], in[3], in[4],  in[5],  in[6],
                               in[7], in[8], in[9], in[10], in[11], in[12]};
  std::vector<float> result(kFloats), first, other(kFloats + 1);
  enc_output out = {result.data(), ENC_TOKENS, ENC_HIDDEN, ENC_HIDDEN};
  const size_t bytes = enc_workspace_bytes(kThreads);
  char* const memory = static_cast<char*>(aligned_alloc(64, bytes + 64));

  enc_block *block = nullptr, *second = nullptr;
  expect(enc_create(99, 1, &block), ENC_WRONG_ABI, "version 99", "ABI");
  expect(enc_create(ENC_ABI_VERSION, 0, &block), ENC_WRONG_SIZE, "0 threads", "no threads");
  expect(enc_create(ENC_ABI_VERSION, 100000, &block), ENC_WRONG_SIZE, "100000 threads", "too many threads");
  expect(enc_create(ENC_ABI_VERSION, 1, nullptr), ENC_NULL_POINTER, "block is NULL",
         "no place for the block");
  expect(enc_create(ENC_ABI_VERSION, kThreads, &block), ENC_OK, "", "create");
  expect(enc_run(block, &in[0], &out, memory, bytes), ENC_NO_WEIGHTS, "enc_set_weights", "no weights");
  expect(enc_set_weights(nullptr, &weights), ENC_NULL_POINTER, "block is NULL", "weights without a block");
  expect(enc_set_weights(block, nullptr), ENC_NULL_POINTER, "weights is NULL", "no weights");
  enc_weights bad = weights;
  bad.w_ffn1.data = nullptr;
  expect(enc_set_weights(block, &bad), ENC_NULL_POINTER, "w_ffn1: data is NULL", "NULL weight");
  bad = weights;
  bad.b_out.columns -= 1;
  expect(enc_set_weights(block, &bad), ENC_WRONG_SIZE, "b_out: 1 x", "short vector");
  bad = weights;
  bad.w_qkv.row_stride += 8;
  expect(enc_set_weights(block, &bad), ENC_NOT_CONTIGUOUS, "w_qkv: row stride", "gaps");
  expect(enc_run(block, &in[0], &out, memory, bytes), ENC_NO_WEIGHTS, "enc_set_weights", "still no weights");
  expect(enc_set_weights(block, &weights), ENC_OK, "", "set_weights");

  expect(enc_run(nullptr, &in[0], &out, memory, bytes), ENC_NULL_POINTER, "block is NULL",
         "run without a block");
  expect(enc_run(block, nullptr, &out, memory, bytes), ENC_NULL_POINTER, "hidden is NULL", "no input");
  expect(enc_run(block, &in[0], nullptr, memory, bytes), ENC_NULL_POINTER, "output is NULL", "no output");
  expect(enc_run(block, &in[0], &out, nullptr, bytes), ENC_NULL_POINTER, "workspace is NULL", "no workspace");
  expect(enc_run(block, &in[0], &out, memory, bytes - 1), ENC_SHORT_WORKSPACE,
         "workspace:", "short workspace");
  expect(enc_run(block, &in[0], &out, memory + 4, bytes), ENC_UNALIGNED, "multiple of 64",
         "unaligned workspace");
  enc_input odd = in[0];
  odd.rows += 1;
  expect(enc_run(block, &odd, &out, memory, bytes), ENC_WRONG_SIZE, "hidden:", "wrong rows");
  odd = in[0];
  odd.row_stride = odd.columns + 1;
  expect(enc_run(block, &odd, &out, memory, bytes), ENC_NOT_CONTIGUOUS, "hidden:", "gaps in the input");
  odd = in[0];
  odd.data = reinterpret_cast<const float*>(reinterpret_cast<const char*>(odd.data) + 1);
  expect(enc_run(block, &odd, &out, memory, bytes), ENC_UNALIGNED, "hidden:", "odd address");
  odd = in[0];
  odd.data = result.data() + 1;
  expect(enc_run(block, &odd, &out, memory, bytes), ENC_OVERLAP, "hidden and output", "overlap");
  enc_output bent = out;
  bent.rows -= 1;
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_WRONG_SIZE, "output:", "wrong rows of output");
  bent = out;
  bent.columns += 1;
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_WRONG_SIZE, "output:", "wrong columns of output");
  bent = out;
  bent.row_stride += 8;
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_NOT_CONTIGUOUS, "output: row stride",
         "gaps in the output");
  bent = out;
  bent.data = reinterpret_cast<float*>(reinterpret_cast<char*>(result.data()) + 2);
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_UNALIGNED, "output:", "odd address of output");
  bent = out;
  bent.data = nullptr;
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_NULL_POINTER, "output: data is NULL",
         "NULL output");
  expect(enc_prepare(block, &in[0], &bent, memory, bytes, kThreads), ENC_NULL_POINTER, "output: data is NULL",
         "prepared for a NULL output");
  bent.data = reinterpret_cast<float*>(memory);
  expect(enc_run(block, &in[0], &bent, memory, bytes), ENC_OVERLAP, "output and workspace", "overlap");

  const unsigned before = mode();
  expect(enc_run(block, &in[0], &out, memory, bytes), ENC_OK, "", "run");
  if (mode() != before) {
    ++failures;
    std::printf("the floating-point mode changed\n");
  }
  first = result;
  enc_output shifted = out;
  shifted.data = other.data() + 1;  // 4 bytes off
  expect(enc_run(block, &in[0], &shifted, memory, bytes), ENC_OK, "", "any multiple of 4");
  expect_same(first, std::vector<float>(other.begin() + 1, other.end()), "any multiple of 4");

  expect(enc_run_part(block, memory, 5), ENC_WRONG_SIZE, "thread 5", "thread number");
  std::memset(memory, 0, 64);
  expect(enc_run_part(block, memory, 0), ENC_NOT_PREPARED, "enc_prepare", "not prepared");
  expect(enc_prepare(block, &in[0], &out, memory, bytes, kThreads + 1), ENC_SHORT_WORKSPACE, "3 threads need",
         "workspace for fewer threads");
  expect(enc_prepare(block, &in[0], &out, memory, bytes, kThreads), ENC_OK, "", "prepare");
  for (int round = 0; round < 3; ++round) {
    result.assign(result.size(), 0.0f);
    std::thread helper([&] { expect(enc_run_part(block, memory, 1), ENC_OK, "", "part 1"); });
    expect(enc_run_part(block, memory, 0), ENC_OK, "", "part 0");
    helper.join();
    expect_same(first, result, "the caller's threads");
  }

  const std::int64_t shorter[ENC_BATCH] = {5}, longer[ENC_BATCH] = {ENC_SEQ + 1}, negative[ENC_BATCH] = {-1};
  expect(enc_set_lengths(block, shorter, ENC_BATCH + 1), ENC_WRONG_SIZE, "lengths:", "too many lengths");
  expect(enc_set_lengths(block, nullptr, ENC_BATCH), ENC_NULL_POINTER, "lengths is NULL", "NULL lengths");
  expect(enc_set_lengths(block, longer, ENC_BATCH), ENC_WRONG_SIZE, "lengths[0]", "a length beyond SEQ");
  expect(enc_set_lengths(block, negative, ENC_BATCH), ENC_WRONG_SIZE, "lengths[0]", "a negative length");
  expect(enc_set_lengths(block, shorter, ENC_BATCH), ENC_OK, "", "set_lengths");  // the others are 0
  expect(enc_run_part(block, memory, 0), ENC_NOT_PREPARED, "lengths were set", "prepared for other lengths");
  expect(enc_run(block, &in[0], &out, memory, bytes), ENC_OK, "", "run with lengths");
  for (std::int64_t i = 5 * ENC_HIDDEN; i < kFloats; ++i) failures += result[i] != 0;
  for (std::int64_t i = 0; i < 5 * ENC_HIDDEN; ++i) failures += !(result[i] - result[i] == 0);
  expect(enc_set_lengths(block, nullptr, 0), ENC_OK, "", "the exported lengths");
  expect(enc_run(block, &in[0], &out, memory, bytes), ENC_OK, "", "run");
  expect_same(first, result, "the exported lengths again");

  // Weights in the caller's memory, for a block that has none of its own.
  const size_t packed_bytes = enc_packed_bytes();
  char* const packed = static_cast<char*>(aligned_alloc(64, packed_bytes + 128 - packed_bytes % 64));
  std::memset(packed, 0x7f, packed_bytes);
  enc_block* bare = nullptr;
  expect(enc_create(ENC_ABI_VERSION, kThreads, &bare), ENC_OK, "", "a block for packed weights");
  const auto run_packed = [&](const void* weights_of_run, size_t size) {
    return enc_run_packed(bare, weights_of_run, size, &in[0], &out, memory, bytes);
  };
  expect(run_packed(packed, packed_bytes), ENC_NOT_PACKED, "enc_pack_weights", "not packed");
  expect(enc_pack_weights(&weights, nullptr, packed_bytes), ENC_NULL_POINTER, "packed is NULL", "no memory");
  expect(enc_pack_weights(&weights, packed + 2, packed_bytes), ENC_UNALIGNED, "multiple of 4", "odd memory");
  expect(enc_pack_weights(&weights, packed, packed_bytes - 1), ENC_WRONG_SIZE, "packed:", "short memory");
  expect(enc_pack_weights(nullptr, packed, packed_bytes), ENC_NULL_POINTER, "weights is NULL", "no weights");
  expect(enc_pack_weights(&weights, packed, packed_bytes), ENC_OK, "", "pack_weights");
  bad = weights;
  bad.gamma2.columns += 1;
  expect(enc_pack_weights(&bad, packed, packed_bytes), ENC_WRONG_SIZE, "gamma2: 1 x", "long vector");
  expect(run_packed(packed, packed_bytes), ENC_NOT_PACKED, "enc_pack_weights", "packing failed");
  expect(enc_pack_weights(&weights, packed, packed_bytes), ENC_OK, "", "pack_weights again");
  expect(run_packed(nullptr, packed_bytes), ENC_NULL_POINTER, "packed is NULL", "no packed weights");
  expect(run_packed(packed, packed_bytes + 64), ENC_WRONG_SIZE, "packed:", "too many packed bytes");
  expect(run_packed(packed + 2, packed_bytes), ENC_UNALIGNED, "multiple of 4", "odd packed weights");
  expect(enc_run_packed(nullptr, packed, packed_bytes, &in[0], &out, memory, bytes), ENC_NULL_POINTER,
         "block is NULL", "packed weights without a block");
  bent = out;
  bent.data = reinterpret_cast<float*>(packed);
  expect(enc_run_packed(bare, packed, packed_bytes, &in[0], &bent, memory, bytes), ENC_OVERLAP,
         "packed and output", "output over packed weights");
  expect(enc_run_packed(bare, packed, packed_bytes, &in[0], &out, packed, bytes), ENC_OVERLAP,
         "packed and workspace", "workspace over packed weights");
  expect(enc_run(bare, &in[0], &out, memory, bytes), ENC_NO_WEIGHTS, "enc_set_weights", "none of its own");
  result.assign(result.size(), 0.0f);
  expect(run_packed(packed, packed_bytes), ENC_OK, "", "run_packed");
  expect_same(first, result, "packed weights");
  std::memmove(packed + 4, packed, packed_bytes);
  result.assign(result.size(), 0.0f);
  expect(run_packed(packed + 4, packed_bytes), ENC_OK, "", "packed weights at a multiple of 4");
  expect_same(first, result, "packed weights at a multiple of 4");
  enc_destroy(bare);
  free(packed);

  // Two blocks and two threads at once; one thread and three give the right rows too.
  expect(enc_create(ENC_ABI_VERSION, 3, &second), ENC_OK, "", "a second block");
  expect(enc_set_weights(second, &weights), ENC_OK, "", "its weights");
  const size_t more = enc_workspace_bytes(3);
  char* const memory3 = static_cast<char*>(aligned_alloc(64, more));
  std::thread beside([&] {
    for (int i = 0; i < 3; ++i)
      expect(enc_run(second, &in[0], &shifted, memory3, more), ENC_OK, "", "beside");
  });
  for (int i = 0; i < 3; ++i) expect(enc_run(block, &in[0], &out, memory, bytes), ENC_OK, "", "run");
  beside.join();
  expect_same(first, result, "beside another block");
  enc_destroy(second);
  enc_destroy(block);
  enc_destroy(nullptr);
  if (enc_workspace_bytes(0) != 0 || enc_workspace_bytes(-1) != 0) ++failures;
  if (std::string(enc_description()).find("seq=33") == std::string::npos) ++failures;
  free(memory);
  free(memory3);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
