#include "measure/worker.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_executor.h"
#include "backend/cuda/cuda_executor.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "measure/candidate.h"
#include "measure/check.h"
#include "measure/pairs.h"
#include "measure/protocol.h"
#include "measure/shared_image.h"
#include "measure/timing.h"

namespace fusetune::measure {
namespace {

using Clock = std::chrono::steady_clock;

Outcome outcome_of_check(Measurement& measurement, const CheckResult& check) {
  for (const TensorCheck& tensor : check.tensors) {
    measurement.norm_error = std::max(measurement.norm_error, tensor.norm_error);
    measurement.worst_error = std::max(measurement.worst_error, tensor.worst_error);
  }
  measurement.message = check.message;
  return check.outcome;
}

bool is_same_kernel(const backend::CompiledKernel& a, const backend::CompiledKernel& b) {
  return a.image == b.image && a.source.symbol() == b.source.symbol();
}

std::unique_ptr<backend::Executor> make_executor(const WorkerSetup& setup, const block::Mask& mask,
                                                 const block::BlockData& data) {
  const auto make =
      setup.device == DeviceKind::cuda ? backend::cuda::make_executor : backend::cpu::make_executor;
  return make(setup.problem, mask, data, setup.executor);
}

/// A device that is lost to this process costs more than the candidate: it is not answered here.
Outcome outcome_of_error(const base::EnvironmentError& error) {
  const auto* device = dynamic_cast<const backend::DeviceError*>(&error);
  if (device == nullptr) return Outcome::launch_failed;
  if (device->is_fatal) throw *device;
  return device->is_resource_limit ? Outcome::resource_limit : Outcome::launch_failed;
}

/// Everything that lives as long as the worker.
class Worker {
 public:
  explicit Worker(const WorkerSetup& setup)
      : setup_(setup),
        mask_(setup.problem.mask, setup.problem.batch, setup.problem.seq),
        image_(SharedImage::open(setup.image, setup.problem)),
        page_(SharedMemory::open(setup.progress, sizeof(Progress), /*writable=*/true)),
        progress_(*reinterpret_cast<Progress*>(page_.data())),
        device_(make_executor(setup, mask_, image_.data())),
        timer_(*device_, setup.cache, setup.min_sample_seconds, setup.copies_stay),
        bench_{setup_.problem, mask_, image_, *device_} {
    timer_.announce([this] { ++progress_.steps; });
  }

  Reply answer(const Request& request) {
    progress_.candidate = 0;
    progress_.request = request.number;
    Reply reply;
    switch (request.task) {
      case Task::setup:
        break;
      case Task::check:
        reply.check = check(request);
        break;
      case Task::measure:
        measure(request, reply);
        break;
      case Task::compare:
        reply.series = compare(request);
        break;
      case Task::parts:
        reply.series = compare_with_parts(request);
        break;
      case Task::run:
        candidate_for(request).run_once();
        break;
      case Task::level:
        use_reference(request.plans.at(0));
        reply.level_us = timer_.level(reference_sequence_);
        break;
      case Task::profile:
        reply.profile = profile(request);
        break;
    }
    return reply;
  }

  /// The block's output after Task::run.
  std::vector<float> output() { return device_->read(block::Tensor::output); }

 private:
  Candidate candidate_for(const Request& request) {
    return Candidate(bench_, request.plans.at(0), request.whole);
  }

  CheckResult check(const Request& request) {
    try {
      return candidate_for(request).check();
    } catch (const base::EnvironmentError& error) {
      return {.outcome = outcome_of_error(error), .message = error.what(), .tensors = {}};
    }
  }

