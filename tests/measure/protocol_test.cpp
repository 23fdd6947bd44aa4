#include "measure/protocol.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.h"

namespace fusetune::measure {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

codegen::KernelSource cpu_source() {
  codegen::KernelSource source;
  source.variant = {{7, 14}, false};
  source.schedule.hand_off = lower::HandOff::pipeline;
  source.schedule.tile_columns = 32;
  source.symbol = "ft_segment_7_14_abc";
  source.hash = "0123";
  source.body = "not sent";
  source.layouts[1] = codegen::PanelLayout{16, 64};
  source.reads = {block::Tensor::merged, block::Tensor::hidden};
  source.writes = {block::Tensor::output};
  source.workspace = {block::Tensor::ffn_act};
  source.scratch_bytes = std::int64_t{5} << 32;
  return source;
}

backend::CompiledKernel kernel() { return {cpu_source(), "/tmp/a \"quoted\" \xc3\xa4/x.so", 0}; }

/// Every phase of a launch: tasks by rows and by entry, counters, split k, workspace of each block.
codegen::GpuKernel gpu_source() {
  codegen::GpuKernel source;
  source.variant = {{2, 6}, true};
  source.schedule.sync = lower::GpuSync::rows;
  source.schedule.split_k = 4;
  source.dtype = block::Dtype::bf16;
  source.symbol = "ft_segment_2_6_bf16_abc";
  source.hash = "4567";
  source.body = "not sent";
  source.reads = {block::Tensor::qkv};
  source.writes = {block::Tensor::merged};
  source.weights = {block::Weight::w_out};
  source.seq = 65;
  source.heads = 3;
  source.stages = 2;
  source.tasks = {{64, 3, true}, {16, 1, false}};
  source.shared_bytes = 70000;
  source.block_scratch_floats = 1000;
  source.split_tiles = {5, 6};
  return source;
}

TEST(Protocol, RequestsReadBack) {
  Request request;
  request.task = Task::compare;
  request.number = std::numeric_limits<std::uint64_t>::max();
  request.whole = true;
  request.plans = {{kernel(), kernel()}, {}};
  request.pairs = 160;
  request.process = 3;
  request.passes = 50;
  request.reference = {kernel()};
  request.reference_us = 0.1;
  const Request back = decode_request(encode(request));
  EXPECT_EQ(back.task, Task::compare);
  EXPECT_EQ(back.number, request.number);
  EXPECT_TRUE(back.whole);
  EXPECT_EQ(back.pairs, 160);
  EXPECT_EQ(back.process, 3);
  EXPECT_EQ(back.passes, 50);
  EXPECT_EQ(back.reference_us, 0.1);
  ASSERT_EQ(back.reference.size(), 1U);
  EXPECT_EQ(back.reference[0].source.symbol(), cpu_source().symbol);
  ASSERT_EQ(back.plans.size(), 2U);
  ASSERT_EQ(back.plans[0].size(), 2U);
  EXPECT_EQ(back.plans[0][1].image, kernel().image);
  ASSERT_NE(back.plans[0][1].source.cpu(), nullptr);
  const codegen::KernelSource& got = *back.plans[0][1].source.cpu();
  const codegen::KernelSource want = cpu_source();
  EXPECT_EQ(got.symbol, want.symbol);
  EXPECT_EQ(got.variant, want.variant);
  EXPECT_EQ(got.schedule, want.schedule);
  EXPECT_EQ(got.hash, want.hash);
  EXPECT_EQ(got.layouts, want.layouts);
  EXPECT_EQ(got.reads, want.reads);
  EXPECT_EQ(got.writes, want.writes);
  EXPECT_EQ(got.workspace, want.workspace);
  EXPECT_EQ(got.scratch_bytes, want.scratch_bytes);
  EXPECT_EQ(got.body, "");
}

TEST(Protocol, AGpusKernelReadsBackAsItIsLaunched) {
  Request request;
  request.task = Task::check;
  request.plans = {{{gpu_source(), "/tmp/x.cubin", 0}}};
  const Request back = decode_request(encode(request));
  ASSERT_EQ(back.plans.at(0).size(), 1U);
  ASSERT_NE(back.plans[0][0].source.gpu(), nullptr);
  const codegen::GpuKernel& got = *back.plans[0][0].source.gpu();
  const codegen::GpuKernel want = gpu_source();
  EXPECT_EQ(back.plans[0][0].image, "/tmp/x.cubin");
  EXPECT_EQ(got.symbol, want.symbol);
  EXPECT_EQ(got.variant, want.variant);
  EXPECT_EQ(got.schedule, want.schedule);
  EXPECT_EQ(got.dtype, want.dtype);
  EXPECT_EQ(got.hash, want.hash);
  EXPECT_EQ(got.reads, want.reads);
  EXPECT_EQ(got.writes, want.writes);
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.body, "");
  for (const std::int64_t resident : {0, 7}) {
    const codegen::GpuLaunch launch = got.launch(5, resident), wanted = want.launch(5, resident);
    EXPECT_EQ(launch.blocks, wanted.blocks);
    EXPECT_EQ(launch.threads, wanted.threads);
    EXPECT_EQ(launch.shared_bytes, wanted.shared_bytes);
    EXPECT_EQ(launch.scratch_bytes, wanted.scratch_bytes);
    EXPECT_EQ(launch.sync_words, wanted.sync_words);
    EXPECT_EQ(launch.cooperative, wanted.cooperative);
  }
}

