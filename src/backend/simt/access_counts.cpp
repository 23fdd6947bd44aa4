#include "backend/simt/access_counts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace fusetune::backend::simt {
namespace {

constexpr std::size_t kBanks = 32, kBankBytes = 4, kPassBytes = kBanks * kBankBytes;

/// Of the lanes of one warp, in order: offsets of their accesses by one instruction.
struct WarpAccess {
  SharedAccess::Kind kind = SharedAccess::Kind::load;
  std::size_t bytes = 0;
  std::vector<std::pair<int, std::size_t>> lanes;
};

/// Passes beyond the first for lanes that fit one: the most words that any bank is asked for, less one.
std::int64_t conflicts_of_pass(const WarpAccess& access, std::size_t begin, std::size_t end) {
  std::array<std::vector<std::size_t>, kBanks> words;
  std::size_t most = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t first = access.lanes[i].second / kBankBytes;
    const std::size_t last = (access.lanes[i].second + access.bytes - 1) / kBankBytes;
    for (std::size_t word = first; word <= last; ++word) {
      std::vector<std::size_t>& bank = words[word % kBanks];
      if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
      most = std::max(most, bank.size());
    }
  }
  return static_cast<std::int64_t>(most) - 1;
}

std::int64_t conflicts_of(const WarpAccess& access) {
  const int lanes_of_pass = static_cast<int>(kPassBytes / std::max(access.bytes, kBankBytes));
  std::int64_t conflicts = 0;
  for (std::size_t begin = 0; begin < access.lanes.size();) {
    const int pass = access.lanes[begin].first / lanes_of_pass;
    std::size_t end = begin;
    while (end < access.lanes.size() && access.lanes[end].first / lanes_of_pass == pass) ++end;
    conflicts += conflicts_of_pass(access, begin, end);
    begin = end;
  }
  return conflicts;
}

SharedCounts& counts_of(LaunchCounts& counts, SharedAccess::Kind kind) {
  switch (kind) {
    case SharedAccess::Kind::matrix_load:
      return counts.matrix_loads;
    case SharedAccess::Kind::copy:
      return counts.copies;
    case SharedAccess::Kind::load:
      return counts.loads;
    case SharedAccess::Kind::store:
      break;
  }
  return counts.stores;
}

}  // namespace

void note_shared_access(SharedAccess::Kind kind, const void* address, std::size_t bytes, const void* pc) {
  Lane* const lane = current_lane;
  if (lane == nullptr || the_machine->options.counts == nullptr) return;
  const unsigned char* const shared = lane->warp->block->shared;
  const auto offset = static_cast<std::size_t>(static_cast<const unsigned char*>(address) - shared);
  if (offset < the_machine->shared_bytes) lane->accesses.push_back({kind, offset, bytes, pc});
}

void count_accesses(Warp& warp) {
  LaunchCounts* const counts = the_machine->options.counts;
  if (counts == nullptr) return;
  std::map<std::pair<const void*, int>, WarpAccess> together;
  for (int i = 0; i < 32; ++i) {
    std::map<const void*, int> done;
    for (const SharedAccess& access : warp.lanes[i].accesses) {
      WarpAccess& whole = together[{access.pc, done[access.pc]++}];
      whole.kind = access.kind;
      whole.bytes = access.bytes;
      whole.lanes.emplace_back(i, access.offset);
    }
    warp.lanes[i].accesses.clear();
  }
  for (const auto& [unused, access] : together) {
    SharedCounts& sum = counts_of(*counts, access.kind);
    ++sum.accesses;
    sum.conflicts += conflicts_of(access);
  }
}

}  // namespace fusetune::backend::simt