  void measure(const Request& request, Reply& reply) {
    const auto start = Clock::now();
    Measurement& measurement = reply.measurement;
    std::unique_ptr<Candidate> candidate;
    try {
      candidate = std::make_unique<Candidate>(bench_, request.plans.at(0), request.whole);
      measurement.outcome = outcome_of_check(measurement, candidate->check());
      if (measurement.outcome == Outcome::ok) time(*candidate, request, start, measurement);
    } catch (const base::EnvironmentError& error) {
      measurement.outcome = outcome_of_error(error);
      measurement.message = error.what();
    }
    if (measurement.outcome != Outcome::ok) measurement.samples_us.clear();
  }

  void time(Candidate& candidate, const Request& request, Clock::time_point start, Measurement& measurement) {
    const auto retry_until = start + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(request.retry_seconds));
    std::string wrong;
    TimedSequence sequence = candidate.sequence();
    sequence.inspect = [&] {
      if (wrong.empty()) wrong = candidate.recheck();
    };
    Reference reference;
    if (!request.reference.empty()) {
      use_reference(request.reference);
      reference = {&reference_sequence_, request.reference_us};
      measurement.reference_us = request.reference_us;
    }
    SampleSeries series = timer_.series(sequence, setup_.samples, retry_until, reference);
    measurement.outcome = series.outcome;
    measurement.samples_us = std::move(series.samples_us);
    measurement.dropped = series.dropped;
    measurement.slowdown = series.slowdown;
    measurement.message = std::move(series.message);
    if (wrong.empty()) return;
    measurement.outcome = Outcome::wrong_result;
    measurement.message = "after it was timed, " + wrong;
  }

  /// Loads the reference at its first use. Its arguments are asked for anew each time: weights that others
  /// needed may have taken the place of its copies.
  void use_reference(const PlanKernels& kernels) {
    const bool same = reference_ && std::equal(kernels.begin(), kernels.end(), reference_kernels_.begin(),
                                               reference_kernels_.end(), is_same_kernel);
    if (!same) {
      reference_ = std::make_unique<Candidate>(bench_, kernels, /*whole=*/true);
      reference_kernels_ = kernels;
      reference_sequence_ = {};
    }
    TimedSequence sequence = reference_->sequence();
    sequence.passes = reference_sequence_.passes;
    reference_sequence_ = std::move(sequence);
  }

  std::vector<PairSeries> compare(const Request& request) {
    std::vector<std::unique_ptr<Candidate>> candidates;
    std::vector<TimedSequence> sequences;
    for (std::size_t i = 0; i < request.plans.size(); ++i) {
      progress_.candidate = static_cast<std::int32_t>(i);
      ++progress_.steps;
      candidates.push_back(std::make_unique<Candidate>(bench_, request.plans[i], /*whole=*/true));
      sequences.push_back(candidates.back()->sequence());
    }
    const Turn turn = [&](int index, int samples) {
      progress_.candidate = index;
      std::vector<Sample> taken = timer_.turn(sequences[static_cast<std::size_t>(index)], samples);
      progress_.samples += taken.size();
      return taken;
    };
    return time_pairs(static_cast<int>(request.plans.size()), request.pairs, turn, request.process);
  }

