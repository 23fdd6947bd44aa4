// Compiled by the test against a GPU bundle named `enc`, of one mask for all batch entries: every refusal by
// its code and its words, other batches, and a capture of the caller's own.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "data.h"
#include "driver.h"
#include "elements.h"
#include "enc.h"

static int failures = 0;
static const enc_driver* driver = nullptr;

static void expect(int status, int want, const char* words, const char* what) {
  if (status == want && (want == ENC_OK || std::strstr(enc_error(), words) != nullptr)) return;
  ++failures;
  std::printf("%s: status %d, expected %d; error '%s', expected '%s'\n", what, status, want, enc_error(),
              words);
}

static void expect_that(bool right, const char* what) {
  if (right) return;
  ++failures;
  std::printf("%s: not so\n", what);
}

static char* allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  driver->memory_allocate(&address, bytes);
  driver->memory_set(address, 0xff, bytes);
  return reinterpret_cast<char*>(static_cast<std::uintptr_t>(address));
}
static CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

static char* upload(int stream, elements::Format format) {
  const std::vector<unsigned char> bytes = elements::stored(data::make(stream), format);
  char* const memory = allocate(bytes.size());
  driver->copy_to_device(address_of(memory), bytes.data(), bytes.size());
  return memory;
}
static const float* vector(int stream) {
  return reinterpret_cast<const float*>(upload(stream, elements::Format::f32));
}

static std::vector<unsigned char> download(const char* memory, std::size_t bytes) {
  std::vector<unsigned char> content(bytes);
  driver->copy_to_host(content.data(), address_of(memory), bytes);
  return content;
}

int main() {
  enc_block* block = nullptr;
  const char* problem = nullptr;
  driver = enc_open_driver(&problem);
  if (driver == nullptr) {
    expect(enc_create(ENC_ABI_VERSION, &block), ENC_NO_DRIVER, problem, "no driver");
    expect(enc_use_device(0), ENC_NO_DRIVER, problem, "no driver, no device");
    std::printf("%s\n", enc_error());
    return failures == 0 ? 42 : 1;
  }
  expect(enc_create(99, &block), ENC_WRONG_ABI, "version 99", "ABI");
  expect(enc_create(ENC_ABI_VERSION, nullptr), ENC_NULL_POINTER, "block is NULL", "no place for the block");
  expect(enc_create(ENC_ABI_VERSION, &block), ENC_NO_CONTEXT, "cuCtxSetCurrent", "no context");
  expect(enc_use_device(-1), ENC_WRONG_SIZE, "device -1, expected 0 to", "no such device");
  expect(enc_use_device(0), ENC_OK, "", "a device's context");
  expect(enc_use_device(0), ENC_OK, "", "the same again");
  expect(enc_create(ENC_ABI_VERSION, &block), ENC_OK, "", "create");
  if (block == nullptr) return 1;

  constexpr int kBatch = ENC_BATCH;
  constexpr std::size_t kEntry = std::size_t{ENC_SEQ} * ENC_HIDDEN * ENC_ELEMENT_BYTES;
  const enc_weights weights = {upload(1, elements::kFormat),
                               upload(2, elements::kFormat),
                               upload(3, elements::kFormat),
                               upload(4, elements::kFormat),
                               vector(5),
                               vector(6),
                               vector(7),
                               vector(8),
                               vector(9),
                               vector(10),
                               vector(11),
                               vector(12)};
  char* const hidden = upload(0, elements::kFormat);
  char* const output = allocate(2 * kBatch * kEntry);
  const std::size_t bytes = enc_workspace_bytes(block, 2 * kBatch);
  char* const workspace = allocate(bytes);
  expect_that(enc_workspace_bytes(block, 0) == 0 && enc_workspace_bytes(block, -1) == 0,
              "no workspace for no batch");
  expect_that(bytes > enc_workspace_bytes(block, kBatch), "a larger batch needs more");

  const auto run = [&](int batch, const enc_weights* w, const char* in, char* out, char* work,
                       std::size_t size) { return enc_run(block, batch, w, in, out, work, size, nullptr); };
  expect(run(kBatch, nullptr, hidden, output, workspace, bytes), ENC_NULL_POINTER, "weights", "no weights");
  enc_weights lacking = weights;
  lacking.gamma2 = nullptr;
  expect(run(kBatch, &lacking, hidden, output, workspace, bytes), ENC_NULL_POINTER, "gamma2", "no gamma2");
  expect(run(0, &weights, hidden, output, workspace, bytes), ENC_WRONG_SIZE, "batch 0", "batch 0");
  expect(run(kBatch, &weights, hidden + 4, output, workspace, bytes), ENC_UNALIGNED, "hidden", "unaligned");
  expect(run(kBatch, &weights, hidden, output, nullptr, bytes), ENC_NULL_POINTER, "workspace",
         "no workspace");
  expect(run(kBatch, &weights, hidden, output, workspace, 256), ENC_SHORT_WORKSPACE, "256 bytes", "short");
  expect(run(kBatch, &weights, hidden, hidden, workspace, bytes), ENC_OVERLAP, "hidden and output",
         "in place");
  expect(enc_graph_launch(nullptr, nullptr), ENC_NULL_POINTER, "graph", "no graph");

  expect(run(kBatch, &weights, hidden, output, workspace, bytes), ENC_OK, "", "a run");
  const std::vector<unsigned char> whole = download(output, kBatch * kEntry);
  for (int b = 0; b < kBatch; ++b) {  // one entry by itself, in a workspace that a larger batch has used
    char* const entry = allocate(kEntry);
    driver->copy_to_device(address_of(entry), download(hidden, kBatch * kEntry).data() + b * kEntry, kEntry);
    expect(run(1, &weights, entry, output, workspace, enc_workspace_bytes(block, 1)), ENC_OK, "", "batch 1");
    expect_that(std::memcmp(download(output, kEntry).data(), whole.data() + b * kEntry, kEntry) == 0,
                "one entry gives its part of the batch");
  }
  char* const twice = allocate(2 * kBatch * kEntry);
  for (int part = 0; part < 2; ++part)
    driver->copy_to_device(address_of(twice) + part * kBatch * kEntry,
                           download(hidden, kBatch * kEntry).data(), kBatch * kEntry);
  expect(run(2 * kBatch, &weights, twice, output, workspace, bytes), ENC_OK, "", "a larger batch");
  for (int part = 0; part < 2; ++part)
    expect_that(std::memcmp(download(output + part * kBatch * kEntry, kBatch * kEntry).data(), whole.data(),
                            kBatch * kEntry) == 0,
                "a larger batch gives each half");

  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  driver->stream_create(&stream, CU_STREAM_NON_BLOCKING);
  driver->memory_set(address_of(output), 0xff, kBatch * kEntry);
  driver->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  expect(enc_run(block, kBatch, &weights, hidden, output, workspace, bytes, stream), ENC_OK, "", "captured");
  driver->stream_end_capture(stream, &graph);
  expect_that(download(output, kBatch * kEntry) != whole, "a captured run does not run");
  driver->graph_instantiate(&executable, graph, 0);
  driver->graph_launch(executable, stream);
  driver->stream_synchronize(stream);
  expect_that(download(output, kBatch * kEntry) == whole, "a captured run gives the same");
  enc_destroy(block);
  enc_destroy(nullptr);
  enc_graph_destroy(nullptr);
  if (failures == 0) std::printf("all as expected\n");
  return failures == 0 ? 0 : 1;
}
