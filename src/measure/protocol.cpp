#include "measure/protocol.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/number.h"
#include "measure/statistics.h"

namespace fusetune::measure {
namespace {

using Json = nlohmann::json;
using backend::CompiledKernel;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(base::format_shortest(value)); }

double number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto value = base::parse_double(json.get<std::string>());
  if (!value) throw base::InternalError("not a number in a message: " + json.dump());
  return *value;
}

Json numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

std::vector<double> numbers(const Json& json) {
  std::vector<double> values;
  for (const Json& element : json) values.push_back(number(element));
  return values;
}

Json tensors(const std::vector<block::Tensor>& values) {
  Json json = Json::array();
  for (const block::Tensor tensor : values) json.push_back(static_cast<int>(tensor));
  return json;
}

std::vector<block::Tensor> tensors(const Json& json) {
  std::vector<block::Tensor> values;
  for (const Json& element : json) {
    const int index = element.get<int>();
    if (index < 0 || index >= block::kTensorCount) throw base::InternalError("no such tensor in a message");
    values.push_back(static_cast<block::Tensor>(index));
  }
  return values;
}

/// Text that need not be UTF-8 (a compiler's log, a path) without losing the message.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- Kernels
// -------------------------------------------------------------------------------------------------

/// What kernels of all devices have.
template <class Kernel>
Json common_json(const Kernel& kernel) {
  return {{"symbol", kernel.symbol},
          {"first", kernel.variant.segment.first},
          {"last", kernel.variant.segment.last},
          {"hand_written", kernel.variant.hand_written},
          {"schedule", kernel.schedule.to_string()},
          {"hash", kernel.hash},
          {"reads", tensors(kernel.reads)},
          {"writes", tensors(kernel.writes)},
          {"workspace", tensors(kernel.workspace)}};
}

template <class Kernel>
Kernel common_from(const Json& json) {
  Kernel kernel;
  kernel.symbol = json.at("symbol").get<std::string>();
  kernel.variant.segment = {json.at("first").get<int>(), json.at("last").get<int>()};
  kernel.variant.hand_written = json.at("hand_written").get<bool>();
  kernel.schedule = decltype(kernel.schedule)::parse(json.at("schedule").get<std::string>());
  kernel.hash = json.at("hash").get<std::string>();
  kernel.reads = tensors(json.at("reads"));
  kernel.writes = tensors(json.at("writes"));
  kernel.workspace = tensors(json.at("workspace"));
  return kernel;
}

Json to_json(const codegen::KernelSource& kernel) {
  Json layouts = Json::array();
  for (const auto& layout : kernel.layouts) {
    layouts.push_back(layout ? Json{layout->panel, layout->group} : Json(nullptr));
  }
  Json json = common_json(kernel);
  json["layouts"] = layouts;
  json["scratch"] = kernel.scratch_bytes;
  return json;
}

codegen::KernelSource cpu_kernel_from(const Json& json) {
  auto kernel = common_from<codegen::KernelSource>(json);
  for (std::size_t weight = 0; weight < kernel.layouts.size(); ++weight) {
    const Json& layout = json.at("layouts").at(weight);
    if (!layout.is_null()) kernel.layouts[weight] = {layout.at(0).get<int>(), layout.at(1).get<int>()};
  }
  kernel.scratch_bytes = json.at("scratch").get<std::int64_t>();
  return kernel;
}

block::Weight weight_from(const Json& json) {
  const int index = json.get<int>();
  if (index < 0 || index >= block::kWeightCount) throw base::InternalError("no such weight in a message");
  return static_cast<block::Weight>(index);
}

block::Parameter parameter_from(const Json& json) {
  const int index = json.get<int>();
  if (index < 0 || index >= block::kParameterCount)
    throw base::InternalError("no such parameter in a message");
  return static_cast<block::Parameter>(index);
}

Json to_json(const codegen::LibraryProduct& product) {
  Json json = common_json(product);
  json["dtype"] = block::name(product.dtype);
  json["weight"] = static_cast<int>(product.weight);
  json["product"] = {product.m, product.n, product.k};
  if (product.bias) json["bias"] = static_cast<int>(*product.bias);
  return json;
}

