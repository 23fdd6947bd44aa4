#include <fmt/format.h>

#include "backend/cuda/loaded_segment.h"
#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

using codegen::kLibraryWorkspaceBytes;

constexpr int kFavourite = 0;  // of the library's heuristic: the one that is used

class LoadedProduct final : public LoadedSegment {
 public:
  LoadedProduct(const CublasLt& library, const CudaBlock& block, const codegen::LibraryProduct& product)
      : product_(product),
        weights_{product.weight},
        gemm_(library, {product.m, product.n, product.k, product.dtype}, kLibraryWorkspaceBytes, 1,
              product.bias ? block.address(*product.bias) : nullptr) {
    if (gemm_.algorithms() > 0) return;
    DeviceError error(fmt::format(
        "{}: cuBLASLt {} has no algorithm for a product of {}x{} with {}x{}{} in {} and {} bytes of "
        "workspace",
        product.symbol, library.version(), product.m, product.k, product.k, product.n,
        product.bias ? ", bias and GELU" : "", block::name(product.dtype), kLibraryWorkspaceBytes));
    error.is_resource_limit = true;
    throw error;
  }

  plan::SegmentVariant variant() const override { return product_.variant; }
  const std::string& symbol() const override { return product_.symbol; }
  const std::vector<block::Weight>& weights() const override { return weights_; }
  std::int64_t scratch_bytes() const override { return kLibraryWorkspaceBytes; }
  std::int64_t sync_words() const override { return 0; }

  void launch(const Stream& stream, CudaBlock& block, const Workspace& workspace, int copy) const override {
    try {
      gemm_.launch(kFavourite, block.address(product_.reads.front()), block.address(product_.weight, copy),
                   block.address(product_.writes.front()), workspace.scratch.pointer<void>(), &stream);
    } catch (const DeviceError&) {
      throw;
    } catch (const base::EnvironmentError& error) {
      throw DeviceError(product_.symbol + ": " + error.what());
    }
  }

 private:
  codegen::LibraryProduct product_;
  std::vector<block::Weight> weights_;
  CublasLtGemm gemm_;
};

}  // namespace

std::unique_ptr<LoadedSegment> load_product(const Context& context, const Stream& stream,
                                            const CublasLt& library, CudaBlock& block,
                                            const codegen::LibraryProduct& product) {
  auto loaded = std::make_unique<LoadedProduct>(library, block, product);
  Workspace workspace;
  workspace.scratch = GuardedDeviceBuffer(context, loaded->scratch_bytes());
  loaded->launch(stream, block, workspace, 0);
  stream.synchronize();
  return loaded;
}

}  // namespace fusetune::backend::cuda
