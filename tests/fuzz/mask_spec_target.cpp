// An attention mask's text: what reads as a mask is canonical, reads back, and paints a small mask or says
// why not.
#include "block/mask.h"
#include "reads_files.h"
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() {
  return {"full",
          "full:padding_avg=9,causal=1",
          "padding:lengths=3/0/128",
          "padding:avg=40,seed=7",
          "strided:step=4",
          "fixed:step=12,padding_lengths=1/2",
          "sliding:window=64,causal=1",
          "dilated:window=3,rate=2,causal=0",
          "longformer:global=2,window=5",
          "bigbird:global=1,window=2,block=4,random=3,seed=9,causal=1",
          "block_diagonal:block=16",
          "file:path=a\\,b\\ c\\\\.npy,digest=0123456789abcdef"};
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view text = fuzz::text_of(data, size);
  if (fuzz::reads_files(text)) return 0;
  const auto spec = fuzz::accepted([&] { return block::MaskSpec::parse(text); });
  if (!spec) return 0;
  fuzz::require(spec->canonical() == *spec, "what is read is canonical");
  const std::string written = spec->to_string();
  const auto again = fuzz::accepted([&] { return block::MaskSpec::parse(written); });
  fuzz::require(again && *again == *spec, "a mask reads back from its text: " + written);
  if (spec->pattern == "file") return 0;
  constexpr std::int64_t kBatch = 2, kSeq = 70;  // a word of the bitmap and a part of one
  const auto mask = fuzz::accepted([&] { return block::Mask(*spec, kBatch, kSeq); });
  if (mask) block::MaskTiles::build(*mask);
  return 0;
}
