// NVIDIA's matrix products, found and opened when they are first needed: candidates for segments that are
// exactly one, alone or with bias and GELU, and what generated GEMMs are compared with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/driver.h"
#include "block/problem.h"
#include "lower/gpu_schedule.h"

namespace fusetune::backend::cuda {

/// cublasLtMatmulAlgo_t: opaque.
struct CublasLtAlgorithm {
  std::array<std::uint64_t, 8> data;
};

/// cublasLtMatmulHeuristicResult_t.
struct CublasLtHeuristic {
  CublasLtAlgorithm algorithm;
  std::size_t workspace_bytes;
  int state;  // cublasStatus_t: others than success say nothing
  float waves;
  std::array<int, 4> reserved;
};

/// The library's functions, as <cublasLt.h> of CUDA 12 and 13 declares them with enums spelled out as int and
/// pointers to opaque structs as void*. tests/backend/cuda/cublaslt_declarations_test.cpp compares them with
/// that header.
struct CublasLtFunctions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  std::size_t (*get_version)() = nullptr;  // 10000 major + 100 minor + patch
  const char* (*get_status_string)(int status) = nullptr;

  int (*operation_create)(void** operation, int compute_type, int scale_type) = nullptr;
  int (*operation_destroy)(void* operation) = nullptr;
  int (*operation_set)(void* operation, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, std::size_t bytes) = nullptr;

  int (*heuristics)(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                    int requested, CublasLtHeuristic* results, int* found) = nullptr;
  int (*matmul)(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                void* d_layout, const CublasLtAlgorithm* algorithm, void* workspace,
                std::size_t workspace_bytes, void* stream) = nullptr;
};

inline constexpr int kCublasLtSuccess = 0, kCublasLtNotSupported = 15;
/// Values of cublasComputeType_t, cudaDataType_t and cublasLtMatmulPreferenceAttributes_t.
inline constexpr int kComputeFloat = 68, kTypeFloat = 0, kTypeHalf = 2, kTypeBfloat16 = 14;
inline constexpr int kPreferenceWorkspaceBytes = 1, kPreferenceReductionSchemes = 3;
/// Of cublasLtReductionScheme_t: parts of k are added in the compute type, in workspace.
inline constexpr std::uint32_t kReduceInComputeType = 2;
/// Values of cublasLtMatmulDescAttributes_t.
inline constexpr int kOperationEpilogue = 7, kOperationBiasPointer = 8;
/// Of cublasLtEpilogue_t: GELU(d + bias), a bias for each row of the column-major result, in its type.
inline constexpr std::uint32_t kEpilogueGeluBias = 36;

inline constexpr std::string_view kCublasLtRemedy =
    "install CUDA 12 or 13, or the Python package nvidia-cublas (CUDA 12: nvidia-cublas-cu12), and set "
    "FUSETUNE_CUBLASLT to the path of its libcublasLt.so if it is not found by itself";

struct CublasLtFile {
  std::string version;         // "13.0.2"
  std::filesystem::path path;  // links resolved
};

/// The library that CublasLt() would open. No handle is made, as that would make a context. Throws
/// base::EnvironmentError as it does.
CublasLtFile locate_cublaslt();
/// The short reason why that threw `error`: the path that was set and is wrong, else that none is found.
std::string why_no_cublaslt(const std::string& error);
/// locate_cublaslt() for a target. Not found: the reason, with the remedy.
lower::GpuLibrary find_cublaslt();

/// A loaded cuBLASLt with a handle for the current context; it stays loaded for the life of the process.
class CublasLt {
 public:
  /// Opens the first that works of $FUSETUNE_CUBLASLT (its path; if set, nothing else is tried) and the
  /// places of toolkit_library.h. Throws base::EnvironmentError: not found, or it does not start.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// "13.0.2".
  std::string version() const;
  const CublasLtFunctions& functions() const { return functions_; }
  void* handle() const { return handle_; }
  /// Throws base::EnvironmentError with the call and the library's words, unless `status` is success.
  void check(int status, std::string_view call) const;

 private:
  CublasLtFunctions functions_;
  void* handle_ = nullptr;
};

/// y[m, n] = x[m, k] w[k, n], row-major, with float32 accumulation, also of parts of k, and no TF32: one of a
/// segment's products.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  block::Dtype dtype = block::Dtype::f16;
};

/// One such product with the library's ways to do it, its own favourite first.
class CublasLtGemm {
 public:
  /// The library's heuristic is asked for at most `most` algorithms that need at most `workspace_bytes`. With
  /// `gelu_bias`, the device address of n numbers of the dtype, y = GELU(x w + gelu_bias), GELU in its tanh
  /// form. Throws base::EnvironmentError.
  CublasLtGemm(const CublasLt& library, const GemmShape& shape, std::size_t workspace_bytes, int most,
               const void* gelu_bias = nullptr);
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  /// 0: it does not offer this product.
  int algorithms() const { return static_cast<int>(algorithms_.size()); }
  /// Asynchronous, on `stream` or without one the default stream; device addresses. Throws
  /// base::EnvironmentError.
  void launch(int algorithm, const void* x, const void* w, void* y, void* workspace,
              const Stream* stream = nullptr) const;

 private:
  void set_epilogue(const void* gelu_bias);
  void release();

  const CublasLt& library_;
  std::size_t workspace_bytes_;
  void *operation_ = nullptr, *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
  std::vector<CublasLtHeuristic> algorithms_;
};

}  // namespace fusetune::backend::cuda