TEST(Protocol, ALibrarysProductReadsBack) {
  lower::GpuTarget target;
  target.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  block::Problem problem;
  problem.dtype = block::Dtype::bf16;
  const codegen::LibraryProduct want = codegen::generate_library(
      {{10, 10}, false}, lower::GpuSchedule::parse("product=library"), problem, target);
  Request request;
  request.task = Task::check;
  request.plans = {{{want, {}, 0}}};
  const Request back = decode_request(encode(request));
  ASSERT_EQ(back.plans.at(0).size(), 1U);
  ASSERT_NE(back.plans[0][0].source.library(), nullptr);
  const codegen::LibraryProduct& got = *back.plans[0][0].source.library();
  EXPECT_EQ(got.symbol, want.symbol);
  EXPECT_EQ(got.variant, want.variant);
  EXPECT_EQ(got.schedule, want.schedule);
  EXPECT_EQ(got.hash, want.hash);
  EXPECT_EQ(got.dtype, want.dtype);
  EXPECT_EQ(got.weight, block::Weight::w_ffn1);
  EXPECT_EQ(got.reads, want.reads);
  EXPECT_EQ(got.writes, want.writes);
  EXPECT_EQ(std::tuple(got.m, got.n, got.k), std::tuple(want.m, want.n, want.k));
  EXPECT_EQ(got.bias, std::nullopt);
}

TEST(Protocol, AProductsBiasReadsBack) {
  lower::GpuTarget target;
  target.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  block::Problem problem;
  problem.gelu = block::Gelu::tanh;
  Request request;
  request.task = Task::check;
  request.plans = {{{codegen::generate_library({{10, 11}, false},
                                               lower::GpuSchedule::parse("product=library"), problem, target),
                     {},
                     0}}};
  const std::string text = encode(request);
  const auto bias_of = [](const std::string& message) {
    return decode_request(message).plans.at(0).at(0).source.library()->bias;
  };
  EXPECT_EQ(bias_of(text), block::Parameter::b_ffn1);
  const std::string was = "\"bias\":" + std::to_string(static_cast<int>(block::Parameter::b_ffn1));
  const std::size_t at = text.find(was);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_THROW(bias_of(std::string(text).replace(at, was.size(), "\"bias\":8")), base::InternalError);
}

TEST(Protocol, SetupReadsBack) {
  Request request;
  request.task = Task::setup;
  request.setup = {.problem = {},
                   .device = DeviceKind::cuda,
                   .executor = {.threads = 3, .device = 2, .rotation_bytes = 7, .flush_bytes = 9},
                   .cache = CacheMode::cold,
                   .samples = 5,
                   .min_sample_seconds = 1e-4,
                   .copies_stay = true,
                   .image = "/proc/1/fd/5",
                   .progress = "/proc/1/fd/6"};
  request.setup.problem.eps = 1e-12;
  request.setup.problem.mask = block::MaskSpec::parse("sliding:window=3,causal=1");
  const WorkerSetup back = decode_request(encode(request)).setup;
  EXPECT_EQ(back.problem.key(), request.setup.problem.key());
  EXPECT_EQ(back.device, DeviceKind::cuda);
  EXPECT_EQ(back.executor.threads, 3);
  EXPECT_EQ(back.executor.device, 2);
  EXPECT_EQ(back.cache, CacheMode::cold);
  EXPECT_EQ(back.samples, 5);
  EXPECT_EQ(back.min_sample_seconds, 1e-4);
  EXPECT_TRUE(back.copies_stay);
  EXPECT_EQ(back.executor.rotation_bytes, 7);
  EXPECT_EQ(back.executor.flush_bytes, 9);
  EXPECT_EQ(back.image, "/proc/1/fd/5");
  EXPECT_EQ(back.progress, "/proc/1/fd/6");
}

