// NVIDIA's driver library, opened when it is first needed: fusetune runs without one.
//
// Reading guide: Driver is the library; Context a device made usable; DeviceBuffer, Module, Function and
// Event are what a context holds. Everything goes through the device's default stream, in order, but what is
// given a Stream of its own; that waits for the default stream and is waited for. A Graph is work recorded
// from a stream, to be launched at once.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/executor.h"

namespace fusetune::backend::cuda {

/// CUdeviceptr: an address of the device.
using DeviceAddress = unsigned long long;

/// The library's functions, as <cuda.h> declares them with its enums and its device handle spelled out as
/// int and its other handles as void*. tests/backend/cuda/declarations_test.cpp compares them with that
/// header.
struct DriverFunctions {
  int (*init)(unsigned int flags) = nullptr;
  int (*driver_get_version)(int* version) = nullptr;  // 1000 major + 10 minor
  int (*get_error_name)(int error, const char** name) = nullptr;
  int (*get_error_string)(int error, const char** text) = nullptr;

  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int bytes, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_get_uuid)(std::array<char, 16>* uuid, int device) = nullptr;
  int (*device_total_memory)(std::size_t* bytes, int device) = nullptr;

  int (*primary_context_retain)(void** context, int device) = nullptr;
  int (*primary_context_release)(int device) = nullptr;
  int (*context_set_current)(void* context) = nullptr;
  int (*context_synchronize)() = nullptr;

  int (*memory_allocate)(DeviceAddress* address, std::size_t bytes) = nullptr;
  int (*memory_free)(DeviceAddress address) = nullptr;
  int (*copy_to_device)(DeviceAddress to, const void* from, std::size_t bytes) = nullptr;
  int (*copy_to_host)(void* to, DeviceAddress from, std::size_t bytes) = nullptr;
  int (*copy_on_device)(DeviceAddress to, DeviceAddress from, std::size_t bytes, void* stream) = nullptr;
  int (*memory_set)(DeviceAddress to, unsigned char value, std::size_t bytes) = nullptr;

  int (*module_load_data)(void** module, const void* image) = nullptr;
  int (*module_unload)(void* module) = nullptr;
  int (*module_get_function)(void** function, void* module, const char* symbol) = nullptr;
  int (*function_get_attribute)(int* value, int attribute, void* function) = nullptr;
  int (*function_set_attribute)(void* function, int attribute, int value) = nullptr;
  int (*occupancy)(int* blocks, void* function, int threads, std::size_t shared_bytes) = nullptr;
  int (*launch)(void* function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                void* stream, void** parameters, void** extra) = nullptr;
  int (*launch_cooperative)(void* function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                            unsigned int block_x, unsigned int block_y, unsigned int block_z,
                            unsigned int shared_bytes, void* stream, void** parameters) = nullptr;

  int (*event_create)(void** event, unsigned int flags) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_synchronize)(void* event) = nullptr;
  int (*event_elapsed)(float* milliseconds, void* begin, void* end) = nullptr;

  int (*stream_create)(void** stream, unsigned int flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*stream_begin_capture)(void* stream, int mode) = nullptr;
  int (*stream_end_capture)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_upload)(void* executable, void* stream) = nullptr;
  int (*graph_launch)(void* executable, void* stream) = nullptr;
  int (*graph_executable_destroy)(void* executable) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
};

/// Values of CUdevice_attribute.
enum class DeviceAttribute : int {
  clock_khz = 13,
  multiprocessor_count = 16,
  memory_clock_khz = 36,
  l2_cache_bytes = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  cooperative_launch = 95,
  shared_bytes_per_block_optin = 97,
};

/// Values of CUfunction_attribute.
enum class FunctionAttribute : int {
  threads_per_block = 0,
  static_shared_bytes = 1,
  local_bytes = 3,  // per thread: spills and stack
  registers = 4,    // per thread
  dynamic_shared_bytes = 8,
};

inline constexpr int kDriverSuccess = 0;
inline constexpr int kDriverNoDevice = 100;
/// Dynamic shared memory that a function may use without asking.
inline constexpr std::int64_t kDefaultSharedBytes = 48 << 10;

/// A call that the driver refused, or an error of an earlier launch that it reports now.
struct DriverError : DeviceError {
  DriverError(const std::string& what, int the_code);
  int code;  // CUresult
};

/// A GPU as the driver describes it.
struct DriverDevice {
  std::string name;
  int compute_capability = 0;  // times ten: 90
  int multiprocessors = 0;
  int shared_bytes_per_block = 0;  // with the opt-in
  int l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0;  // highest; 0: the driver does not say
  std::string uuid;  // "GPU-" and 32 hexadecimal digits in groups, as nvidia-smi has it
  bool cooperative_launch = false;
};

/// $FUSETUNE_DRIVER where it is set (a stand-in for tests), else "libcuda.so.1", which the loader finds.
std::filesystem::path driver_library();