codegen::LibraryProduct library_product_from(const Json& json) {
  auto product = common_from<codegen::LibraryProduct>(json);
  product.dtype = block::parse_dtype(json.at("dtype").get<std::string>());
  product.weight = weight_from(json.at("weight"));
  if (json.contains("bias")) product.bias = parameter_from(json.at("bias"));
  const Json& sizes = json.at("product");
  product.m = sizes.at(0).get<std::int64_t>();
  product.n = sizes.at(1).get<std::int64_t>();
  product.k = sizes.at(2).get<std::int64_t>();
  if (product.reads.size() != 1 || product.writes.size() != 1)
    throw base::InternalError("a library's product with other than one input and one output in a message");
  return product;
}

Json to_json(const codegen::GpuKernel& kernel) {
  Json tasks = Json::array();
  for (const auto& [rows, times, by_entry] : kernel.tasks) tasks.push_back({rows, times, by_entry});
  Json json = common_json(kernel);
  json["dtype"] = block::name(kernel.dtype);
  json["seq"] = kernel.seq;
  json["heads"] = kernel.heads;
  json["stages"] = kernel.stages;
  json["tasks"] = tasks;
  json["shared"] = kernel.shared_bytes;
  json["block_scratch"] = kernel.block_scratch_floats;
  json["split_tiles"] = kernel.split_tiles;
  json["weights"] = Json::array();
  for (const block::Weight weight : kernel.weights) json["weights"].push_back(static_cast<int>(weight));
  return json;
}

codegen::GpuKernel gpu_kernel_from(const Json& json) {
  auto kernel = common_from<codegen::GpuKernel>(json);
  kernel.dtype = block::parse_dtype(json.at("dtype").get<std::string>());
  kernel.seq = json.at("seq").get<std::int64_t>();
  kernel.heads = json.at("heads").get<std::int64_t>();
  kernel.stages = json.at("stages").get<int>();
  for (const Json& task : json.at("tasks"))
    kernel.tasks.push_back(
        {task.at(0).get<std::int64_t>(), task.at(1).get<std::int64_t>(), task.at(2).get<bool>()});
  kernel.shared_bytes = json.at("shared").get<std::int64_t>();
  kernel.block_scratch_floats = json.at("block_scratch").get<std::int64_t>();
  kernel.split_tiles = json.at("split_tiles").get<std::vector<std::int64_t>>();
  for (const Json& weight : json.at("weights")) kernel.weights.push_back(weight_from(weight));
  return kernel;
}

Json to_json(const CompiledKernel& kernel) {
  const codegen::GpuKernel* const gpu = kernel.source.gpu();
  const codegen::LibraryProduct* const library = kernel.source.library();
  Json json = gpu != nullptr       ? to_json(*gpu)
              : library != nullptr ? to_json(*library)
                                   : to_json(*kernel.source.cpu());
  json["image"] = kernel.image.string();
  return json;
}

CompiledKernel kernel_from(const Json& json) {
  CompiledKernel kernel;
  kernel.image = json.at("image").get<std::string>();
  if (json.contains("tasks"))
    kernel.source = gpu_kernel_from(json);
  else if (json.contains("product"))
    kernel.source = library_product_from(json);
  else
    kernel.source = cpu_kernel_from(json);
  return kernel;
}

Json kernels_json(const PlanKernels& kernels) {
  Json json = Json::array();
  for (const CompiledKernel& kernel : kernels) json.push_back(to_json(kernel));
  return json;
}

PlanKernels kernels_from(const Json& json) {
  PlanKernels kernels;
  for (const Json& kernel : json) kernels.push_back(kernel_from(kernel));
  return kernels;
}

// ---- Setup
// ---------------------------------------------------------------------------------------------------

Json to_json(const WorkerSetup& setup) {
  return {{"protocol", kProtocolVersion},
          {"problem", setup.problem.key()},
          {"device", name(setup.device)},
          {"ordinal", setup.executor.device},
          {"threads", setup.executor.threads},
          {"cache", name(setup.cache)},
          {"samples", setup.samples},
          {"min_sample_seconds", setup.min_sample_seconds},
          {"copies_stay", setup.copies_stay},
          {"rotation_bytes", setup.executor.rotation_bytes},
          {"flush_bytes", setup.executor.flush_bytes},
          {"image", setup.image},
          {"progress", setup.progress}};
}

