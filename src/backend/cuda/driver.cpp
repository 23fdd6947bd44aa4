#include "backend/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace fusetune::backend::cuda {
namespace {

template <class Handle>
void find_function(void* library, const char* name, Handle*& function) {
  function = reinterpret_cast<Handle*>(dlsym(library, name));
  if (function == nullptr)
    throw base::EnvironmentError(std::string("NVIDIA's driver library has no function ") + name);
}

/// Names of the current ABI: those without a suffix are older forms of some of them.
DriverFunctions find_functions(void* library) {
  DriverFunctions f;
  find_function(library, "cuInit", f.init);
  find_function(library, "cuDriverGetVersion", f.driver_get_version);
  find_function(library, "cuGetErrorName", f.get_error_name);
  find_function(library, "cuGetErrorString", f.get_error_string);
  find_function(library, "cuDeviceGetCount", f.device_get_count);
  find_function(library, "cuDeviceGet", f.device_get);
  find_function(library, "cuDeviceGetName", f.device_get_name);
  find_function(library, "cuDeviceGetAttribute", f.device_get_attribute);
  find_function(library, "cuDeviceGetUuid_v2", f.device_get_uuid);
  find_function(library, "cuDeviceTotalMem_v2", f.device_total_memory);
  find_function(library, "cuDevicePrimaryCtxRetain", f.primary_context_retain);
  find_function(library, "cuDevicePrimaryCtxRelease_v2", f.primary_context_release);
  find_function(library, "cuCtxSetCurrent", f.context_set_current);
  find_function(library, "cuCtxSynchronize", f.context_synchronize);
  find_function(library, "cuMemAlloc_v2", f.memory_allocate);
  find_function(library, "cuMemFree_v2", f.memory_free);
  find_function(library, "cuMemcpyHtoD_v2", f.copy_to_device);
  find_function(library, "cuMemcpyDtoH_v2", f.copy_to_host);
  find_function(library, "cuMemcpyDtoDAsync_v2", f.copy_on_device);
  find_function(library, "cuMemsetD8_v2", f.memory_set);
  find_function(library, "cuModuleLoadData", f.module_load_data);
  find_function(library, "cuModuleUnload", f.module_unload);
  find_function(library, "cuModuleGetFunction", f.module_get_function);
  find_function(library, "cuFuncGetAttribute", f.function_get_attribute);
  find_function(library, "cuFuncSetAttribute", f.function_set_attribute);
  find_function(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", f.occupancy);
  find_function(library, "cuLaunchKernel", f.launch);
  find_function(library, "cuLaunchCooperativeKernel", f.launch_cooperative);
  find_function(library, "cuEventCreate", f.event_create);
  find_function(library, "cuEventDestroy_v2", f.event_destroy);
  find_function(library, "cuEventRecord", f.event_record);
  find_function(library, "cuEventSynchronize", f.event_synchronize);
  find_function(library, "cuEventElapsedTime", f.event_elapsed);
  find_function(library, "cuStreamCreate", f.stream_create);
  find_function(library, "cuStreamDestroy_v2", f.stream_destroy);
  find_function(library, "cuStreamSynchronize", f.stream_synchronize);
  find_function(library, "cuStreamBeginCapture_v2", f.stream_begin_capture);
  find_function(library, "cuStreamEndCapture", f.stream_end_capture);
  find_function(library, "cuGraphInstantiateWithFlags", f.graph_instantiate);
  find_function(library, "cuGraphUpload", f.graph_upload);
  find_function(library, "cuGraphLaunch", f.graph_launch);
  find_function(library, "cuGraphExecDestroy", f.graph_executable_destroy);
  find_function(library, "cuGraphDestroy", f.graph_destroy);
  return f;
}

std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

/// Values of CUresult after which a context is of no more use.
bool is_fatal_error(int code) {
  constexpr std::array kFatal = {
      46,   // device unavailable
      214,  // uncorrectable memory error
      700,  // illegal address
      702,  // the launch took too long
      714,  // hardware stack error
      715,  // illegal instruction
      716,  // misaligned address
      717,  // invalid address space
      718,  // invalid program counter
      719,  // launch failed
      721,  // tensor memory was not given back
      999,  // unknown
  };
  return std::find(kFatal.begin(), kFatal.end(), code) != kFatal.end();
}

bool is_resource_error(int code) {
  constexpr int kOutOfMemory = 2, kLaunchOutOfResources = 701;
  return code == kOutOfMemory || code == kLaunchOutOfResources;
}

std::string uuid_text(const std::array<char, 16>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

}  // namespace

// --------------------------------------------------------------------------------------------------- Driver

std::filesystem::path driver_library() {
  const char* chosen = std::getenv("FUSETUNE_DRIVER");
  return chosen == nullptr || *chosen == '\0' ? "libcuda.so.1" : chosen;
}

DriverError::DriverError(const std::string& what, int the_code) : DeviceError(what), code(the_code) {
  is_fatal = is_fatal_error(code);
  is_resource_limit = is_resource_error(code);
}

Driver::Driver(const std::filesystem::path& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw base::EnvironmentError("cannot open NVIDIA's driver library: " +
                                 std::string(reason == nullptr ? library.c_str() : reason));
  }
  functions_ = std::make_shared<DriverFunctions>(find_functions(handle));
  const int result = functions_->init(0);
  if (result != kDriverNoDevice) check(result, "cuInit");
  has_device_ = result == kDriverSuccess;
}

void Driver::check(int result, std::string_view call) const {
  if (result == kDriverSuccess) return;
  const char *name = nullptr, *text = nullptr;
  functions_->get_error_name(result, &name);
  functions_->get_error_string(result, &text);
  throw DriverError("NVIDIA's driver: " + std::string(call) + " failed with error " + std::to_string(result) +
                        (name == nullptr ? "" : std::string(" ") + name) +
                        (text == nullptr ? "" : std::string(": ") + text),
                    result);
}

std::string Driver::version() const {
  int version = 0;
  check(functions_->driver_get_version(&version), "cuDriverGetVersion");
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::vector<DriverDevice> Driver::devices() const {
  std::vector<DriverDevice> devices;
  if (!has_device_) return devices;
  int count = 0;
  check(functions_->device_get_count(&count), "cuDeviceGetCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0;
    check(functions_->device_get(&handle, ordinal), "cuDeviceGet");
    std::array<char, 256> name = {};
    check(functions_->device_get_name(name.data(), int{name.size()}, handle), "cuDeviceGetName");
    const auto attribute = [&](DeviceAttribute which) {
      int value = 0;
      check(functions_->device_get_attribute(&value, static_cast<int>(which), handle),
            "cuDeviceGetAttribute");
      return value;
    };
    name.back() = '\0';
    std::array<char, 16> uuid = {};
    check(functions_->device_get_uuid(&uuid, handle), "cuDeviceGetUuid");
    std::size_t memory = 0;
    check(functions_->device_total_memory(&memory, handle), "cuDeviceTotalMem");
    const auto clock = [&](DeviceAttribute which) {  // newer drivers may not know them
      int value = 0;
      const int result = functions_->device_get_attribute(&value, static_cast<int>(which), handle);
      return result == kDriverSuccess ? value : 0;
    };
    devices.push_back({.name = name.data(),
                       .compute_capability = 10 * attribute(DeviceAttribute::compute_capability_major) +
                                             attribute(DeviceAttribute::compute_capability_minor),
                       .multiprocessors = attribute(DeviceAttribute::multiprocessor_count),
                       .shared_bytes_per_block = attribute(DeviceAttribute::shared_bytes_per_block_optin),
                       .l2_bytes = attribute(DeviceAttribute::l2_cache_bytes),
                       .memory_bytes = static_cast<std::int64_t>(memory),
                       .clock_khz = clock(DeviceAttribute::clock_khz),
                       .memory_clock_khz = clock(DeviceAttribute::memory_clock_khz),
                       .uuid = uuid_text(uuid),
                       .cooperative_launch = attribute(DeviceAttribute::cooperative_launch) != 0});
  }
  return devices;
}

// -------------------------------------------------------------------------------------------------- Context

Context::Context(Driver driver, int ordinal) : driver_(std::move(driver)) {
  const std::vector<DriverDevice> devices = driver_.devices();
  if (ordinal < 0 || ordinal >= std::ssize(devices))
    throw base::EnvironmentError("there is no CUDA device " + std::to_string(ordinal) +
                                 ": the driver lists " + std::to_string(devices.size()));
  device_ = devices[static_cast<std::size_t>(ordinal)];
  const DriverFunctions& call = driver_.functions();
  driver_.check(call.device_get(&handle_, ordinal), "cuDeviceGet");
  void* context = nullptr;
  driver_.check(call.primary_context_retain(&context, handle_), "cuDevicePrimaryCtxRetain");
  if (const int result = call.context_set_current(context); result != kDriverSuccess) {
    call.primary_context_release(handle_);
    driver_.check(result, "cuCtxSetCurrent");
  }
}

Context::~Context() { driver_.functions().primary_context_release(handle_); }

void Context::synchronize() const {
  driver_.check(driver_.functions().context_synchronize(), "cuCtxSynchronize");
}

// --------------------------------------------------------------------------------------------- DeviceBuffer

DeviceBuffer::DeviceBuffer(const Context& context, std::int64_t bytes) : context_(&context), bytes_(bytes) {
  if (bytes == 0) return;
  const Driver& driver = context.driver();
  driver.check(driver.functions().memory_allocate(&address_, size(bytes)),
               "cuMemAlloc of " + std::to_string(bytes) + " bytes");
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ != 0) context_->driver().functions().memory_free(address_);
}

void DeviceBuffer::write(const void* from, std::int64_t bytes, std::int64_t offset) {
  if (offset + bytes > bytes_) throw base::InternalError("writing past the end of device memory");
  if (bytes == 0) return;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().copy_to_device(address_ + size(offset), from, size(bytes)), "cuMemcpyHtoD");
}