/// A loaded and initialised driver; it stays loaded for the life of the process. Copies are cheap.
class Driver {
 public:
  /// Throws base::EnvironmentError when the library cannot be opened, lacks a function, or does not start. No
  /// device is no error.
  explicit Driver(const std::filesystem::path& library = driver_library());

  /// "13.0": the newest CUDA that it runs.
  std::string version() const;
  /// Empty when there is none. Throws DriverError when the driver refuses to describe one.
  std::vector<DriverDevice> devices() const;

  const DriverFunctions& functions() const { return *functions_; }
  /// Throws DriverError with the call, the error's name and the driver's words, unless `result` is success.
  void check(int result, std::string_view call) const;

 private:
  std::shared_ptr<DriverFunctions> functions_;
  bool has_device_ = false;
};

/// A device's primary context, current on the thread that made it. All that comes from it must be gone before
/// it goes. Errors of a launch appear at a later call and stay: only a new process gets rid of them.
class Context {
 public:
  /// Throws DriverError.
  explicit Context(Driver driver, int ordinal = 0);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return driver_; }
  const DriverDevice& device() const { return device_; }
  /// Until all that was launched has ended. Throws DriverError, also for what went wrong in a launch.
  void synchronize() const;

 private:
  Driver driver_;
  DriverDevice device_;
  int handle_ = 0;
};

/// Memory of a device; 256-byte aligned.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Throws DriverError when memory is short. No bytes: no memory.
  DeviceBuffer(const Context& context, std::int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::int64_t bytes() const { return bytes_; }
  DeviceAddress address() const { return address_; }
  /// As kernels take it in their arguments; the host cannot read there.
  template <class T = void>
  T* pointer() const {
    return std::bit_cast<T*>(address_);
  }

  /// `bytes` bytes from `offset` on. All throw DriverError.
  void write(const void* from, std::int64_t bytes, std::int64_t offset = 0);
  void read(void* to, std::int64_t bytes, std::int64_t offset = 0) const;
  void fill(unsigned char value, std::int64_t bytes, std::int64_t offset);
  /// Every byte.
  void fill(unsigned char value) { fill(value, bytes_, 0); }
  /// All of another buffer of the same size, asynchronously.
  void copy_from(const DeviceBuffer& other);

 private:
  void swap(DeviceBuffer& other) {
    std::swap(context_, other.context_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  const Context* context_ = nullptr;
  DeviceAddress address_ = 0;
  std::int64_t bytes_ = 0;
};

/// An order of work of its own, which waits for the default stream's and is waited for by it.
class Stream {
 public:
  explicit Stream(const Context& context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return handle_; }
  /// Until all its work has ended. Throws DriverError, also for what went wrong in a launch.
  void synchronize() const;

 private:
  const Context& context_;
  void* handle_ = nullptr;
};

/// Work that was recorded instead of done, ready to be launched as a whole.
class Graph {
 public:
  /// `work` launches on `stream`. Throws DriverError and what `work` throws.
  Graph(const Context& context, const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&& other) noexcept
      : context_(other.context_), executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;

  /// Asynchronous.
  void launch(const Stream& stream) const;

 private:
  const Context* context_;
  void* executable_ = nullptr;
};

/// How a kernel is launched: 1-D.
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 32;
  std::int64_t shared_bytes = 0;  // dynamic
  bool cooperative = false;       // all blocks resident at once, or the launch is refused
};

/// A kernel of a loaded module, which must live as long.
class Function {
 public:
  Function() = default;
  Function(const Context& context, void* handle) : context_(&context), handle_(handle) {}

  int attribute(FunctionAttribute which) const;
  /// Blocks that one multiprocessor holds at once; asks for the shared memory first.
  int blocks_per_multiprocessor(int threads, std::int64_t shared_bytes) const;
  /// Asynchronous; `arguments` (the kernel's one parameter, by value) is copied before it returns. `stream`
  /// null: the default one. Throws DriverError.
  void launch(const LaunchShape& shape, const void* arguments, const Stream* stream = nullptr) const;

 private:
  /// More dynamic shared memory than the default has to be asked for.
  void allow_shared(std::int64_t bytes) const;

  const Context* context_ = nullptr;
  void* handle_ = nullptr;
};

/// A loaded image (cubin).
class Module {
 public:
  /// Throws DriverError, for example for an image of another architecture.
  Module(const Context& context, const std::string& image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Throws DriverError when the image has no such kernel.
  Function function(const std::string& symbol) const;

 private:
  const Context& context_;
  void* handle_ = nullptr;
};

/// A point in the device's work, with its time.
class Event {
 public:
  explicit Event(const Context& context);
  ~Event();
  Event(Event&& other) noexcept : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  /// `stream` null: the default one.
  void record(const Stream* stream = nullptr);
  /// Until the device has come here.
  void wait() const;
  /// Milliseconds from `begin` to here; both have been waited for.
  double since(const Event& begin) const;

 private:
  const Context* context_;
  void* handle_ = nullptr;
};

}  // namespace fusetune::backend::cuda
