// Hand-over among blocks under stress: grid barrier, counters, the last of many.
#include <algorithm>
#include <numeric>
#include <set>

#include "stages.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::DeviceBuffer;

constexpr int kThreads = 128;
constexpr std::int64_t kSharedBytes = 4 * kThreads;

struct Stress {
  const char* symbol;
  bool cooperative;
  bool data_per_round;  // else two sets of words in turn
};

class StressRun {
 public:
  StressRun(Gpu& gpu, const Stress& stress, std::int64_t blocks, int rounds)
      : gpu_(gpu),
        stress_(stress),
        blocks_(blocks),
        rounds_(rounds),
        words_(gpu.context(), (stress.data_per_round ? rounds : 2) * blocks * kThreads * 4),
        wrong_(gpu.context(), 4 * blocks),
        noise_(gpu.context(), 4 * blocks),
        lasts_(gpu.context(), 4 * std::int64_t{rounds}),
        sync_(gpu.context(), 4 * (2 + std::max<std::int64_t>(blocks, rounds))) {
    for (DeviceBuffer* buffer : {&words_, &wrong_, &noise_}) buffer->fill(0xff);
    lasts_.fill(0);
    sync_.fill(0);
  }

  void launch() {
    ft_gpu_args args = {};
    args.tensor[0] = words_.pointer();
    args.tensor[1] = wrong_.pointer();
    args.tensor[2] = noise_.pointer();
    args.tensor[3] = lasts_.pointer();
    args.sync = sync_.pointer<unsigned>();
    args.batch = rounds_;
    gpu_.launch(gpu_.kernel(probe_image("blocks.cu"), stress_.symbol),
                {blocks_, kThreads, kSharedBytes, stress_.cooperative}, args);
    gpu_.context().synchronize();
  }

  /// Over all blocks; a block that did not come to its end counts as all ones.
  std::int64_t wrong() const {
    const auto counts = words_of(wrong_);
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  /// Rounds in which not exactly one block was the last.
  std::int64_t rounds_without_one_last() const {
    const auto counts = words_of(lasts_);
    return std::count_if(counts.begin(), counts.end(), [](unsigned count) { return count != 1; });
  }
  /// Counters beyond the barrier's word that are not zero.
  std::int64_t counters_left() const {
    const auto counters = words_of(sync_);
    return std::count_if(counters.begin() + 1, counters.end(), [](unsigned count) { return count != 0; });
  }

 private:
  static std::vector<unsigned> words_of(const DeviceBuffer& buffer) {
    std::vector<unsigned> words(static_cast<std::size_t>(buffer.bytes() / 4));
    buffer.read(words.data(), buffer.bytes());
    return words;
  }

  Gpu& gpu_;
  Stress stress_;
  std::int64_t blocks_;
  int rounds_;
  DeviceBuffer words_, wrong_, noise_, lasts_, sync_;
};

std::string item_of(const Stress& stress, std::int64_t blocks) {
  return std::string(stress.symbol) + " on " + std::to_string(blocks) + " blocks";
}

void run_stress(Gpu& gpu, Records& records, const Stress& stress, std::int64_t blocks, int rounds) {
  StressRun run(gpu, stress, blocks, rounds);
  run.launch();
  nlohmann::ordered_json fields = {{"blocks", blocks}, {"rounds", rounds}, {"wrong_words", run.wrong()}};
  bool ok = run.wrong() == 0;
  if (stress.data_per_round) {
    fields["rounds_without_one_last"] = run.rounds_without_one_last();
    fields["counters_left"] = run.counters_left();
    ok = ok && run.rounds_without_one_last() == 0 && run.counters_left() == 0;
  }
  records.add(item_of(stress, blocks), ok, fields);
}

/// The barrier's word is never cleared between launches, whatever their grid: many short ones in a row.
void run_launches_in_a_row(Gpu& gpu, Records& records, const Stress& stress, std::int64_t blocks) {
  constexpr int kOddRounds = 3;
  const int launches = gpu.quick() ? 3 : 200;
  StressRun run(gpu, stress, blocks, kOddRounds);
  std::int64_t wrong = 0;
  for (int i = 0; i < launches; ++i) {
    run.launch();
    wrong += run.wrong();
  }
  records.add(item_of(stress, blocks) + ", launches in a row", wrong == 0,
              {{"launches", launches}, {"wrong_words", wrong}, {"counters_left", run.counters_left()}});
}

}  // namespace

void stress_blocks(Gpu& gpu, Records& records) {
  constexpr Stress kStresses[] = {
      {"stress_grid_barrier", true, false}, {"stress_counters", true, false}, {"stress_last", false, true}};
  const std::int64_t one_each = gpu.device().multiprocessors;
  int step = 0;
  for (const Stress& stress : kStresses) {
    const LoadedKernel kernel = gpu.kernel(probe_image("blocks.cu"), stress.symbol);
    const std::int64_t all = gpu.resident_blocks(kernel, kThreads, kSharedBytes);
    const int rounds = gpu.quick() ? 20 : stress.data_per_round ? 500 : 10000;
    for (const std::int64_t blocks : std::set<std::int64_t>{1, 2, one_each, all})
      if (records.begin_step(step++)) run_stress(gpu, records, stress, blocks, rounds);
  }
  for (const std::int64_t blocks : {std::int64_t{2}, one_each})
    if (records.begin_step(step++)) run_launches_in_a_row(gpu, records, kStresses[0], blocks);
}

}  // namespace fusetune::device_check
