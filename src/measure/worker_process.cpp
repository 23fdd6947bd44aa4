#include "measure/worker_process.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::measure {
namespace {

using Wait = base::ChildProcess::Wait;

/// For the start of a worker, which packs nothing but copies the block's data: generous, a hang is a bug.
constexpr WorkerHost::Limit kSetupLimit{300, false};
/// Seldom enough that looking disturbs no sample worth mentioning, often enough for a prompt end.
constexpr double kPollSeconds = 0.25;

void throw_error_of(const Reply& reply) {
  if (reply.error.empty()) return;
  if (reply.internal_error) throw base::InternalError(reply.error);
  throw base::EnvironmentError(reply.error);
}

}  // namespace

WorkerHost::WorkerHost(std::filesystem::path program, std::function<WorkerSetup()> setup,
                       std::function<void()> poll)
    : program_(std::move(program)),
      make_setup_(std::move(setup)),
      poll_(std::move(poll)),
      page_(SharedMemory::create(sizeof(Progress))) {
  new (page_.data()) Progress{};
}

WorkerHost::~WorkerHost() = default;

void WorkerHost::retire() {
  child_.reset();
  pending_.reset();
}

void WorkerHost::start() {
  if (child_) return;
  setup_ = make_setup_();
  setup_.progress = page_.path();
  child_ = std::make_unique<base::ChildProcess>(std::vector<std::string>{program_.string(), "worker"});
  set_up();
}

void WorkerHost::set_up() {
  Request request;
  request.task = Task::setup;
  request.number = ++requests_;
  request.setup = setup_;
  const bool sent = send(request);
  const Exchange exchange = sent ? receive(request, kSetupLimit) : Exchange{};
  if (!sent || exchange.outcome != Outcome::ok) {
    const std::string how = sent ? exchange.message : child_->end_description();
    child_.reset();
    throw base::EnvironmentError("cannot start a measuring process ('" + program_.string() +
                                 " worker'): " + how +
                                 "; is the program complete, and is there memory for the block's tensors?");
  }
}

bool WorkerHost::send(const Request& request) {
  try {
    child_->send(encode(request));
    return true;
  } catch (const base::EnvironmentError&) {
    return false;
  }
}

Exchange WorkerHost::ask(Request request, const Limit& limit) {
  begin(std::move(request), limit);
  for (;;) {
    if (std::optional<Exchange> exchange = take()) return std::move(*exchange);
    WorkerHost* const self[] = {this};
    wait_for_any(self, kPollSeconds);
    poll();
  }
}

void WorkerHost::begin(Request request, const Limit& limit) {
  if (pending_) throw base::InternalError("a measuring process was asked before it answered");
  dispatch({std::move(request), limit});
}

/// A worker that ended while it had nothing to do (killed by somebody) costs no candidate: another one is
/// asked.
void WorkerHost::dispatch(Pending pending) {
  constexpr int kAttempts = 2;
  while (pending.attempts++ < kAttempts) {
    start();
    pending.request.number = ++requests_;
    pending.steps = progress().steps;
    pending.since = std::chrono::steady_clock::now();
    if (send(pending.request)) {
      pending_ = std::move(pending);
      return;
    }
    child_.reset();
  }
  throw base::EnvironmentError(
      "measuring processes end before they begin to work; is something killing them?");
}

std::optional<Exchange> WorkerHost::take() {
  std::string message;
  const Wait wait = child_->receive(message, 0);
  if (wait == Wait::timeout && seconds_left() > 0) return std::nullopt;
  Pending asked = *std::exchange(pending_, std::nullopt);
  Exchange exchange =
      wait == Wait::message ? understand(asked.request, message, asked.limit) : ended(wait, asked.limit);
  if (exchange.outcome != Outcome::crashed || began(asked.request)) return exchange;
  dispatch(std::move(asked));
  return std::nullopt;
}

/// Until the limit of what is asked is over. One per step starts anew whenever the worker took one.
double WorkerHost::seconds_left() {
  const auto now = std::chrono::steady_clock::now();
  if (pending_->limit.per_step && progress().steps != pending_->steps) {
    pending_->steps = progress().steps;
    pending_->since = now;
  }
  return pending_->limit.seconds - std::chrono::duration<double>(now - pending_->since).count();
}

void WorkerHost::wait_for_any(std::span<WorkerHost* const> hosts, double seconds) {
  std::vector<base::ChildProcess*> children;
  for (WorkerHost* const host : hosts) {
    children.push_back(host->child_.get());
    seconds = std::min(seconds, host->seconds_left());
  }
  base::ChildProcess::wait_for_any(children, seconds);
}

void WorkerHost::poll() {
  if (!poll_) return;
  try {
    poll_();
  } catch (...) {
    retire();
    throw;
  }
}

/// Waits for a message of what is no candidate: its limit is of the whole.
Wait WorkerHost::wait(std::string& message, const Limit& limit) {
  for (double left = limit.seconds; left > 0; left -= kPollSeconds) {
    const Wait wait = child_->receive(message, std::min(left, kPollSeconds));
    if (wait != Wait::timeout) return wait;
    poll();
  }
  return Wait::timeout;
}

Exchange WorkerHost::receive(const Request& request, const Limit& limit) {
  std::string message;
  if (const Wait wait = this->wait(message, limit); wait != Wait::message) return ended(wait, limit);
  return understand(request, message, limit);
}

Exchange WorkerHost::understand(const Request& request, const std::string& message, const Limit& limit) {
  Exchange exchange;
  exchange.reply = decode_reply(message);
  if (!exchange.reply.error.empty()) {
    retire();
    throw_error_of(exchange.reply);
  }
  if (!exchange.reply.device_error.empty()) {
    exchange.outcome = Outcome::crashed;
    exchange.message = exchange.reply.device_error;
    exchange.candidate = progress().candidate;
    retire();
    return exchange;
  }
  if (request.task == Task::run) exchange.output = receive_output(limit);
  return exchange;
}

std::vector<float> WorkerHost::receive_output(const Limit& limit) {
  std::vector<float> output(static_cast<std::size_t>(setup_.problem.elements(block::Tensor::output)));
  char* next = reinterpret_cast<char*>(output.data());
  std::size_t left = output.size() * sizeof(float);
  std::string chunk;
  while (left > 0) {
    if (wait(chunk, limit) != Wait::message || chunk.empty() || chunk.size() > left) {
      const std::string how = child_->end_description();
      retire();  // the rest of its output would be taken for the next reply
      throw base::EnvironmentError("a measuring process did not send its whole output: " + how);
    }
    next = std::copy(chunk.begin(), chunk.end(), next);
    left -= chunk.size();
  }
  return output;
}

Exchange WorkerHost::ended(Wait wait, const Limit& limit) {
  Exchange exchange;
  exchange.candidate = progress().candidate;
  if (wait == Wait::timeout) {
    exchange.outcome = Outcome::timeout;
    exchange.message = "did not end within " + base::format_shortest(limit.seconds) + " s and was killed";
  } else {
    exchange.outcome = Outcome::crashed;
    exchange.message = "the process that ran it ended with " + child_->end_description();
  }
  child_.reset();
  return exchange;
}

}  // namespace fusetune::measure
