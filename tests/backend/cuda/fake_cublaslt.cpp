// A stand-in for cuBLASLt beside the fake driver, whose device memory is the host's: the same product, with
// bias and GELU where the epilogue says so, as plain loops over what the descriptors say. In a stream, a call
// of cuLaunchHostFunc in $FUSETUNE_DRIVER, so that graphs capture it. $FUSETUNE_FAKE_CUBLASLT: "none" finds
// no algorithm, "failing" refuses to multiply, "wrong" is off by one in each element, "erf" has the other
// form of GELU, "slow:96" takes 5 ms more for a weight of 96 columns, "version:130102" is
// 13.1.2.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

#include "block/rounding.h"

namespace {

using fusetune::block::Dtype;

enum Status : int { kSuccess = 0, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };

constexpr std::uint32_t kNoEpilogue = 1, kGeluBias = 36;
struct Operation {
  std::uint32_t epilogue = kNoEpilogue;
  const void* bias = nullptr;
};
struct Layout {
  Dtype dtype;
  std::int64_t rows, columns, leading;
};
struct Preference {
  std::size_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = 7;
};
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

std::string behaviour() {
  const char* value = std::getenv("FUSETUNE_FAKE_CUBLASLT");
  return value == nullptr ? "" : value;
}

float element(const Layout& layout, const void* matrix, std::int64_t row, std::int64_t column) {
  return fusetune::block::load_element(layout.dtype, matrix, column * layout.leading + row);
}

float gelu(float x) {
  if (behaviour() == "erf") return x / 2 * (1 + std::erf(x * 0.70710678F));
  return x / 2 * (1 + std::tanh(0.79788456F * (x + 0.044715F * x * x * x)));
}

/// One product, after the call that asked for it may have returned.
struct Product {
  Operation operation;
  Layout a, b, d;
  const void *from_a, *from_b;
  void* to;
};

void multiply(const Product& product) {
  const auto& [operation, a, b, d, from_a, from_b, to] = product;
  const float off = behaviour() == "wrong" ? 1.0F : 0.0F;
  for (std::int64_t column = 0; column < d.columns; ++column) {
    for (std::int64_t row = 0; row < d.rows; ++row) {
      float sum = off;
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum += element(a, from_a, row, k) * element(b, from_b, k, column);
      if (operation.epilogue == kGeluBias)
        sum = gelu(sum + fusetune::block::load_element(d.dtype, operation.bias, row));
      fusetune::block::store_element(d.dtype, to, column * d.leading + row, sum);
    }
  }
  if (behaviour() == "slow:" + std::to_string(d.rows))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// In a stream of the fake driver. What a graph may still run is kept for good.
int enqueue(const Product& product, void* stream) {
  static std::deque<Product>& kept = *new std::deque<Product>;
  kept.push_back(product);
  const char* driver = std::getenv("FUSETUNE_DRIVER");
  void* const library = driver == nullptr ? nullptr : dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return kExecutionFailed;
  using LaunchHostFunction = int(void* stream, void (*function)(void*), void* data);
  auto* const launch = reinterpret_cast<LaunchHostFunction*>(dlsym(library, "cuLaunchHostFunc"));
  const auto run = [](void* data) { multiply(*static_cast<const Product*>(data)); };
  return launch(stream, run, &kept.back()) == 0 ? kSuccess : kExecutionFailed;
}

}  // namespace

extern "C" {

int cublasLtCreate(void** handle) {
  *handle = new int(0);
  return kSuccess;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return kSuccess;
}
std::size_t cublasLtGetVersion() {
  const std::string other = "version:", wanted = behaviour();
  return wanted.starts_with(other) ? std::stoul(wanted.substr(other.size())) : 130002;
}
const char* cublasLtGetStatusString(int status) {
  return status == kExecutionFailed ? "CUBLAS_STATUS_EXECUTION_FAILED" : nullptr;
}

int cublasLtMatmulDescCreate(void** operation, int compute_type, int scale_type) {
  if (compute_type != 68 || scale_type != 0) return kNotSupported;
  *operation = new Operation;
  return kSuccess;
}
int cublasLtMatmulDescDestroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return kSuccess;
}

int cublasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value, std::size_t bytes) {
  auto& to = *static_cast<Operation*>(operation);
  if (attribute == 7 && bytes == sizeof to.epilogue)
    std::memcpy(&to.epilogue, value, bytes);
  else if (attribute == 8 && bytes == sizeof to.bias)
    std::memcpy(&to.bias, value, bytes);
  else
    return kInvalidValue;
  return to.epilogue == kNoEpilogue || to.epilogue == kGeluBias ? kSuccess : kNotSupported;
}

int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading) {
  if (type != 0 && type != 2 && type != 14) return kNotSupported;
  *layout = new Layout{type == 0   ? Dtype::f32
                       : type == 2 ? Dtype::f16
                                   : Dtype::bf16,
                       static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return kSuccess;
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference;
  return kSuccess;
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return kSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         std::size_t bytes) {
  auto& to = *static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == sizeof to.workspace_bytes)
    std::memcpy(&to.workspace_bytes, value, bytes);
  else if (attribute == 3 && bytes == sizeof to.reduction_schemes)
    std::memcpy(&to.reduction_schemes, value, bytes);
  else
    return kInvalidValue;
  return kSuccess;
}

/// Two algorithms that are the same, and one that fails as the real ones may.
int cublasLtMatmulAlgoGetHeuristic(void* /*handle*/, void* operation, void* /*a*/, void* /*b*/, void* /*c*/,
                                   void* /*d*/, void* preference, int requested, Heuristic* results,
                                   int* found) {
  if (static_cast<const Preference*>(preference)->reduction_schemes != 2) return kInvalidValue;
  const auto& of = *static_cast<const Operation*>(operation);
  if ((of.epilogue == kGeluBias) != (of.bias != nullptr)) return kInvalidValue;
  *found = behaviour() == "none" ? 0 : std::min(requested, 3);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algorithm[0] = static_cast<std::uint64_t>(i);
    results[i].state = i == 1 ? kNotSupported : kSuccess;
  }
  return *found == 0 ? kNotSupported : kSuccess;
}

int cublasLtMatmul(void* /*handle*/, void* operation, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* /*c*/, void* /*c_layout*/,
                   void* d, void* d_layout, const std::uint64_t* algorithm, void* /*workspace*/,
                   std::size_t /*workspace_bytes*/, void* stream) {
  const auto &wa = *static_cast<Layout*>(a_layout), &wb = *static_cast<Layout*>(b_layout),
             &wd = *static_cast<Layout*>(d_layout);
  if (behaviour() == "failing") return kExecutionFailed;
  if (wa.columns != wb.rows || wd.rows != wa.rows || wd.columns != wb.columns || algorithm[0] == 1 ||
      *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    return kInvalidValue;
  const Product product{*static_cast<const Operation*>(operation), wa, wb, wd, a, b, d};
  if (stream != nullptr) return enqueue(product, stream);
  multiply(product);
  return kSuccess;
}

}  // extern "C"