void DeviceBuffer::read(void* to, std::int64_t bytes, std::int64_t offset) const {
  if (offset + bytes > bytes_) throw base::InternalError("reading past the end of device memory");
  if (bytes == 0) return;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().copy_to_host(to, address_ + size(offset), size(bytes)), "cuMemcpyDtoH");
}

void DeviceBuffer::fill(unsigned char value, std::int64_t bytes, std::int64_t offset) {
  if (offset + bytes > bytes_) throw base::InternalError("filling past the end of device memory");
  if (bytes == 0) return;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().memory_set(address_ + size(offset), value, size(bytes)), "cuMemsetD8");
}

void DeviceBuffer::copy_from(const DeviceBuffer& other) {
  if (other.bytes_ != bytes_) throw base::InternalError("device buffers of different sizes");
  if (bytes_ == 0) return;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().copy_on_device(address_, other.address_, size(bytes_), nullptr),
               "cuMemcpyDtoDAsync");
}

// ------------------------------------------------------------------------------------- Module and Function

Module::Module(const Context& context, const std::string& image) : context_(context) {
  const Driver& driver = context.driver();
  driver.check(driver.functions().module_load_data(&handle_, image.data()), "cuModuleLoadData");
}

Module::~Module() { context_.driver().functions().module_unload(handle_); }

