// Peer process: fusetune's own plans, its bare matrix products, and this machine's FMA rate.
//
//   fusetune_peer --preset NAME --batch B --seq S --data DIR --copies N --threads N --cache DIR
//                 [--plan ROW=MASK ...] [--schedules FILE]
//
// Rows: one per --plan; gemms, the six matrix products as kernels of their own; floor, the block's FLOPs at
// the FMA rate measured beside everything else. FILE holds the schedules that a search found, a
// line each ("[7-14] handoff=pipeline ..."); any other variant is tuned here, over its whole schedule space,
// so that what the found plan is compared with runs as fast as this program can make it.
//
// A chain of N layers is timed: layer c reads what layer c - 1 wrote and its own copy of the weights.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <stdexcept>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/device_block.h"
#include "backend/cpu/kernel_compiler.h"
#include "backend/cpu/runner.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"
#include "codegen/kernel_source.h"
#include "fma_peak.h"
#include "lower/schedule.h"
#include "peer.h"
#include "plan/fusion_plan.h"

namespace peers {
namespace {

namespace block = fusetune::block;
namespace codegen = fusetune::codegen;
namespace cpu = fusetune::backend::cpu;
namespace lower = fusetune::lower;
namespace plan = fusetune::plan;

using ScheduleMap = std::map<plan::SegmentVariant, lower::Schedule>;

// Repetitions when schedules are chosen; a comparison has many more.
constexpr int kTuningSamples = 9;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The block's matrix products as segments of one operator.
std::vector<plan::SegmentVariant> gemm_variants() {
  std::vector<plan::SegmentVariant> variants;
  for (const block::OperatorInfo& op : block::operators()) {
    if (op.kind != block::OperatorKind::gemm && op.kind != block::OperatorKind::batched_gemm) continue;
    const int index = static_cast<int>(op.id);
    variants.push_back({{index, index}, false});
  }
  return variants;
}

double gemm_flops(const block::Problem& problem) {
  const auto tokens = static_cast<double>(problem.tokens()), hidden = static_cast<double>(problem.hidden());
  const double linear = 2 * tokens * hidden * (4 * hidden + 2 * static_cast<double>(problem.ffn));
  return linear + 4 * tokens * static_cast<double>(problem.seq) * hidden;  // scores and context
}

block::BlockData read_data(const std::filesystem::path& directory, const block::Problem& problem) {
  block::BlockData data;
  const auto file = [&](std::string_view name) { return directory / (std::string(name) + ".f32"); };
  for (int i = 0; i < block::kWeightCount; ++i) {
    const auto weight = static_cast<block::Weight>(i);
    const auto [rows, columns] = problem.shape(weight);
    data.weights[static_cast<std::size_t>(i)] = read_floats(file(block::name(weight)), rows * columns);
  }
  for (int i = 0; i < block::kParameterCount; ++i) {
    const auto parameter = static_cast<block::Parameter>(i);
    data.parameters[static_cast<std::size_t>(i)] =
        read_floats(file(block::name(parameter)), problem.elements(parameter));
  }
  data.hidden = read_floats(file("hidden"), problem.elements(block::Tensor::hidden));
  return data;
}

/// Float buffer on a cache line, where DeviceBlock's tensors are too.
struct Buffer {
  explicit Buffer(std::int64_t count)
      : floats(
            static_cast<float*>(std::aligned_alloc(64, (static_cast<std::size_t>(count) * 4 + 63) / 64 * 64)),
            &std::free) {
    if (!floats) throw std::bad_alloc();
  }
  std::unique_ptr<float, decltype(&std::free)> floats;
};

class Peer {
 public:
  Peer(const block::Problem& problem, const std::filesystem::path& data, int copies, int threads,
       const std::filesystem::path& cache)
      : problem_(problem),
        copies_(copies),
        info_(cpu::probe_cpu()),
        target_{info_.best_isa, threads, info_.l1_bytes, info_.l2_bytes},
        compiler_(cpu::find_compiler("")),
        kernel_compiler_(compiler_, target_.isa, options(cache)),
        memory_(problem, block::Mask(problem.mask, problem.batch, problem.seq), read_data(data, problem),
                threads),
        runner_(threads),
        between_{Buffer(problem.elements(block::Tensor::output)),
                 Buffer(problem.elements(block::Tensor::output))} {
    std::int64_t weights = 0;
    for (int i = 0; i < block::kWeightCount; ++i) {
      const auto [rows, columns] = problem.shape(static_cast<block::Weight>(i));
      weights += rows * columns * static_cast<std::int64_t>(sizeof(float));
    }
    memory_.set_rotation_bytes(copies * weights);
  }

  /// Chooses a schedule for each variant: the given one, else the fastest of its space.
  void prepare(const std::vector<plan::SegmentVariant>& variants,
               const std::map<std::string, std::string>& given) {
    std::vector<codegen::KernelSource> sources;
    for (const plan::SegmentVariant& variant : variants) {
      const auto found = given.find(variant.to_string());
      const auto schedules = found == given.end() ? lower::schedule_space(variant, problem_, target_)
                                                  : std::vector{lower::Schedule::parse(found->second)};
      for (const lower::Schedule& schedule : schedules) {
        sources.push_back(codegen::generate_cpu(variant, schedule, problem_, target_));
      }
    }
    load(sources);
    fill_tensors();
    for (const plan::SegmentVariant& variant : variants) chosen_[variant] = fastest(variant);
  }

