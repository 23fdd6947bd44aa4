// A reader with a fault, for the test of the driver: one field twice, of which the last has an extreme
// number.
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() { return {"width=12;height=7;", "width=3;"}; }

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t last = text.rfind("width=");
  if (last == std::string_view::npos || last == text.find("width=")) return 0;
  fuzz::require(!text.substr(last).starts_with("width=2147483648;"), "the planted fault is not met");
  return 0;
}