Function Module::function(const std::string& symbol) const {
  void* function = nullptr;
  const Driver& driver = context_.driver();
  driver.check(driver.functions().module_get_function(&function, handle_, symbol.c_str()),
               "cuModuleGetFunction of " + symbol);
  return {context_, function};
}

int Function::attribute(FunctionAttribute which) const {
  int value = 0;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().function_get_attribute(&value, static_cast<int>(which), handle_),
               "cuFuncGetAttribute");
  return value;
}

void Function::allow_shared(std::int64_t bytes) const {
  if (bytes <= kDefaultSharedBytes) return;
  const Driver& driver = context_->driver();
  driver.check(
      driver.functions().function_set_attribute(
          handle_, static_cast<int>(FunctionAttribute::dynamic_shared_bytes), static_cast<int>(bytes)),
      "cuFuncSetAttribute to " + std::to_string(bytes) + " bytes of shared memory");
}

int Function::blocks_per_multiprocessor(int threads, std::int64_t shared_bytes) const {
  allow_shared(shared_bytes);
  int blocks = 0;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().occupancy(&blocks, handle_, threads, size(shared_bytes)),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks;
}

void Function::launch(const LaunchShape& shape, const void* arguments, const Stream* stream) const {
  allow_shared(shape.shared_bytes);
  const Driver& driver = context_->driver();
  const DriverFunctions& call = driver.functions();
  const auto blocks = static_cast<unsigned>(shape.blocks), threads = static_cast<unsigned>(shape.threads),
             shared = static_cast<unsigned>(shape.shared_bytes);
  void* parameters[] = {const_cast<void*>(arguments)};
  void* const on = stream == nullptr ? nullptr : stream->handle();
  if (shape.cooperative)
    driver.check(call.launch_cooperative(handle_, blocks, 1, 1, threads, 1, 1, shared, on, parameters),
                 "cuLaunchCooperativeKernel");
  else
    driver.check(call.launch(handle_, blocks, 1, 1, threads, 1, 1, shared, on, parameters, nullptr),
                 "cuLaunchKernel");
}

