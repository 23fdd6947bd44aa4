#include "backend/cuda/cublaslt.h"

#include "backend/cuda/toolkit_library.h"
#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

const ToolkitLibrary& library_of_cublaslt() {
  static const ToolkitLibrary kLibrary{.purpose = "cuBLASLt, NVIDIA's matrix products",
                                       .file = "libcublasLt.so",
                                       .variable = "FUSETUNE_CUBLASLT",
                                       .packages = {"cu13", "cublas"},
                                       .remedy = kCublasLtRemedy};
  return kLibrary;
}

struct OpenedLibrary {
  CublasLtFunctions functions;
  std::filesystem::path path;
};

/// Empty, or why the file is not the library.
std::string load(const std::filesystem::path& file, OpenedLibrary& opened) {
  OpenLibrary open(file);
  CublasLtFunctions f;
  open.require("cublasLtCreate", f.create);
  open.require("cublasLtDestroy", f.destroy);
  open.require("cublasLtGetVersion", f.get_version);
  open.require("cublasLtGetStatusString", f.get_status_string);
  open.require("cublasLtMatmulDescCreate", f.operation_create);
  open.require("cublasLtMatmulDescDestroy", f.operation_destroy);
  open.require("cublasLtMatmulDescSetAttribute", f.operation_set);
  open.require("cublasLtMatrixLayoutCreate", f.layout_create);
  open.require("cublasLtMatrixLayoutDestroy", f.layout_destroy);
  open.require("cublasLtMatmulPreferenceCreate", f.preference_create);
  open.require("cublasLtMatmulPreferenceDestroy", f.preference_destroy);
  open.require("cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  open.require("cublasLtMatmulAlgoGetHeuristic", f.heuristics);
  open.require("cublasLtMatmul", f.matmul);
  if (open.error().empty()) opened = {f, open.path()};
  return open.error();
}

OpenedLibrary open_library() {
  OpenedLibrary opened;
  open_first(library_of_cublaslt(),
             [&opened](const std::filesystem::path& file) { return load(file, opened); });
  return opened;
}

std::string version_of(const CublasLtFunctions& functions) {
  const std::size_t version = functions.get_version();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

int type_of(block::Dtype dtype) {
  switch (dtype) {
    case block::Dtype::f16:
      return kTypeHalf;
    case block::Dtype::bf16:
      return kTypeBfloat16;
    case block::Dtype::f32:
      return kTypeFloat;
  }
  throw base::InternalError("a dtype that cuBLASLt's products do not have");
}

}  // namespace

CublasLtFile locate_cublaslt() {
  const OpenedLibrary opened = open_library();
  return {.version = version_of(opened.functions), .path = opened.path};
}

std::string why_no_cublaslt(const std::string& error) { return why_missing(library_of_cublaslt(), error); }

lower::GpuLibrary find_cublaslt() {
  try {
    return {.version = "cuBLASLt " + locate_cublaslt().version, .missing = {}};
  } catch (const base::EnvironmentError& error) {
    return {.version = {}, .missing = why_no_cublaslt(error.what()) + "; " + std::string(kCublasLtRemedy)};
  }
}

CublasLt::CublasLt() : functions_(open_library().functions) {
  check(functions_.create(&handle_), "cublasLtCreate");
}

CublasLt::~CublasLt() { functions_.destroy(handle_); }

std::string CublasLt::version() const { return version_of(functions_); }

void CublasLt::check(int status, std::string_view call) const {
  if (status == kCublasLtSuccess) return;
  const char* text = functions_.get_status_string(status);
  throw base::EnvironmentError("cuBLASLt: " + std::string(call) + " failed with status " +
                               std::to_string(status) + (text == nullptr ? "" : std::string(" ") + text));
}

// Matrices are column-major there. Read so, row-major y = x w is y' = w' x': the weight is its first operand.
CublasLtGemm::CublasLtGemm(const CublasLt& library, const GemmShape& shape, std::size_t workspace_bytes,
                           int most, const void* gelu_bias)
    : library_(library), workspace_bytes_(workspace_bytes) {
  const CublasLtFunctions& f = library.functions();
  const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const int type = type_of(shape.dtype);
  void* preference = nullptr;
  try {
    library.check(f.operation_create(&operation_, kComputeFloat, kTypeFloat), "cublasLtMatmulDescCreate");
    if (gelu_bias != nullptr) set_epilogue(gelu_bias);
    const auto layout = [&](void** made, std::int64_t rows, std::int64_t columns) {
      library.check(f.layout_create(made, type, unsigned_of(rows), unsigned_of(columns), rows),
                    "cublasLtMatrixLayoutCreate");
    };
    layout(&w_, shape.n, shape.k);
    layout(&x_, shape.k, shape.m);
    layout(&y_, shape.n, shape.m);
    library.check(f.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    library.check(
        f.preference_set(preference, kPreferenceWorkspaceBytes, &workspace_bytes, sizeof workspace_bytes),
        "cublasLtMatmulPreferenceSetAttribute");
    library.check(f.preference_set(preference, kPreferenceReductionSchemes, &kReduceInComputeType,
                                   sizeof kReduceInComputeType),
                  "cublasLtMatmulPreferenceSetAttribute");
    algorithms_.resize(static_cast<std::size_t>(most));
    int found = 0;
    const int status = f.heuristics(library.handle(), operation_, w_, x_, y_, y_, preference, most,
                                    algorithms_.data(), &found);
    if (status != kCublasLtNotSupported) library.check(status, "cublasLtMatmulAlgoGetHeuristic");
    algorithms_.resize(static_cast<std::size_t>(found));
    std::erase_if(algorithms_, [](const CublasLtHeuristic& one) { return one.state != kCublasLtSuccess; });
    f.preference_destroy(preference);
  } catch (...) {
    if (preference != nullptr) f.preference_destroy(preference);
    release();
    throw;
  }
}

// Before the heuristic is asked, which looks at the bias's alignment. n are the rows of y' there.
void CublasLtGemm::set_epilogue(const void* gelu_bias) {
  const auto set = [this](int attribute, const auto& value) {
    library_.check(library_.functions().operation_set(operation_, attribute, &value, sizeof value),
                   "cublasLtMatmulDescSetAttribute");
  };
  set(kOperationEpilogue, kEpilogueGeluBias);
  set(kOperationBiasPointer, gelu_bias);
}

CublasLtGemm::~CublasLtGemm() { release(); }

void CublasLtGemm::release() {
  const CublasLtFunctions& f = library_.functions();
  for (void* const layout : {x_, w_, y_})
    if (layout != nullptr) f.layout_destroy(layout);
  if (operation_ != nullptr) f.operation_destroy(operation_);
}

void CublasLtGemm::launch(int algorithm, const void* x, const void* w, void* y, void* workspace,
                          const Stream* stream) const {
  const float one = 1, zero = 0;
  library_.check(
      library_.functions().matmul(library_.handle(), operation_, &one, w, w_, x, x_, &zero, y, y_, y, y_,
                                  &algorithms_[static_cast<std::size_t>(algorithm)].algorithm, workspace,
                                  workspace_bytes_, stream == nullptr ? nullptr : stream->handle()),
      "cublasLtMatmul");
}

}  // namespace fusetune::backend::cuda
