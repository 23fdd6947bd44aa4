// Messages between a session and its workers: from the stream's bytes to a request or a reply.
#include <unistd.h>

#include "base/message.h"
#include "base/subprocess.h"
#include "input_file.h"
#include "measure/protocol.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

/// Text that is no message is a bug of ours, so here an InternalError, and nothing else, is the refusal.
template <typename Decode>
auto decoded(Decode decode, const std::string& text) -> std::optional<decltype(decode(text))> {
  try {
    return decode(text);
  } catch (const base::InternalError&) {
    return std::nullopt;
  }
}

template <typename Decode>
void check(Decode decode, const std::string& text) {
  const auto message = decoded(decode, text);
  if (!message) return;
  const std::string written = encode(*message);
  const auto again = decoded(decode, written);
  require(again && encode(*again) == written, "a message reads back: " + written);
}

/// Both readers, the worker's and the session's, find the same messages.
std::vector<std::string> messages_in(std::string_view bytes) {
  const InputFile stream(bytes);
  std::string received(bytes), message, taken;
  std::vector<std::string> messages;
  while (base::read_message(stream.fd(), message)) {
    require(base::take_message(received, taken) && taken == message, "both sides read the same message");
    messages.push_back(message);
  }
  require(!base::take_message(received, taken), "both sides read the same number of messages");
  return messages;
}

measure::Request measure_request() {
  measure::Request request;
  request.task = measure::Task::measure;
  codegen::KernelSource cpu;
  cpu.symbol = "ft_segment";
  cpu.variant = {{7, 14}, false};
  cpu.layouts[1] = codegen::PanelLayout{16, 64};
  cpu.reads = {block::Tensor::merged, block::Tensor::hidden};
  codegen::GpuKernel gpu;
  gpu.symbol = "ft_segment";
  gpu.variant = {{2, 6}, true};
  gpu.weights = {block::Weight::w_out};
  gpu.tasks = {{64, 3, true}};
  request.plans = {{{cpu, "/tmp/x.so", 0}}, {{gpu, "/tmp/x.cubin", 0}}};
  return request;
}

measure::Reply measured_reply() {
  measure::Reply reply;
  reply.check.tensors = {{.tensor = "norm1",
                          .passed = false,
                          .norm_error = 1e300 * 1e300,
                          .worst_error = 0.25,
                          .worst_at = {1, 2, 3},
                          .got = 1,
                          .want = 2,
                          .not_finite = 4,
                          .note = "note"}};
  reply.measurement.samples_us = {3, 1, 2.5};
  reply.series = {{.outcome = measure::Outcome::ok, .baseline_us = {1, 2}, .plan_us = {3, 4}, .dropped = 5}};
  return reply;
}

std::string framed(const std::string& text) { return base::message_header(text.size()) + text; }

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string setup = encode(measure::Request{}), request = encode(measure_request()),
                    reply = encode(measured_reply());
  return {framed(setup), framed(request), framed(reply), framed(setup) + framed(request) + framed(""),
          setup,         request,         reply};
}

}  // namespace fusetune::fuzz

// As a stream of messages, and as the text of one, which no length has to fit.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view bytes = fuzz::text_of(data, size);
  std::vector<std::string> texts = fuzz::messages_in(bytes);
  texts.emplace_back(bytes);
  for (const std::string& text : texts) {
    fuzz::check(measure::decode_request, text);
    fuzz::check(measure::decode_reply, text);
  }
  return 0;
}
