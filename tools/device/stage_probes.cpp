// What the device is, and every wrapper of the platform against the emulator.
#include "probes.h"
#include "stages.h"
#include "tree.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::DeviceBuffer;

DeviceBuffer copy_of(const Gpu& gpu, const std::vector<std::uint32_t>& words) {
  const auto bytes = static_cast<std::int64_t>(words.size() * sizeof(std::uint32_t));
  DeviceBuffer buffer(gpu.context(), bytes);
  buffer.write(words.data(), bytes);
  return buffer;
}

std::vector<std::uint32_t> answer_of(Gpu& gpu, const Probe& probe) {
  const DeviceBuffer in = copy_of(gpu, probe.in), more = copy_of(gpu, probe.more);
  std::vector<std::uint32_t> answer(static_cast<std::size_t>(probe.out_words), 0xdeadbeefu);
  const DeviceBuffer out = copy_of(gpu, answer);
  ft_gpu_args args = {};
  args.tensor[0] = in.pointer();
  args.tensor[1] = out.pointer();
  args.tensor[2] = more.pointer();
  args.batch = probe.count;
  gpu.launch(gpu.kernel(probe_image(probe.file), probe.symbol),
             {.blocks = 1, .threads = 32, .shared_bytes = probe.shared_bytes, .cooperative = false}, args);
  gpu.context().synchronize();
  out.read(answer.data(), out.bytes());
  return answer;
}

}  // namespace

void describe_device(Gpu& gpu, Records& records) {
  const backend::cuda::DriverDevice& device = gpu.device();
  records.add("device", device.cooperative_launch,
              {{"name", device.name},
               {"compute_capability", device.compute_capability},
               {"kernels", gpu.architecture().name()},
               {"multiprocessors", device.multiprocessors},
               {"shared_bytes_per_block", device.shared_bytes_per_block},
               {"l2_bytes", device.l2_bytes},
               {"cooperative_launch", device.cooperative_launch},
               {"driver", gpu.context().driver().version()}});
}

void run_probes(Gpu& gpu, Records& records) {
  int step = 0;
  for (const Probe& probe : all_probes()) {
    if (!records.begin_step(step++)) continue;
    nlohmann::ordered_json result =
        compare_answers(probe, answer_of(gpu, probe), read_answer(gpu.tree(), probe));
    const bool ok = result["ok"].get<bool>();
    result.erase("ok");
    records.add(probe.name, ok, result);
  }
}

}  // namespace fusetune::device_check