// ---------------------------------------------------------------------------------------- Stream and Graph

Stream::Stream(const Context& context) : context_(context) {
  const Driver& driver = context.driver();
  driver.check(driver.functions().stream_create(&handle_, 0), "cuStreamCreate");
}

Stream::~Stream() { context_.driver().functions().stream_destroy(handle_); }

void Stream::synchronize() const {
  const Driver& driver = context_.driver();
  driver.check(driver.functions().stream_synchronize(handle_), "cuStreamSynchronize");
}

Graph::Graph(const Context& context, const Stream& stream, const std::function<void()>& work)
    : context_(&context) {
  constexpr int kThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
  const Driver& driver = context.driver();
  const DriverFunctions& call = driver.functions();
  driver.check(call.stream_begin_capture(stream.handle(), kThreadLocal), "cuStreamBeginCapture");
  void* graph = nullptr;
  try {
    work();
  } catch (...) {
    call.stream_end_capture(stream.handle(), &graph);
    if (graph != nullptr) call.graph_destroy(graph);
    throw;
  }
  driver.check(call.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture");
  const int result = call.graph_instantiate(&executable_, graph, 0);
  call.graph_destroy(graph);
  driver.check(result, "cuGraphInstantiate");
  // The first launch would do it, and may be timed.
  const int uploaded = call.graph_upload(executable_, stream.handle());
  if (uploaded != 0) call.graph_executable_destroy(executable_);
  driver.check(uploaded, "cuGraphUpload");
}

Graph::~Graph() {
  if (executable_ != nullptr) context_->driver().functions().graph_executable_destroy(executable_);
}

void Graph::launch(const Stream& stream) const {
  const Driver& driver = context_->driver();
  driver.check(driver.functions().graph_launch(executable_, stream.handle()), "cuGraphLaunch");
}

// ---------------------------------------------------------------------------------------------------- Event

Event::Event(const Context& context) : context_(&context) {
  const Driver& driver = context.driver();
  driver.check(driver.functions().event_create(&handle_, 0), "cuEventCreate");
}

Event::~Event() {
  if (handle_ != nullptr) context_->driver().functions().event_destroy(handle_);
}

void Event::record(const Stream* stream) {
  const Driver& driver = context_->driver();
  driver.check(driver.functions().event_record(handle_, stream == nullptr ? nullptr : stream->handle()),
               "cuEventRecord");
}

void Event::wait() const {
  const Driver& driver = context_->driver();
  driver.check(driver.functions().event_synchronize(handle_), "cuEventSynchronize");
}

double Event::since(const Event& begin) const {
  float milliseconds = 0;
  const Driver& driver = context_->driver();
  driver.check(driver.functions().event_elapsed(&milliseconds, begin.handle_, handle_), "cuEventElapsedTime");
  return milliseconds;
}

}  // namespace fusetune::backend::cuda
