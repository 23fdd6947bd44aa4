// The block's data and the oracle's tensors in one sealed memory file: made once by the session, mapped
// read-only by every worker.
//
// The oracle takes seconds for large problems and a worker may be short-lived, so it is computed once and
// shared. The file has no name: it is a memfd that workers open as /proc/<pid>/fd/<n> of the session, which
// works however descriptors are passed on, and nothing is left behind when both processes are killed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/operators.h"
#include "block/problem.h"

namespace fusetune::measure {

/// An anonymous shared memory file and its mapping.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// A new file of zeros, writable. Throws base::EnvironmentError.
  static SharedMemory create(std::int64_t bytes);
  /// Maps a file that another process made. Throws base::EnvironmentError; `bytes` must be its size.
  static SharedMemory open(const std::string& path, std::int64_t bytes, bool writable);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t size() const { return bytes_; }
  /// The path under which other processes of this user open it, while this process lives.
  std::string path() const;
  /// From now on nobody can write to it, this process included.
  void seal();

 private:
  base::UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

class SharedImage {
 public:
  /// Writes `data` and computes the oracle from it. Throws base::EnvironmentError when memory is short.
  static SharedImage create(const block::Problem& problem, const block::Mask& mask,
                            const block::BlockData& data);
  static SharedImage open(const std::string& path, const block::Problem& problem);

  std::string path() const { return memory_.path(); }
  /// A copy of the data, as the backend takes it.
  block::BlockData data() const;
  /// The oracle's value of a tensor, float64, in the tensor's own shape.
  std::span<const double> oracle(block::Tensor tensor) const;

 private:
  SharedImage(const block::Problem& problem, SharedMemory memory);

  block::Problem problem_;
  SharedMemory memory_;
};

}  // namespace fusetune::measure