WorkerSetup setup_from(const Json& json) {
  if (const int version = json.at("protocol").get<int>(); version != kProtocolVersion) {
    throw base::InternalError("this worker speaks protocol " + std::to_string(kProtocolVersion) +
                              ", its session " + std::to_string(version) +
                              ": they are of different versions of fusetune");
  }
  return {.problem = block::Problem::parse(json.at("problem").get<std::string>()),
          .device = parse_device_kind(json.at("device").get<std::string>()),
          .executor = {.threads = json.at("threads").get<int>(),
                       .device = json.at("ordinal").get<int>(),
                       .rotation_bytes = json.at("rotation_bytes").get<std::int64_t>(),
                       .flush_bytes = json.at("flush_bytes").get<std::int64_t>()},
          .cache = parse_cache_mode(json.at("cache").get<std::string>()),
          .samples = json.at("samples").get<int>(),
          .min_sample_seconds = json.at("min_sample_seconds").get<double>(),
          .copies_stay = json.at("copies_stay").get<bool>(),
          .image = json.at("image").get<std::string>(),
          .progress = json.at("progress").get<std::string>()};
}

// ---- Results
// -------------------------------------------------------------------------------------------------

Json to_json(const TensorCheck& check) {
  return {{"tensor", check.tensor},
          {"passed", check.passed},
          {"norm_error", number(check.norm_error)},
          {"worst_error", number(check.worst_error)},
          {"worst_at", check.worst_at},
          {"got", number(check.got)},
          {"want", number(check.want)},
          {"not_finite", check.not_finite},
          {"note", check.note}};
}

TensorCheck tensor_check_from(const Json& json) {
  return {.tensor = json.at("tensor").get<std::string>(),
          .passed = json.at("passed").get<bool>(),
          .norm_error = number(json.at("norm_error")),
          .worst_error = number(json.at("worst_error")),
          .worst_at = json.at("worst_at").get<std::vector<std::int64_t>>(),
          .got = number(json.at("got")),
          .want = number(json.at("want")),
          .not_finite = json.at("not_finite").get<std::int64_t>(),
          .note = json.at("note").get<std::string>()};
}

Json to_json(const CheckResult& result) {
  Json checks = Json::array();
  for (const TensorCheck& check : result.tensors) checks.push_back(to_json(check));
  return {{"outcome", name(result.outcome)}, {"message", result.message}, {"tensors", checks}};
}

CheckResult check_from(const Json& json) {
  CheckResult result{.outcome = parse_outcome(json.at("outcome").get<std::string>()),
                     .message = json.at("message").get<std::string>(),
                     .tensors = {}};
  for (const Json& check : json.at("tensors")) result.tensors.push_back(tensor_check_from(check));
  return result;
}

Json to_json(const Measurement& measurement) {
  return {{"outcome", name(measurement.outcome)},          {"message", measurement.message},
          {"samples_us", numbers(measurement.samples_us)}, {"dropped", measurement.dropped},
          {"norm_error", number(measurement.norm_error)},  {"worst_error", number(measurement.worst_error)},
          {"reference_us", measurement.reference_us},      {"slowdown", number(measurement.slowdown)}};
}

Measurement measurement_from(const Json& json) {
  Measurement measurement;
  measurement.outcome = parse_outcome(json.at("outcome").get<std::string>());
  measurement.message = json.at("message").get<std::string>();
  measurement.samples_us = numbers(json.at("samples_us"));
  measurement.time = summarize(measurement.samples_us);
  measurement.dropped = json.at("dropped").get<int>();
  measurement.norm_error = number(json.at("norm_error"));
  measurement.worst_error = number(json.at("worst_error"));
  measurement.reference_us = json.at("reference_us").get<double>();
  measurement.slowdown = number(json.at("slowdown"));
  return measurement;
}

Json to_json(const PairSeries& series) {
  return {{"outcome", name(series.outcome)},
          {"baseline_us", numbers(series.baseline_us)},
          {"plan_us", numbers(series.plan_us)},
          {"dropped", series.dropped}};
}

PairSeries series_from(const Json& json) {
  return {.outcome = parse_outcome(json.at("outcome").get<std::string>()),
          .baseline_us = numbers(json.at("baseline_us")),
          .plan_us = numbers(json.at("plan_us")),
          .dropped = json.at("dropped").get<int>()};
}

