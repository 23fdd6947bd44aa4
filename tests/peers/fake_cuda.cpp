// A CUDA device for PyTorch, on the stand-in for NVIDIA's driver that $FUSETUNE_DRIVER names: its memory is
// the host's, so that tensors "on cuda:0" can be made, copied and read without a GPU. Only what a bundle's
// operator and its test need of PyTorch is there: streams and the current device, memory (poisoned when it is
// new), copies, filling with zero.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Address = unsigned long long;
const c10::Device kDevice(c10::kCUDA, 0);

/// The function of this name of the driver's stand-in.
template <class Function>
Function* driver(const char* name) {
  const char* const path = std::getenv("FUSETUNE_DRIVER");
  TORCH_CHECK(path != nullptr, "fake_cuda: set $FUSETUNE_DRIVER to the stand-in for NVIDIA's driver");
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library != nullptr, "fake_cuda: cannot open ", path, ": ", dlerror());
  void* const function = dlsym(library, name);
  TORCH_CHECK(function != nullptr, "fake_cuda: ", path, " has no ", name);
  return reinterpret_cast<Function*>(function);
}

void expect(int result, const char* doing) {
  TORCH_CHECK(result == 0, "fake_cuda: ", doing, " gives error ", result);
}

// ---- Device and streams

/// A stream's identity is its handle.
c10::StreamId current_stream = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::UNSAFE, kDevice, std::exchange(current_stream, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

// ---- Memory

bool capturing = false;

/// What a graph uses is not given to others, as PyTorch's allocator keeps it in the graph's pool.
void release(void* memory) {
  if (!capturing) driver<int(Address)>("cuMemFree_v2")(reinterpret_cast<Address>(memory));
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    Address address = 0;
    expect(driver<int(Address*, size_t)>("cuMemAlloc_v2")(&address, bytes), "allocating");
    void* const memory = reinterpret_cast<void*>(address);
    std::memset(memory, 0xff, bytes);
    return {memory, memory, &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Allocator allocator;
const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &allocator, kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator, kKeys, dtype.value_or(at::kFloat));
}

/// The same memory as the host's.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool /*non_blocking*/) {
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor& zero(at::Tensor& tensor) {
  on_host(tensor).zero_();
  return tensor;
}

// ---- For the test

void install() { c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)].store(new Guard); }
void set_stream(int64_t stream) { current_stream = stream; }
int64_t last_stream() { return reinterpret_cast<int64_t>(driver<void*()>("fusetune_fake_last_stream")()); }
int64_t kernels_loaded() { return driver<int()>("fusetune_fake_kernels_loaded")(); }

std::vector<void*> graphs;
void begin_capture() {
  expect(driver<int(void*, int)>("cuStreamBeginCapture_v2")(nullptr, 0), "beginning to capture");
  capturing = true;
}
int64_t end_capture() {
  capturing = false;
  void *graph = nullptr, *executable = nullptr;
  expect(driver<int(void*, void**)>("cuStreamEndCapture")(nullptr, &graph), "capturing");
  expect(driver<int(void**, void*, Address)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
         "instantiating");
  graphs.push_back(executable);
  return static_cast<int64_t>(graphs.size()) - 1;
}
void launch_graph(int64_t graph) {
  expect(driver<int(void*, void*)>("cuGraphLaunch")(graphs.at(static_cast<size_t>(graph)), nullptr),
         "launching");
}

}  // namespace

TORCH_LIBRARY(fake_cuda, library) {
  library.def("install", install);
  library.def("set_stream", set_stream);
  library.def("last_stream", last_stream);
  library.def("kernels_loaded", kernels_loaded);
  library.def("begin_capture", begin_capture);
  library.def("end_capture", end_capture);
  library.def("launch_graph", launch_graph);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy);
  library.impl("zero_", zero);
}