TEST(Protocol, RepliesReadBackWithNumbersThatJsonLacks) {
  Reply reply;
  reply.error = "no memory";
  reply.internal_error = true;
  reply.device_error = "illegal address";
  reply.check = {.outcome = Outcome::wrong_result,
                 .message = "bad \xff byte",
                 .tensors = {{.tensor = "norm1",
                              .passed = false,
                              .norm_error = kInfinity,
                              .worst_error = 0.25,
                              .worst_at = {1, 2, 3},
                              .got = std::nan(""),
                              .want = -kInfinity,
                              .not_finite = 4,
                              .note = "note"}}};
  reply.measurement.outcome = Outcome::ok;
  reply.measurement.samples_us = {3, 1, 2.5};
  reply.measurement.dropped = 1;
  reply.measurement.reference_us = 17;
  reply.measurement.slowdown = 1.25;
  reply.level_us = 0.3;
  reply.series = {{.outcome = Outcome::ok, .baseline_us = {1, 2}, .plan_us = {3, 4}, .dropped = 5}};
  reply.profile = {.outcome = Outcome::noisy,
                   .message = "busy",
                   .passes_us = {{0, 1.5}, {2, 4}},
                   .calls = {{"launch [7-9]", 0.5, 0.25}},
                   .dropped = 7};
  const Reply back = decode_reply(encode(reply));
  EXPECT_EQ(back.error, "no memory");
  EXPECT_TRUE(back.internal_error);
  EXPECT_EQ(back.check.outcome, Outcome::wrong_result);
  ASSERT_EQ(back.check.tensors.size(), 1U);
  const TensorCheck& check = back.check.tensors[0];
  EXPECT_EQ(check.norm_error, kInfinity);
  EXPECT_TRUE(std::isnan(check.got));
  EXPECT_EQ(check.want, -kInfinity);
  EXPECT_EQ(check.worst_at, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(check.not_finite, 4);
  EXPECT_EQ(check.note, "note");
  EXPECT_EQ(back.measurement.samples_us, reply.measurement.samples_us);
  EXPECT_EQ(back.measurement.time.median_us, 2.5);
  EXPECT_EQ(back.measurement.time.count, 3);
  EXPECT_EQ(back.measurement.dropped, 1);
  EXPECT_EQ(back.measurement.reference_us, 17);
  EXPECT_EQ(back.measurement.slowdown, 1.25);
  EXPECT_EQ(back.level_us, 0.3);
  ASSERT_EQ(back.series.size(), 1U);
  EXPECT_EQ(back.series[0].plan_us, (std::vector<double>{3, 4}));
  EXPECT_EQ(back.series[0].dropped, 5);
  EXPECT_EQ(back.profile.outcome, Outcome::noisy);
  EXPECT_EQ(back.profile.message, "busy");
  EXPECT_EQ(back.profile.passes_us, reply.profile.passes_us);
  EXPECT_EQ(back.profile.dropped, 7);
  ASSERT_EQ(back.profile.calls.size(), 1U);
  EXPECT_EQ(back.profile.calls[0].name, "launch [7-9]");
  EXPECT_EQ(back.profile.calls[0].begin_us, 0.5);
  EXPECT_EQ(back.profile.calls[0].duration_us, 0.25);
}

TEST(Protocol, BrokenTextIsOurBug) {
  for (const char* text : {"", "{", "[]", "{\"task\":1}", "null"}) {
    EXPECT_THROW(decode_request(text), base::InternalError) << text;
    EXPECT_THROW(decode_reply(text), base::InternalError) << text;
  }
}

TEST(Protocol, AnotherVersionRefuses) {
  Request request;
  request.task = Task::setup;
  std::string text = encode(request);
  const std::string version = "\"protocol\":" + std::to_string(kProtocolVersion);
  text.replace(text.find(version), version.size(), "\"protocol\":999");
  EXPECT_THROW(decode_request(text), base::InternalError);
}

}  // namespace
}  // namespace fusetune::measure