Json to_json(const PlanProfile& profile) {
  Json passes = Json::array();
  for (const std::vector<double>& pass : profile.passes_us) passes.push_back(numbers(pass));
  Json calls = Json::array();
  for (const ProfiledCall& call : profile.calls)
    calls.push_back({call.name, number(call.begin_us), number(call.duration_us)});
  return {{"outcome", name(profile.outcome)},
          {"message", profile.message},
          {"passes_us", std::move(passes)},
          {"calls", std::move(calls)},
          {"dropped", profile.dropped}};
}

PlanProfile profile_from(const Json& json) {
  PlanProfile profile{.outcome = parse_outcome(json.at("outcome").get<std::string>()),
                      .message = json.at("message").get<std::string>(),
                      .passes_us = {},
                      .calls = {},
                      .dropped = json.at("dropped").get<int>()};
  for (const Json& pass : json.at("passes_us")) profile.passes_us.push_back(numbers(pass));
  for (const Json& call : json.at("calls"))
    profile.calls.push_back({call.at(0).get<std::string>(), number(call.at(1)), number(call.at(2))});
  return profile;
}

/// Runs `decode` on parsed text; whatever is wrong with the text is our own bug.
template <typename Decode>
auto decoded(std::string_view text, const char* what, Decode decode) {
  try {
    return decode(Json::parse(text));
  } catch (const Json::exception& error) {
    throw base::InternalError(std::string("a broken ") + what +
                              " between session and worker: " + error.what());
  } catch (const base::UsageError& error) {  // of a problem, a schedule, an outcome in it: no user wrote them
    throw base::InternalError(std::string("a broken ") + what +
                              " between session and worker: " + error.what());
  }
}

}  // namespace

std::string encode(const Request& request) {
  Json plans = Json::array();
  for (const PlanKernels& plan : request.plans) plans.push_back(kernels_json(plan));
  Json json = {{"task", static_cast<int>(request.task)},
               {"number", request.number},
               {"whole", request.whole},
               {"plans", std::move(plans)},
               {"pairs", request.pairs},
               {"process", request.process},
               {"passes", request.passes},
               {"reference", kernels_json(request.reference)},
               {"reference_us", request.reference_us},
               {"retry_seconds", request.retry_seconds}};
  if (request.task == Task::setup) json["setup"] = to_json(request.setup);
  return dump(json);
}

Request decode_request(std::string_view text) {
  return decoded(text, "request", [](const Json& json) {
    Request request;
    const int task = json.at("task").get<int>();
    if (task < 0 || task > static_cast<int>(Task::profile))
      throw base::InternalError("a worker was asked for the unknown task " + std::to_string(task));
    request.task = static_cast<Task>(task);
    request.number = json.at("number").get<std::uint64_t>();
    if (request.task == Task::setup) request.setup = setup_from(json.at("setup"));
    request.whole = json.at("whole").get<bool>();
    for (const Json& plan : json.at("plans")) request.plans.push_back(kernels_from(plan));
    request.pairs = json.at("pairs").get<int>();
    request.process = json.at("process").get<int>();
    request.passes = json.at("passes").get<int>();
    request.reference = kernels_from(json.at("reference"));
    request.reference_us = json.at("reference_us").get<double>();
    request.retry_seconds = json.at("retry_seconds").get<double>();
    return request;
  });
}

std::string encode(const Reply& reply) {
  Json series = Json::array();
  for (const PairSeries& one : reply.series) series.push_back(to_json(one));
  return dump({{"error", reply.error},
               {"internal_error", reply.internal_error},
               {"device_error", reply.device_error},
               {"check", to_json(reply.check)},
               {"measurement", to_json(reply.measurement)},
               {"level_us", number(reply.level_us)},
               {"series", std::move(series)},
               {"profile", to_json(reply.profile)}});
}

Reply decode_reply(std::string_view text) {
  return decoded(text, "reply", [](const Json& json) {
    Reply reply;
    reply.error = json.at("error").get<std::string>();
    reply.internal_error = json.at("internal_error").get<bool>();
    reply.device_error = json.at("device_error").get<std::string>();
    reply.check = check_from(json.at("check"));
    reply.measurement = measurement_from(json.at("measurement"));
    reply.level_us = number(json.at("level_us"));
    for (const Json& one : json.at("series")) reply.series.push_back(series_from(one));
    reply.profile = profile_from(json.at("profile"));
    return reply;
  });
}

}  // namespace fusetune::measure