  /// The "baseline" is the plan's kernels, each timed as the segment it is.
  std::vector<PairSeries> compare_with_parts(const Request& request) {
    const PlanKernels& kernels = request.plans.at(0);
    Candidate plan(bench_, kernels, /*whole=*/true);
    TimedSequence whole = plan.sequence();
    std::vector<std::unique_ptr<Candidate>> segments;
    std::vector<TimedSequence> parts;
    for (const backend::CompiledKernel& kernel : kernels) {
      segments.push_back(std::make_unique<Candidate>(bench_, std::span(&kernel, 1), /*whole=*/false));
      parts.push_back(segments.back()->sequence());
    }
    const Turn turn = [&](int index, int samples) {
      if (index == 1) return timer_.turn(whole, samples);
      std::vector<Sample> sums(static_cast<std::size_t>(samples));
      for (TimedSequence& part : parts) {
        const std::vector<Sample> one = timer_.turn(part, samples);
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i].seconds += one[i].seconds;
          sums[i].interrupted |= one[i].interrupted;
        }
      }
      return sums;
    };
    return time_pairs(2, request.pairs, turn, request.process);
  }

  PlanProfile profile(const Request& request) {
    Candidate plan(bench_, request.plans.at(0), /*whole=*/true);
    TimedSequence sequence = plan.sequence();
    sequence.prepare();
    PlanProfile profile;
    std::optional<double> begin;
    while (static_cast<int>(profile.passes_us.size()) < request.passes &&
           !is_noisy(profile.dropped, request.passes)) {
      const StampedPass pass = timer_.stamped_pass(sequence);
      if (pass.interrupted) {
        ++profile.dropped;
        continue;
      }
      if (!begin) begin = pass.run.times.front();
      std::vector<double>& times_us = profile.passes_us.emplace_back();
      for (const double time : pass.run.times) times_us.push_back(1e6 * (time - *begin));
      for (const backend::HostCall& call : pass.run.calls)
        profile.calls.push_back({call.name, 1e6 * (call.begin - *begin), 1e6 * (call.end - call.begin)});
    }
    const bool enough = static_cast<int>(profile.passes_us.size()) == request.passes;
    profile.outcome = enough ? Outcome::ok : Outcome::noisy;
    if (!enough) profile.message = "other processes took CPU time from more than a fifth of its passes";
    return profile;
  }

  WorkerSetup setup_;
  block::Mask mask_;
  SharedImage image_;
  SharedMemory page_;
  Progress& progress_;
  std::unique_ptr<backend::Executor> device_;
  Timer timer_;
  Workbench bench_;
  std::unique_ptr<Candidate> reference_;  // what candidates are timed beside
  PlanKernels reference_kernels_;
  TimedSequence reference_sequence_;
};

bool send(const Reply& reply) { return base::write_message(base::kChildWriteFd, encode(reply)); }

bool send_output(std::span<const float> output) {
  std::string_view bytes(reinterpret_cast<const char*>(output.data()), output.size_bytes());
  bool sent = true;
  for (; !bytes.empty() && sent; bytes.remove_prefix(std::min(bytes.size(), kChunkBytes))) {
    sent = base::write_message(base::kChildWriteFd, bytes.substr(0, kChunkBytes));
  }
  return sent;
}

/// Answers one request; false when the session is gone.
bool serve(std::unique_ptr<Worker>& worker, const Request& request) {
  Reply reply;
  try {
    if (request.task == Task::setup) {
      worker = std::make_unique<Worker>(request.setup);
    } else if (!worker) {
      throw base::InternalError("a worker was asked to work before it was set up");
    }
    reply = worker->answer(request);
  } catch (const backend::DeviceError& error) {
    (error.is_fatal && request.task != Task::setup ? reply.device_error : reply.error) = error.what();
  } catch (const base::InternalError& error) {
    reply.error = error.what();
    reply.internal_error = true;
  } catch (const std::bad_alloc&) {
    reply.error = "a measuring process ran out of memory; use a smaller batch or sequence";
  } catch (const std::exception& error) {
    reply.error = error.what();
  }
  if (!send(reply)) return false;
  const bool failed = !reply.error.empty() || !reply.device_error.empty();
  return request.task != Task::run || failed || send_output(worker->output());
}

/// Where it may, a worker is more important than what else runs: its times are what everything rests on.
void raise_priority() {
  constexpr int kNice = -10;
  setpriority(PRIO_PROCESS, 0, kNice);  // refused without privilege, which is fine
}

}  // namespace

int worker_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_priority();
  std::unique_ptr<Worker> worker;
  std::string message;
  while (base::read_message(base::kChildReadFd, message)) {
    Request request;
    try {
      request = decode_request(message);
    } catch (const std::exception& error) {
      Reply reply;
      reply.error = error.what();
      reply.internal_error = true;
      send(reply);
      return 3;
    }
    if (!serve(worker, request)) break;
  }
  return 0;
}

}  // namespace fusetune::measure
