// run: the block once, with the user's weights and input or generated ones.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "block/data.h"
#include "block/npy.h"
#include "block/rounding.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/session_options.h"

namespace fusetune::cli {
namespace {

std::string dimensions(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

/// The data the session ran on, made again from the same sources.
block::BlockData data_used(const block::Problem& problem, const measure::SessionOptions& options) {
  block::BlockData data = block::generate_data(problem);
  if (!options.weights.empty()) block::load_weights(options.weights, options.layer, problem, data);
  if (!options.input.empty()) {
    data.hidden = block::read_npy_floats(options.input).values;
    block::round_to(data.hidden, problem.dtype);
  }
  return data;
}

void save_mask(const std::filesystem::path& directory, const block::Problem& problem) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  std::vector<std::uint8_t> visible;
  visible.reserve(static_cast<std::size_t>(mask.entries() * mask.seq() * mask.seq()));
  for (std::int64_t b = 0; b < mask.entries(); ++b)
    for (std::int64_t i = 0; i < mask.seq(); ++i)
      for (std::int64_t j = 0; j < mask.seq(); ++j) visible.push_back(mask.visible(b, i, j));
  const std::vector<std::int64_t> shape = {mask.entries(), mask.seq(), mask.seq()};
  block::write_npy(directory / "mask.npy", shape, visible);
}

/// One .npy per tensor, named as in the documentation, the mask as booleans, and the problem's key.
void save_data(const std::filesystem::path& directory, const block::Problem& problem,
               const block::BlockData& data) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw base::EnvironmentError(fmt::format("cannot create {}: {}", directory.string(), error.message()));
  const auto file = [&](std::string_view name) { return directory / fmt::format("{}.npy", name); };
  for (int i = 0; i < block::kWeightCount; ++i) {
    const auto weight = static_cast<block::Weight>(i);
    const auto [rows, columns] = problem.shape(weight);
    const std::vector<std::int64_t> shape = {rows, columns};
    block::write_npy(file(block::name(weight)), shape, data[weight]);
  }
  for (int i = 0; i < block::kParameterCount; ++i) {
    const auto parameter = static_cast<block::Parameter>(i);
    const std::vector<std::int64_t> shape = {problem.elements(parameter)};
    block::write_npy(file(block::name(parameter)), shape, data[parameter]);
  }
  block::write_npy(file("hidden"), problem.shape(block::Tensor::hidden), data.hidden);
  save_mask(directory, problem);
  base::write_file_atomic(directory / "problem.txt", problem.key() + "\n");
}

std::string summary(const block::Problem& problem, const std::vector<float>& output,
                    const measure::CheckResult& check) {
  double squares = 0;
  for (const float value : output) squares += double{value} * value;
  std::string first;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, output.size()); ++i)
    first += fmt::format(" {:.6g}", output[i]);
  std::string text = fmt::format("output        {}\nnorm          {:.9g}\nfirst values {}\n",
                                 dimensions(problem.shape(block::Tensor::output)), std::sqrt(squares), first);
  for (const measure::TensorCheck& tensor : check.tensors)
    if (tensor.tensor == block::name(block::Tensor::output))
      text += fmt::format("norm error    {:.2e}\nworst error   {:.2e} of its row's largest value\n",
                          tensor.norm_error, tensor.worst_error);
  return text;
}

}  // namespace

int run_run(Options& options) {
  MaskArguments mask_arguments;
  ScheduleOption schedule;
  SessionArguments session_arguments;
  ProblemOptions problem_options;
  std::string output_file, data_directory;
  mask_arguments.declare(options, false);
  options.text("--output", output_file, "FILE.npy", "write the block's output [B,S,D]");
  options.text("--save-data", data_directory, "DIR",
               "write weights, parameters, input and mask as .npy files");
  schedule.declare(options);
  session_arguments.declare(options);
  problem_options.declare(options);
  options.parse();
  const std::vector<plan::FusionMask> masks = mask_arguments.at_least_one();
  if (masks.size() > 1) throw base::UsageError("run takes one MASK");

  const plan::FusionPlan plan = plan::FusionPlan::from_mask(masks.front());
  const block::Problem problem = problem_options.problem();
  const measure::SessionOptions session_options = session_arguments.session(problem_options);
  catch_interrupts();
  measure::Session session(problem, session_options);
  const ScheduleTable schedules = schedule.table(session, session_options);
  const measure::PlanKernels kernels = PlanCompiler(session, {&plan, 1}, schedules).kernels(plan);
  stop_if_interrupted();
  base::note(fmt::format("{}   {}   {}   {}", plan.to_string(), describe(problem),
                         describe(session.environment()), describe(schedules, plan.variants())));

  const measure::CheckResult check = session.check_plan(kernels);
  const bool ran = check.outcome == measure::Outcome::ok || check.outcome == measure::Outcome::wrong_result;
  if (!ran) {
    base::note(fmt::format("the plan did not run: {}: {}", measure::name(check.outcome), check.message));
    return kBadAnswer;
  }
  const std::vector<float> output = session.run_plan(kernels);
  if (!output_file.empty()) block::write_npy(output_file, problem.shape(block::Tensor::output), output);
  if (!data_directory.empty()) save_data(data_directory, problem, data_used(problem, session_options));
  print(summary(problem, output, check));
  if (check.outcome == measure::Outcome::ok) return kDone;
  base::note(fmt::format("the output is wrong: {}", check.message));
  return kBadAnswer;
}

}  // namespace fusetune::cli
