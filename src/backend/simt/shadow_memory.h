// What checked launches remember of every two bytes of memory: who wrote them and who has read them since.
//
// An access is known by a stamp: its thread, and how many barriers of each kind the thread had passed. Two
// accesses are ordered when a barrier lies between them that both threads took part in, which the highest bit
// in which their stamps differ tells: if it belongs to a count of barriers, they are ordered; if it belongs
// to a block, a warp or a lane, they are not. (Counters order blocks in another way: see VectorClock.)
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace fusetune::backend::simt {

/// Barriers of the grid, block, barriers of the block, warp, barriers of the warp, lane: from the highest bit
/// down. 0: no access; 1: the host's, before every other.
using Stamp = std::uint64_t;

namespace stamp {

struct Field {
  int shift, bits;
  constexpr std::uint32_t limit() const { return std::uint32_t{1} << bits; }
  constexpr Stamp put(std::uint32_t value) const { return static_cast<Stamp>(value) << shift; }
  constexpr std::uint32_t get(Stamp s) const {
    return static_cast<std::uint32_t>(s >> shift) & (limit() - 1);
  }
};
inline constexpr Field kLane{0, 6};
inline constexpr Field kWarpEpoch{6, 13};
inline constexpr Field kWarp{19, 5};
inline constexpr Field kBlockEpoch{24, 18};
inline constexpr Field kBlock{42, 13};
inline constexpr Field kGridEpoch{55, 8};

inline constexpr Stamp kHost = 1;
inline constexpr Stamp kFlag = Stamp{1} << 63;  // see ShadowCell
// In place of a lane: the warp as a whole (ldmatrix), an operation on a counter.
inline constexpr std::uint32_t kWholeWarp = 32;
inline constexpr std::uint32_t kAtomic = 33;

inline bool is_atomic(Stamp s) { return kLane.get(s) == kAtomic; }
inline Stamp with_lane(Stamp s, std::uint32_t lane) { return (s & ~(kLane.put(kLane.limit() - 1))) | lane; }

/// How far apart the threads of two accesses are that no barrier orders.
enum class Distance : std::uint8_t { ordered, lanes, warps, blocks };

constexpr std::array<Distance, 64> distance_of_bit() {
  std::array<Distance, 64> table{};
  for (int bit = 0; bit < 64; ++bit) {
    const auto in = [bit](Field field) { return bit >= field.shift && bit < field.shift + field.bits; };
    table[static_cast<std::size_t>(bit)] = in(kLane)    ? Distance::lanes
                                           : in(kWarp)  ? Distance::warps
                                           : in(kBlock) ? Distance::blocks
                                                        : Distance::ordered;
  }
  return table;
}
inline constexpr std::array<Distance, 64> kDistanceOfBit = distance_of_bit();

inline Distance distance(Stamp a, Stamp b) {
  const Stamp difference = a ^ b;
  if (difference == 0) return Distance::ordered;
  return kDistanceOfBit[static_cast<std::size_t>(63 - std::countl_zero(difference))];
}

}  // namespace stamp

/// Two bytes of memory. Two readers suffice where barriers order everything: they are kept as far apart as
/// possible, so that whoever is unordered with any reader is unordered with one of them. Where counters order
/// blocks, further readers go to a side table.
struct ShadowCell {
  Stamp write;         // kFlag: by a copy that has not arrived
  Stamp read;          // since that write
  Stamp distant_read;  // kFlag: the side table knows more readers
};

inline constexpr std::size_t kShadowGranule = 2;  // bytes of memory per cell

/// The cells of a range of memory: zero at first, committed as they are touched.
class ShadowRegion {
 public:
  ShadowRegion() = default;
  /// Throws base::EnvironmentError.
  explicit ShadowRegion(std::size_t memory_bytes);
  ~ShadowRegion();
  ShadowRegion(ShadowRegion&& other) noexcept;
  ShadowRegion& operator=(ShadowRegion&& other) noexcept;

  ShadowCell* cells() const { return cells_; }
  std::size_t size() const { return count_; }
  explicit operator bool() const { return cells_ != nullptr; }

 private:
  ShadowCell* cells_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace fusetune::backend::simt
