// NumPy's array files: there are as many values as the shape says.
#include "block/npy.h"
#include "input_file.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

/// A version 1.0 file.
std::string npy(const std::string& dictionary, std::size_t data_bytes) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  return file + dictionary + std::string(data_bytes, '\1');
}

template <typename Value>
void check(const block::NpyArray<Value>& array) {
  std::uint64_t count = 1;
  for (const std::int64_t size : array.shape) {
    require(size >= 0, "sizes are not negative");
    count *= static_cast<std::uint64_t>(size);
  }
  require(count == array.values.size(), "there are as many values as the shape says");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24),
                                 npy("{'descr': '<f8', 'fortran_order': True, 'shape': (3,), }  \n", 24),
                                 npy("{'descr': '|b1', 'fortran_order': False, 'shape': (4, 2), }\n", 8),
                                 npy("{\"shape\": (), \"descr\": \"|u1\", \"fortran_order\": False}", 1),
                                 npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9), }\n", 0)};
  std::string second = seeds[0];
  second[6] = '\2';
  second.insert(10, 2, '\0');
  seeds.push_back(second);
  return seeds;
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const fuzz::InputFile file(fuzz::text_of(data, size));
  const auto floats = fuzz::accepted([&] { return block::read_npy_floats(file.path()); });
  if (floats) fuzz::check(*floats);
  const auto booleans = fuzz::accepted([&] { return block::read_npy_booleans(file.path()); });
  if (booleans) fuzz::check(*booleans);
  fuzz::require(!floats || !booleans, "a file has one element type");
  return 0;
}
