#include "block/random.h"

#include <Random123/philox.h>

namespace fusetune::block {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint32_t stream, std::uint64_t index,
                                    std::uint32_t extra) {
  const r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter{
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream, extra}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace fusetune::block
