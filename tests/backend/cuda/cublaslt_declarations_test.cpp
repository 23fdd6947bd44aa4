// Our declarations of cuBLASLt's functions against the toolkit's header, by the compiler.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "backend/cuda/cublaslt.h"
#include "spelled_out.h"

namespace fusetune::backend::cuda {

template <>
inline constexpr bool is_handle<cublasLtHandle_t> = true;
template <>
inline constexpr bool is_handle<cublasLtMatmulDesc_t> = true;
template <>
inline constexpr bool is_handle<cublasLtMatrixLayout_t> = true;
template <>
inline constexpr bool is_handle<cublasLtMatmulPreference_t> = true;
template <>
inline constexpr bool is_handle<cudaStream_t> = true;
template <>
struct Ours<const cublasLtMatmulAlgo_t*> {
  using type = const CublasLtAlgorithm*;
};
template <>
struct Ours<cublasLtMatmulHeuristicResult_t*> {
  using type = CublasLtHeuristic*;
};

namespace {

using Lt = CublasLtFunctions;
static_assert(std::is_same_v<OursOf<decltype(cublasLtCreate)>, decltype(Lt::create)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtDestroy)>, decltype(Lt::destroy)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtGetVersion)>, decltype(Lt::get_version)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtGetStatusString)>, decltype(Lt::get_status_string)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatmulDescCreate)>, decltype(Lt::operation_create)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatmulDescDestroy)>, decltype(Lt::operation_destroy)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatmulDescSetAttribute)>, decltype(Lt::operation_set)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatrixLayoutCreate)>, decltype(Lt::layout_create)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatrixLayoutDestroy)>, decltype(Lt::layout_destroy)>);
static_assert(
    std::is_same_v<OursOf<decltype(cublasLtMatmulPreferenceCreate)>, decltype(Lt::preference_create)>);
static_assert(
    std::is_same_v<OursOf<decltype(cublasLtMatmulPreferenceDestroy)>, decltype(Lt::preference_destroy)>);
static_assert(
    std::is_same_v<OursOf<decltype(cublasLtMatmulPreferenceSetAttribute)>, decltype(Lt::preference_set)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatmulAlgoGetHeuristic)>, decltype(Lt::heuristics)>);
static_assert(std::is_same_v<OursOf<decltype(cublasLtMatmul)>, decltype(Lt::matmul)>);

static_assert(CUBLAS_STATUS_SUCCESS == kCublasLtSuccess);
static_assert(CUBLAS_STATUS_NOT_SUPPORTED == kCublasLtNotSupported);
static_assert(CUBLAS_COMPUTE_32F == kComputeFloat);
static_assert(CUDA_R_32F == kTypeFloat && CUDA_R_16F == kTypeHalf && CUDA_R_16BF == kTypeBfloat16);
static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == kPreferenceWorkspaceBytes);
static_assert(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == kPreferenceReductionSchemes);
static_assert(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE == kReduceInComputeType);
static_assert(sizeof(std::uint32_t) == sizeof kReduceInComputeType);
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE == kOperationEpilogue);
static_assert(CUBLASLT_MATMUL_DESC_BIAS_POINTER == kOperationBiasPointer);
static_assert(CUBLASLT_EPILOGUE_GELU_BIAS == kEpilogueGeluBias);
static_assert(sizeof(std::uint32_t) == sizeof kEpilogueGeluBias);

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(CublasLtAlgorithm));
using Theirs = cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(Theirs) == sizeof(CublasLtHeuristic));
static_assert(offsetof(Theirs, workspaceSize) == offsetof(CublasLtHeuristic, workspace_bytes));
static_assert(offsetof(Theirs, state) == offsetof(CublasLtHeuristic, state));

TEST(Declarations, OfCublasLtAreThoseOfTheToolkitsHeader) { SUCCEED() << "the compiler has compared them"; }

}  // namespace
}  // namespace fusetune::backend::cuda
