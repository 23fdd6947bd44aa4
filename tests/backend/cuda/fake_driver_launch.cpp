// The fake driver's memory and launches. It cannot execute a cubin: it reads ft_kernel_id from the image,
// takes the emulator's build of the same kernel from $FUSETUNE_FAKE_KERNELS/<id, 16 hexadecimal digits>.so
// and runs that, at once. One that is not there yet is asked of the program $FUSETUNE_FAKE_COMPILER, if any:
// fake_kernels.cpp. Times are those of the emulation. A wrong kernel's finding goes to stderr and is an error
// that stays, as on a GPU.
#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/cubin_image.h"
#include "backend/simt/device_memory.h"
#include "backend/simt/emulator.h"
#include "backend/simt/kernel_library.h"
#include "base/subprocess.h"
#include "fake_driver.h"

using namespace fusetune::testing;
namespace simt = fusetune::backend::simt;

namespace {

constexpr int kFreeSharedBytes = 48 << 10;  // more must be asked for
constexpr int kRegisters = 32;              // of every kernel

struct FakeFunction {
  std::string symbol;
  simt::Kernel kernel;
  std::shared_ptr<const simt::KernelLibrary> library;
  int allowed_shared_bytes = kFreeSharedBytes;
};
struct FakeEvent {
  std::chrono::steady_clock::time_point time;
};

/// A launch as it was asked for.
struct FakeLaunch {
  FakeFunction* function;
  int blocks, threads;
  unsigned shared;
  bool cooperative;
  ft_gpu_args arguments;
};
/// A stretch of words to be set.
struct FakeFill {
  unsigned long long address;
  unsigned value;
  std::size_t words;
};
/// What a library beside the driver puts into a stream.
struct FakeCall {
  void (*function)(void* data);
  void* data;
};
using FakeGraph = std::vector<std::variant<FakeLaunch, FakeFill, FakeCall>>;

/// The whole device. Never destroyed: the program may end while it is in use.
struct FakeDevice {
  simt::DeviceMemory memory;
  std::map<unsigned long long, std::size_t> allocations;
  std::deque<FakeFunction> functions;
  FakeGraph* recording = nullptr;  // launches go there
  std::set<void*> on_device;       // executable graphs; the first launch of one that is not uploads it
  int uploads_by_launches = 0;
  void* last_stream = nullptr;  // of a launch or a fill
  int handle = 40;              // which of the driver's devices it is in this process
  int error = kSuccess;         // of a launch: it stays
};
FakeDevice& device() {
  static FakeDevice& the_device = *new FakeDevice;
  return the_device;
}

thread_local void* current_context = nullptr;

void* host(unsigned long long address) { return std::bit_cast<void*>(address); }

/// The rest of the allocation behind an address holds so many bytes.
bool holds(unsigned long long address, std::size_t bytes) {
  auto after = device().allocations.upper_bound(address);
  if (after == device().allocations.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

/// The driver is given an image without its size: the file ends with its tables.
std::string_view whole_image(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  const std::size_t sections = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  const std::size_t segments = header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize;
  return {static_cast<const char*>(image), std::max(sections, segments)};
}

/// Whether $FUSETUNE_FAKE_FAULTS has a fault of this kind for a kernel.
bool befalls(const std::string& symbol, const std::string& kind) {
  const char* faults = std::getenv("FUSETUNE_FAKE_FAULTS");
  std::istringstream words(faults == nullptr ? "" : faults);
  for (std::string word; words >> word;)
    if (word.starts_with(kind + ":") && symbol.find(word.substr(kind.size() + 1)) != std::string::npos)
      return true;
  return false;
}

/// The errors that stay, of launches that themselves seem to succeed.
int fault_of(const std::string& symbol) {
  if (behaviour() == "faulting" || befalls(symbol, "illegal")) return kIllegalAddress;
  if (befalls(symbol, "launch")) return kLaunchFailed;
  const int handle = device().handle;
  const bool all = befalls(symbol, "lost");
  if (!all && !befalls(symbol, handle == 40 ? "lost0" : "lost1")) return kSuccess;
  std::ofstream(all ? lost_marker() : lost_marker(handle)).put('\n');
  return kDeviceUnavailable;
}

int run(const FakeLaunch& launch) {
  FakeDevice& on = device();
  if (on.error != kSuccess) return on.error;
  const FakeFunction& function = *launch.function;
  if (behaviour() == "hanging" || befalls(function.symbol, "hang"))
    for (;;) pause();
  if (befalls(function.symbol, "resources")) return kLaunchOutOfResources;
  if (befalls(function.symbol, "slow")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  on.error = fault_of(function.symbol);
  if (on.error != kSuccess) return kSuccess;
  if (launch.threads != function.kernel.threads ||
      static_cast<int>(launch.shared) > function.allowed_shared_bytes)
    return kInvalidValue;
  if (launch.cooperative && launch.blocks > resident_blocks()) return kCooperativeLaunchTooLarge;
  simt::LaunchOptions options;
  options.blocks = launch.blocks;
  options.shared_bytes = launch.shared;
  options.cooperative = launch.cooperative;
  if (const auto finding = simt::launch(function.kernel, launch.arguments, on.memory, options)) {
    fmt::print(stderr, "fake driver: {}\n", finding->message);
    on.error = kLaunchFailed;
  }
  return kSuccess;
}

int run(const FakeFill& fill) {
  if (!holds(fill.address, fill.words * sizeof fill.value)) return kInvalidValue;
  std::fill_n(static_cast<unsigned*>(host(fill.address)), fill.words, fill.value);
  return device().error;
}

int run(const FakeCall& call) {
  call.function(call.data);
  return device().error;
}

int run_or_record(void* function, unsigned grid, unsigned block, unsigned shared, bool cooperative,
                  const void* arguments, void* stream) {
  device().last_stream = stream;
  FakeLaunch launch{static_cast<FakeFunction*>(function),
                    static_cast<int>(grid),
                    static_cast<int>(block),
                    shared,
                    cooperative,
                    {}};
  std::memcpy(&launch.arguments, arguments, sizeof launch.arguments);
  if (device().recording == nullptr) return run(launch);
  device().recording->push_back(launch);
  return kSuccess;
}

/// Has the emulator's build of a kernel made where it is missing.
void build(const std::filesystem::path& folder, const std::string& id) {
  const char* compiler = std::getenv("FUSETUNE_FAKE_COMPILER");
  if (compiler == nullptr || std::filesystem::exists(folder / (id + ".so"))) return;
  const auto result = fusetune::base::run_process({compiler, folder.string(), id});
  if (result.exit_code != 0) fmt::print(stderr, "fake driver: {}\n", result.output);
}

}  // namespace

extern "C" {

int cuDevicePrimaryCtxRetain(void** context, int handle) {
  if (is_lost(handle)) return kDeviceUnavailable;
  device().handle = handle;
  *context = &device();
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int /*device*/) { return kSuccess; }
int cuCtxSetCurrent(void* context) {
  current_context = context;
  return kSuccess;
}
int cuCtxGetDevice(int* the_device) {
  if (current_context == nullptr) return kInvalidContext;
  *the_device = device().handle;
  return kSuccess;
}
int cuCtxSynchronize() { return device().error; }

int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  void* const memory = device().memory.allocate(static_cast<std::int64_t>(bytes), "device memory");
  *address = reinterpret_cast<std::uintptr_t>(memory);
  device().allocations[*address] = bytes;
  return device().error;
}
int cuMemFree_v2(unsigned long long address) {
  return device().allocations.erase(address) == 1 ? device().error : kInvalidValue;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  if (!holds(to, bytes)) return kInvalidValue;
  std::memcpy(host(to), from, bytes);
  return device().error;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  if (!holds(from, bytes)) return kInvalidValue;
  std::memcpy(to, host(from), bytes);
  return device().error;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes,
                         void* /*stream*/) {
  if (!holds(to, bytes) || !holds(from, bytes)) return kInvalidValue;
  std::memcpy(host(to), host(from), bytes);
  return device().error;
}
int cuMemsetD8_v2(unsigned long long to, unsigned char value, std::size_t bytes) {
  if (!holds(to, bytes)) return kInvalidValue;
  std::memset(host(to), value, bytes);
  return device().error;
}
int cuMemsetD32Async(unsigned long long to, unsigned value, std::size_t words, void* stream) {
  device().last_stream = stream;
  const FakeFill fill{to, value, words};
  if (device().recording == nullptr) return run(fill);
  device().recording->push_back(fill);
  return kSuccess;
}

int cuModuleLoadData(void** module, const void* image) {
  const auto id = fusetune::backend::cuda::kernel_id(whole_image(image));
  const char* folder = std::getenv("FUSETUNE_FAKE_KERNELS");
  if (!id || folder == nullptr) return kInvalidImage;
  const std::string name = fmt::format("{:016x}", *id);
  build(folder, name);
  const auto path = std::filesystem::path(folder) / (name + ".so");
  if (!std::filesystem::exists(path)) {
    fmt::print(stderr, "fake driver: there is no {}\n", path.string());
    return kInvalidImage;
  }
  *module = new std::shared_ptr<const simt::KernelLibrary>(
      std::make_shared<simt::KernelLibrary>(path, simt::Mode::fast, nullptr));
  return device().error;
}
int cuModuleUnload(void* module) {
  delete static_cast<std::shared_ptr<const simt::KernelLibrary>*>(module);
  return device().error;
}
int cuModuleGetFunction(void** function, void* module, const char* symbol) {
  const auto& library = *static_cast<std::shared_ptr<const simt::KernelLibrary>*>(module);
  if (befalls(symbol, "memory")) return kOutOfMemory;
  try {
    device().functions.push_back({.symbol = symbol, .kernel = library->kernel(symbol), .library = library});
  } catch (const std::exception&) {
    return kNotFound;
  }
  *function = &device().functions.back();
  return device().error;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  switch (attribute) {
    case 0:
      *value = static_cast<FakeFunction*>(function)->kernel.threads;
      return device().error;
    case 4:
      *value = kRegisters;
      return device().error;
    default:
      *value = 0;
      return device().error;
  }
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  constexpr int kDynamicShared = 8;
  if (attribute != kDynamicShared || value > simt::kMaxSharedBytes) return kInvalidValue;
  static_cast<FakeFunction*>(function)->allowed_shared_bytes = value;
  return device().error;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* /*function*/, int /*threads*/,
                                                std::size_t /*shared_bytes*/) {
  *blocks = 1;
  return device().error;
}
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** parameters, void** /*extra*/) {
  return run_or_record(function, grid, block, shared_bytes, false, parameters[0], stream);
}
int cuLaunchCooperativeKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                              unsigned, unsigned shared_bytes, void* stream, void** parameters) {
  return run_or_record(function, grid, block, shared_bytes, true, parameters[0], stream);
}

int cuLaunchHostFunc(void* /*stream*/, void (*function)(void* data), void* data) {
  const FakeCall call{function, data};
  if (device().recording == nullptr) return run(call);
  device().recording->push_back(call);
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned /*flags*/) {
  *stream = &device();
  return device().error;
}
int cuStreamDestroy_v2(void* /*stream*/) { return device().error; }
int cuStreamSynchronize(void* /*stream*/) { return device().error; }
int cuStreamBeginCapture_v2(void* /*stream*/, int /*mode*/) {
  if (device().recording != nullptr) return kInvalidValue;
  device().recording = new FakeGraph;
  return device().error;
}
int cuStreamEndCapture(void* /*stream*/, void** graph) {
  if (device().recording == nullptr) return kInvalidValue;
  *graph = std::exchange(device().recording, nullptr);
  return device().error;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long /*flags*/) {
  *executable = new FakeGraph(*static_cast<FakeGraph*>(graph));
  return device().error;
}
int cuGraphUpload(void* executable, void* /*stream*/) {
  device().on_device.insert(executable);
  return device().error;
}
int cuGraphLaunch(void* executable, void* /*stream*/) {
  if (device().on_device.insert(executable).second) ++device().uploads_by_launches;
  for (const auto& work : *static_cast<FakeGraph*>(executable)) {
    const int result = std::visit([](const auto& each) { return run(each); }, work);
    if (result != kSuccess) return result;
  }
  return device().error;
}
int cuGraphExecDestroy(void* executable) {
  device().on_device.erase(executable);
  delete static_cast<FakeGraph*>(executable);
  return device().error;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<FakeGraph*>(graph);
  return device().error;
}

/// For tests: what the last launch or fill was put into, how many kernels were looked up so far, and how many
/// launches had to bring their graph to the device first.
void* fusetune_fake_last_stream() { return device().last_stream; }
int fusetune_fake_kernels_loaded() { return static_cast<int>(device().functions.size()); }
int fusetune_fake_uploads_by_launches() { return device().uploads_by_launches; }

int cuEventCreate(void** event, unsigned /*flags*/) {
  *event = new FakeEvent;
  return device().error;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<FakeEvent*>(event);
  return device().error;
}
int cuEventRecord(void* event, void* /*stream*/) {
  static_cast<FakeEvent*>(event)->time = std::chrono::steady_clock::now();
  return device().error;
}
int cuEventSynchronize(void* /*event*/) { return device().error; }
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const std::chrono::duration<float, std::milli> time =
      static_cast<FakeEvent*>(end)->time - static_cast<FakeEvent*>(begin)->time;
  *milliseconds = time.count();
  return device().error;
}

}  // extern "C"