  /// Weight copies may be dropped when memory runs short: no chain may point into dropped ones.
  void expect_chains_valid() {
    for (const auto& [chain, variants] : chains_) {
      for (std::size_t i = 0; i < chain->args.size(); ++i) {
        const auto copy = static_cast<int>(i / variants.size());
        const ft_args* now = memory_.arguments(kernel(variants[i % variants.size()]), copy);
        if (!std::ranges::equal(chain->args[i].weight, now->weight)) {
          throw std::runtime_error("too little memory for " + std::to_string(copies_) +
                                   " copies of every weight layout");
        }
      }
    }
  }

  Row plan_row(const plan::FusionPlan& fusion_plan) {
    const auto variants = fusion_plan.variants();
    Row row;
    row.settings = "mask " + std::to_string(fusion_plan.canonical_mask().value) + " " + settings(variants);
    const auto chain = keep_chain(variants, true);
    row.run = [this, chain] { return runner_.run_timed(chain->launches) / copies_; };
    row.output = [this, chain] {
      std::fill_n(chain->end, problem_.elements(block::Tensor::output),
                  std::numeric_limits<float>::quiet_NaN());
      runner_.run(chain->launches);
      return std::vector<float>(chain->end, chain->end + problem_.elements(block::Tensor::output));
    };
    return row;
  }

  Row gemms_row() {
    Row row;
    row.settings = settings(gemm_variants());
    row.self_checked = "the same kernels run in the unfused plan, whose output is checked";
    const auto chain = keep_chain(gemm_variants(), false);
    row.run = [this, chain] { return runner_.run_timed(chain->launches) / copies_; };
    return row;
  }

  Row floor_row() {
    const FmaPeak peak = fma_peak();
    Row row;
    row.settings = peak.name + ", " + std::to_string(runner_.threads()) + " threads";
    row.self_checked = "arithmetic on registers";
    row.run = [this, peak] {
      const cpu::Launch launch{peak.function, nullptr};
      const double flops = peak.flops_per_thread * runner_.threads();
      return gemm_flops(problem_) / (flops / runner_.run_timed({&launch, 1}));
    };
    return row;
  }

  std::map<std::string, std::string> versions() const {
    std::string flags;
    for (const std::string& flag : cpu::compile_flags(compiler_, target_.isa))
      flags += (flags.empty() ? "" : " ") + flag;
    return {{"cpu", info_.model},
            {"isa", std::string(lower::name(target_.isa))},
            {"compiler", compiler_.kind + " " + compiler_.version},
            {"flags", flags}};
  }

 private:
  struct Loaded {
    lower::Schedule schedule;
    std::unique_ptr<cpu::LoadedKernel> kernel;
  };
  struct Chain {
    std::vector<ft_args> args;
    std::vector<cpu::Launch> launches;
    float* end = nullptr;  // where the last layer's output is
  };

  static cpu::CompileOptions options(const std::filesystem::path& cache) {
    cpu::CompileOptions result;
    result.cache_directory = cache;
    return result;
  }

  void load(const std::vector<codegen::KernelSource>& sources) {
    const auto results = kernel_compiler_.compile(sources);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (results[i].status != cpu::CompileResult::Status::ok) {
        throw std::runtime_error("cannot compile " + sources[i].variant.to_string() + " " +
                                 sources[i].schedule.to_string() + ": " + results[i].log);
      }
      auto kernel = std::make_unique<cpu::LoadedKernel>(results[i].kernel);
      memory_.arguments(*kernel);  // scratch reaches its final size before any chain copies its pointers
      loaded_[sources[i].variant].push_back({sources[i].schedule, std::move(kernel)});
    }
  }

  /// Runs every loaded kernel once in operator order, so that whatever a kernel reads alone is finite.
  void fill_tensors() {
    for (const auto& [variant, candidates] : loaded_) {
      for (const Loaded& candidate : candidates) run_copies(*candidate.kernel, 1);
    }
  }

  double run_copies(const cpu::LoadedKernel& kernel, int copies) {
    std::vector<cpu::Launch> launches;
    for (int copy = 0; copy < copies; ++copy)
      launches.push_back({kernel.function(), memory_.arguments(kernel, copy)});
    return runner_.run_timed(launches) / copies;
  }

