#include "backend/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_block.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/loaded_segment.h"

namespace fusetune::backend::cuda {
namespace {

using Segments = std::vector<std::unique_ptr<LoadedSegment>>;

Workspace make_workspace(const Context& context, const Segments& segments) {
  std::int64_t scratch_bytes = 0;
  Workspace workspace;
  for (const auto& segment : segments) {
    scratch_bytes = std::max(scratch_bytes, segment->scratch_bytes());
    workspace.sync_words = std::max(workspace.sync_words, segment->sync_words());
  }
  workspace.scratch = GuardedDeviceBuffer(context, scratch_bytes);
  workspace.sync = DeviceBuffer(context, 4 * workspace.sync_words);
  workspace.sync.fill(0);
  return workspace;
}

/// Empty, or which counter was not put back; all are zero afterwards.
std::string check_counters(Workspace& workspace) {
  constexpr unsigned kFlip = 0x80000000u;  // the grid barrier's word ends as 0 or this
  std::vector<unsigned> words(static_cast<std::size_t>(workspace.sync_words));
  workspace.sync.read(words.data(), workspace.sync.bytes(), 0);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == 0 || (i == 0 && words[i] == kFlip)) continue;
    workspace.sync.fill(0);
    return fmt::format("left counter {} of its workspace at {}, not zero", i, words[i]);
  }
  return {};
}

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CudaExecutor;

class CudaSequence final : public LaunchSequence {
 public:
  CudaSequence(CudaExecutor& executor, std::span<const CompiledKernel> kernels);
  ~CudaSequence() override;
  CudaSequence(const CudaSequence&) = delete;
  CudaSequence& operator=(const CudaSequence&) = delete;

  int ready() override;
  void run() override;
  double run_timed(int first, int passes) override;
  StampedRun run_stamped(int copy) override;
  Workspace& workspace() { return workspace_; }

 private:
  void launch(const LoadedSegment& segment, int copy);
  void launch_all(int copy);
  const Graph& graph(int first, int passes);

  CudaExecutor& executor_;
  Segments segments_;
  Workspace workspace_;
  int copies_ = 1;
  std::map<int, Graph> graphs_;  // of graph_passes_ passes, by their first copy
  int graph_passes_ = 0;
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data,
               const ExecutorOptions& options)
      : problem_(problem),
        context_(Driver(), options.device),
        stream_(context_),
        block_(context_, problem, mask, data),
        flush_(context_, options.flush_bytes),
        rotation_bytes_(options.rotation_bytes) {}

  void write(block::Tensor tensor, std::span<const double> values) override { block_.write(tensor, values); }
  void poison(block::Tensor tensor) override { block_.poison(tensor); }
  std::vector<float> read(block::Tensor tensor) override { return block_.read(tensor); }
  std::string find_damage() override {
    std::string names = block_.check_guards(), counters;
    for (Workspace* workspace : workspaces_) {
      if (workspace->scratch.has_damaged_guards()) names.append(names.empty() ? "" : ", ").append("scratch");
      if (counters.empty()) counters = check_counters(*workspace);
    }
    if (names.empty()) return counters;
    return "wrote outside of its tensors: guard bytes overwritten around " + names;
  }
  std::unique_ptr<LaunchSequence> load(std::span<const CompiledKernel> kernels) override {
    return std::make_unique<CudaSequence>(*this, kernels);
  }
  void flush_caches() override { flush_.fill(0); }
  int threads() const override { return 0; }

  std::unique_ptr<LoadedSegment> load_segment(const CompiledKernel& compiled) {
    if (const codegen::LibraryProduct* const product = compiled.source.library())
      return load_product(context_, stream_, library(), block_, *product);
    return load_kernel(context_, compiled, problem_.batch);
  }

  const Context& context() const { return context_; }
  const Stream& stream() const { return stream_; }
  CudaBlock& block() { return block_; }
  std::int64_t rotation_bytes() const { return rotation_bytes_; }
  void watch(Workspace& workspace) { workspaces_.insert(&workspace); }
  void forget(Workspace& workspace) { workspaces_.erase(&workspace); }

 private:
  /// Opened when a product first asks for it.
  const CublasLt& library() {
    if (!library_) library_.emplace();
    return *library_;
  }

  block::Problem problem_;
  Context context_;
  Stream stream_;
  std::optional<CublasLt> library_;
  CudaBlock block_;
  DeviceBuffer flush_;
  std::int64_t rotation_bytes_;
  std::set<Workspace*> workspaces_;  // of the sequences there are
};

