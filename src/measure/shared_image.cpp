#include "measure/shared_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "block/reference.h"

namespace fusetune::measure {
namespace {

std::string reason() { return std::generic_category().message(errno); }

[[noreturn]] void fail(const std::string& what, std::int64_t bytes) {
  throw base::EnvironmentError("cannot " + what + " of " + std::to_string(bytes) +
                               " bytes shared with workers: " + reason());
}

/// Where the arrays of an image lie; both sides compute it from the problem.
struct Layout {
  explicit Layout(const block::Problem& problem) {
    for (int i = 0; i < block::kWeightCount; ++i) {
      const auto [rows, columns] = problem.shape(static_cast<block::Weight>(i));
      weights[i] = place(rows * columns, sizeof(float));
    }
    for (int i = 0; i < block::kParameterCount; ++i) {
      parameters[i] = place(problem.elements(static_cast<block::Parameter>(i)), sizeof(float));
    }
    hidden = place(problem.elements(block::Tensor::hidden), sizeof(float));
    for (int i = 0; i < block::kTensorCount; ++i) {
      tensors[i] = place(problem.elements(static_cast<block::Tensor>(i)), sizeof(double));
    }
  }

  struct Array {
    std::int64_t offset = 0;
    std::int64_t elements = 0;
  };

  Array place(std::int64_t elements, std::size_t element_size) {
    const Array array{bytes, elements};
    bytes += (elements * static_cast<std::int64_t>(element_size) + 63) / 64 * 64;
    return array;
  }

  Array weights[block::kWeightCount];
  Array parameters[block::kParameterCount];
  Array hidden;
  Array tensors[block::kTensorCount];
  std::int64_t bytes = 0;
};

template <typename T>
void store(const SharedMemory& memory, const Layout::Array& array, const std::vector<T>& values) {
  if (static_cast<std::int64_t>(values.size()) != array.elements) {
    throw base::InternalError("an array of the block has " + std::to_string(values.size()) +
                              " elements, not " + std::to_string(array.elements));
  }
  std::memcpy(memory.data() + array.offset, values.data(), values.size() * sizeof(T));
}

template <typename T>
std::span<const T> view(const SharedMemory& memory, const Layout::Array& array) {
  return {reinterpret_cast<const T*>(memory.data() + array.offset), static_cast<std::size_t>(array.elements)};
}

std::vector<float> copy(const SharedMemory& memory, const Layout::Array& array) {
  const auto values = view<float>(memory, array);
  return {values.begin(), values.end()};
}

}  // namespace

SharedMemory SharedMemory::create(std::int64_t bytes) {
  SharedMemory memory;
  memory.fd_ = base::UniqueFd(memfd_create("fusetune", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  memory.bytes_ = bytes;
  // posix_fallocate rather than ftruncate: short memory is an error here, not a SIGBUS later.
  if (!memory.fd_) fail("create a memory file", bytes);
  errno = posix_fallocate(memory.fd_.get(), 0, bytes);
  if (errno != 0) fail("reserve a memory file", bytes);
  void* data =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_.get(), 0);
  if (data == MAP_FAILED) fail("map a memory file", bytes);
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

SharedMemory SharedMemory::open(const std::string& path, std::int64_t bytes, bool writable) {
  SharedMemory memory;
  memory.fd_ = base::UniqueFd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  memory.bytes_ = bytes;
  if (!memory.fd_) fail("open the memory file " + path, bytes);
  struct stat status {};
  if (fstat(memory.fd_.get(), &status) != 0) fail("examine the memory file " + path, bytes);
  if (status.st_size != bytes) {
    throw base::InternalError("the memory file " + path + " has " + std::to_string(status.st_size) +
                              " bytes, not " + std::to_string(bytes));
  }
  // A sealed file may only be mapped privately.
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int sharing = writable ? MAP_SHARED : MAP_PRIVATE;
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes), protection, sharing, memory.fd_.get(), 0);
  if (data == MAP_FAILED) fail("map the memory file " + path, bytes);
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::string SharedMemory::path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_.get());
}

void SharedMemory::seal() {
  // The write seal is refused while a writable mapping exists.
  if (munmap(data_, static_cast<std::size_t>(bytes_)) != 0) fail("unmap a memory file", bytes_);
  data_ = nullptr;
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("seal a memory file", bytes_);
  }
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_PRIVATE, fd_.get(), 0);
  if (data == MAP_FAILED) fail("map a memory file", bytes_);
  data_ = static_cast<std::byte*>(data);
}

SharedImage::SharedImage(const block::Problem& problem, SharedMemory memory)
    : problem_(problem), memory_(std::move(memory)) {}

SharedImage SharedImage::create(const block::Problem& problem, const block::Mask& mask,
                                const block::BlockData& data) {
  const Layout layout(problem);
  SharedMemory memory = SharedMemory::create(layout.bytes);
  for (int i = 0; i < block::kWeightCount; ++i) store(memory, layout.weights[i], data.weights[i]);
  for (int i = 0; i < block::kParameterCount; ++i) store(memory, layout.parameters[i], data.parameters[i]);
  store(memory, layout.hidden, data.hidden);
  const block::Reference reference = block::compute_reference(problem, mask, data);
  for (int i = 0; i < block::kTensorCount; ++i) store(memory, layout.tensors[i], reference.tensors[i]);
  memory.seal();
  return SharedImage(problem, std::move(memory));
}

SharedImage SharedImage::open(const std::string& path, const block::Problem& problem) {
  return SharedImage(problem, SharedMemory::open(path, Layout(problem).bytes, /*writable=*/false));
}

block::BlockData SharedImage::data() const {
  const Layout layout(problem_);
  block::BlockData data;
  for (int i = 0; i < block::kWeightCount; ++i) data.weights[i] = copy(memory_, layout.weights[i]);
  for (int i = 0; i < block::kParameterCount; ++i) data.parameters[i] = copy(memory_, layout.parameters[i]);
  data.hidden = copy(memory_, layout.hidden);
  return data;
}

std::span<const double> SharedImage::oracle(block::Tensor tensor) const {
  return view<double>(memory_, Layout(problem_).tensors[static_cast<int>(tensor)]);
}

}  // namespace fusetune::measure