  lower::Schedule fastest(const plan::SegmentVariant& variant) {
    const auto& candidates = loaded_.at(variant);
    if (candidates.size() == 1) return candidates.front().schedule;
    std::vector<std::vector<double>> samples(candidates.size());
    for (int sample = 0; sample < kTuningSamples; ++sample) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const cpu::LoadedKernel* kernel = candidates[i].kernel.get();
        samples[i].push_back(run_copies(*kernel, std::max(copies_, memory_.copies({&kernel, 1}))));
      }
    }
    std::vector<double> medians;
    for (const auto& times : samples) medians.push_back(median(times));
    return candidates[static_cast<std::size_t>(std::ranges::min_element(medians) - medians.begin())].schedule;
  }

  const cpu::LoadedKernel& kernel(const plan::SegmentVariant& variant) const {
    const auto& candidates = loaded_.at(variant);
    const auto found = std::ranges::find(candidates, chosen_.at(variant), &Loaded::schedule);
    return *found->kernel;
  }

  std::shared_ptr<Chain> keep_chain(const std::vector<plan::SegmentVariant>& variants, bool connected) {
    chains_.emplace_back(std::make_shared<Chain>(make_chain(variants, connected)), variants);
    return chains_.back().first;
  }

  /// Launches of all layers. `connected`: each layer reads the one before, through two buffers in turn, so
  /// that the block's own input stays as it is.
  Chain make_chain(const std::vector<plan::SegmentVariant>& variants, bool connected) {
    Chain chain;
    for (int copy = 0; copy < copies_; ++copy) {
      for (const plan::SegmentVariant& variant : variants) {
        ft_args args = *memory_.arguments(kernel(variant), copy);
        if (connected) connect(args, copy);
        chain.args.push_back(args);
      }
    }
    for (std::size_t i = 0; i < chain.args.size(); ++i) {
      chain.launches.push_back({kernel(variants[i % variants.size()]).function(), &chain.args[i]});
    }
    chain.end = between_[static_cast<std::size_t>((copies_ - 1) % 2)].floats.get();
    return chain;
  }

  void connect(ft_args& args, int copy) {
    void*& input = args.tensor[static_cast<int>(block::Tensor::hidden)];
    void*& output = args.tensor[static_cast<int>(block::Tensor::output)];
    if (input && copy > 0) input = between_[static_cast<std::size_t>((copy - 1) % 2)].floats.get();
    if (output) output = between_[static_cast<std::size_t>(copy % 2)].floats.get();
  }

  std::string settings(const std::vector<plan::SegmentVariant>& variants) const {
    std::string text;
    for (const plan::SegmentVariant& variant : variants) {
      text += (text.empty() ? "" : "; ") + variant.to_string() + " " + chosen_.at(variant).to_string();
    }
    return text;
  }

  block::Problem problem_;
  int copies_;
  cpu::CpuInfo info_;
  lower::CpuTarget target_;
  cpu::Compiler compiler_;
  cpu::KernelCompiler kernel_compiler_;
  cpu::DeviceBlock memory_;
  cpu::Runner runner_;
  std::array<Buffer, 2> between_;
  std::map<plan::SegmentVariant, std::vector<Loaded>> loaded_;
  ScheduleMap chosen_;
  std::vector<std::pair<std::shared_ptr<Chain>, std::vector<plan::SegmentVariant>>> chains_;
};

block::Problem read_problem(const Arguments& arguments) {
  const block::Preset& preset = block::find_preset(arguments.one("--preset"));
  block::Problem problem;
  problem.batch = std::stoll(arguments.one("--batch"));
  problem.seq = std::stoll(arguments.one("--seq"));
  problem.heads = preset.heads;
  problem.head_size = preset.head_size;
  problem.ffn = preset.ffn;
  problem.layers = preset.layers;
  problem.eps = preset.eps;
  problem.check();
  return problem;
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv,
                            {"--preset", "--batch", "--seq", "--data", "--copies", "--threads", "--cache",
                             "--plan", "--schedules"});
  Peer peer(read_problem(arguments), arguments.one("--data"), std::stoi(arguments.one("--copies")),
            std::stoi(arguments.one("--threads")), arguments.one("--cache"));

  std::map<std::string, plan::FusionPlan> plans;
  // The unfused plan's kernels write every tensor and include the bare products.
  std::vector<plan::SegmentVariant> variants = plan::FusionPlan::unfused().variants();
  for (const std::string& text : arguments.all("--plan")) {
    const auto parts = split(text, '=');
    if (parts.size() != 2) throw std::runtime_error("--plan takes ROW=MASK, got '" + text + "'");
    const auto fusion_plan = plan::FusionPlan::from_mask(plan::parse_mask(parts[1]));
    plans.emplace(parts[0], fusion_plan);
    for (const plan::SegmentVariant& variant : fusion_plan.variants()) variants.push_back(variant);
  }
  std::ranges::sort(variants);
  variants.erase(std::unique(variants.begin(), variants.end()), variants.end());

  const std::string schedules = arguments.one_or("--schedules", "");
  peer.prepare(variants, schedules.empty() ? std::map<std::string, std::string>{} : read_table(schedules));
  std::map<std::string, Row> rows{{"gemms", peer.gemms_row()}, {"floor", peer.floor_row()}};
  for (const auto& [name, fusion_plan] : plans) rows.emplace(name, peer.plan_row(fusion_plan));
  peer.expect_chains_valid();
  serve(rows, peer.versions());
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  try {
    return peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "fusetune_peer: " << error.what() << "\n";
    return 3;
  }
}
