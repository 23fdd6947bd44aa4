// Weight files: every entry that is accepted lies inside the file and is read, or refused with a reason.
#include "block/safetensors.h"

#include "input_file.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

std::string safetensors(const std::string& header, std::size_t data_bytes) {
  std::string file;
  for (unsigned shift = 0; shift < 64; shift += 8) file += static_cast<char>((header.size() >> shift) & 0xff);
  return file + header + std::string(data_bytes, '\1');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
      safetensors(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
                  R"("c":{"dtype":"I64","shape":[1],"data_offsets":[10,18]}})",
                  18),
      safetensors("{}", 0)};
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view bytes = fuzz::text_of(data, size);
  const fuzz::InputFile input(bytes);
  const auto file = fuzz::accepted([&] { return block::SafetensorsFile(input.path()); });
  if (!file) return 0;
  for (const auto& [name, entry] : file->entries()) {
    fuzz::require(entry.begin <= entry.end && entry.end <= bytes.size(), "tensors lie inside the file");
    const auto values = fuzz::accepted([&] { return file->read(name, entry.shape); });
    fuzz::require(!values || values->size() * 2 <= entry.end - entry.begin, "values come from the file");
  }
  return 0;
}