CudaSequence::CudaSequence(CudaExecutor& executor, std::span<const CompiledKernel> kernels)
    : executor_(executor) {
  for (const CompiledKernel& kernel : kernels) segments_.push_back(executor.load_segment(kernel));
  workspace_ = make_workspace(executor.context(), segments_);
  executor_.watch(workspace_);
}

CudaSequence::~CudaSequence() { executor_.forget(workspace_); }

int CudaSequence::ready() {
  std::set<block::Weight> weights;
  for (const auto& segment : segments_) weights.insert(segment->weights().begin(), segment->weights().end());
  copies_ =
      executor_.block().make_copies(std::vector(weights.begin(), weights.end()), executor_.rotation_bytes());
  return copies_;
}

void CudaSequence::launch(const LoadedSegment& segment, int copy) {
  segment.launch(executor_.stream(), executor_.block(), workspace_, copy);
}

void CudaSequence::launch_all(int copy) {
  for (const auto& segment : segments_) launch(*segment, copy);
}

/// Waits for each segment, so that what fails is blamed by its name.
void CudaSequence::run() {
  for (const auto& segment : segments_) {
    try {
      launch(*segment, 0);
      executor_.stream().synchronize();
    } catch (const DriverError& error) {
      throw DriverError(segment->symbol() + ": " + error.what(), error.code);
    }
  }
}

const Graph& CudaSequence::graph(int first, int passes) {
  if (passes != graph_passes_) graphs_.clear();
  graph_passes_ = passes;
  const auto found = graphs_.find(first);
  if (found != graphs_.end()) return found->second;
  Graph graph(executor_.context(), executor_.stream(), [&] {
    for (int pass = 0; pass < passes; ++pass) launch_all((first + pass) % copies_);
  });
  return graphs_.emplace(first, std::move(graph)).first->second;
}

double CudaSequence::run_timed(int first, int passes) {
  const Graph& passes_graph = graph(first, passes);
  const Stream& stream = executor_.stream();
  Event begin(executor_.context()), end(executor_.context());
  begin.record(&stream);
  passes_graph.launch(stream);
  end.record(&stream);
  end.wait();
  return 1e-3 * end.since(begin);
}

StampedRun CudaSequence::run_stamped(int copy) {
  const Stream& stream = executor_.stream();
  std::vector<Event> events;
  for (std::size_t i = 0; i <= segments_.size(); ++i) events.emplace_back(executor_.context());
  StampedRun run;
  // Events differ by milliseconds in a float, and know nothing of the host's clock: a pass begins, by
  // agreement, when the host began to ask for it.
  const double begin = host_seconds();
  events.front().record(&stream);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const double before = host_seconds();
    launch(*segments_[i], copy);
    run.calls.push_back({"launch " + segments_[i]->variant().to_string(), before, host_seconds()});
    events[i + 1].record(&stream);
  }
  const double before = host_seconds();
  events.back().wait();
  run.calls.push_back({"wait", before, host_seconds()});
  for (const Event& event : events) run.times.push_back(begin + 1e-3 * event.since(events.front()));
  return run;
}

}  // namespace

std::unique_ptr<Executor> make_executor(const block::Problem& problem, const block::Mask& mask,
                                        const block::BlockData& data, const ExecutorOptions& options) {
  return std::make_unique<CudaExecutor>(problem, mask, data, options);
}

}  // namespace fusetune::backend::cuda
