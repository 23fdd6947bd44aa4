// Claims, the same for segments and for plans: which process measures a candidate. Internal to store.
//
// A claim is a committed row `started` with its owner. Callers run these functions inside a transaction that
// holds the write lock. `replaced` keeps, in memory, what this process's claims stand in the place of.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "store/plan_rows.h"
#include "store/segment_rows.h"
#include "store/tuning_store.h"

namespace fusetune::store {

template <typename Record>
using Replaced = std::vector<Row<Record>>;

template <typename Record>
typename Replaced<Record>::iterator find_replaced(Replaced<Record>& replaced, const Record& record) {
  return std::find_if(replaced.begin(), replaced.end(),
                      [&](const Row<Record>& row) { return key_of(row.record) == key_of(record); });
}

/// The row as it is once a dead process's claim is counted as a crash; nullopt: a living process holds it.
template <typename Record>
std::optional<Row<Record>> settled(SQLite::Database& database, Row<Record> row) {
  if (!claim_is_dead(row.owner, row.record.created)) return std::nullopt;
  row.started = false;
  make_crashed(row.record);
  write_row(database, row);
  return row;
}

template <typename Record>
BasicClaim<Record> claim_row(SQLite::Database& database, const std::string& self, Replaced<Record>& replaced,
                             const Record& candidate, ClaimPolicy policy) {
  std::optional<Row<Record>> row = select_row(database, key_of(candidate));
  if (row && row->started && row->owner != self) {
    row = settled(database, std::move(*row));
    if (!row) return {ClaimState::held, std::nullopt};
  }
  const bool answered = row && !row->started;
  const bool again = answered && (policy == ClaimPolicy::fresh ||
                                  (policy == ClaimPolicy::retry && may_retry(row->record, candidate.limits)));
  if (answered && !again) return {ClaimState::measured, std::move(row->record)};
  Row<Record> started{candidate, true, self};
  started.record.measurement = {};
  started.record.created = now();
  const bool continues = row && policy != ClaimPolicy::fresh;
  started.record.attempts = continues ? row->record.attempts + 1 : 1;
  started.record.abandoned = continues ? row->record.abandoned : 0;
  if (row) inherit(started.record, row->record);
  if (answered) replaced.push_back(std::move(*row));
  write_row(database, started);
  return {ClaimState::granted, std::nullopt};
}

template <typename Record>
void record_row(SQLite::Database& database, const std::string& self, Replaced<Record>& replaced,
                const Record& result) {
  Row<Record> row{result, false, self};
  // How often it was tried is the claim's knowledge, not the caller's.
  if (const std::optional<Row<Record>> claimed = select_row(database, key_of(result))) {
    row.record.attempts = claimed->record.attempts;
    row.record.abandoned = claimed->record.abandoned;
    inherit(row.record, claimed->record);
  }
  write_row(database, row);
  if (const auto old = find_replaced(replaced, result); old != replaced.end()) replaced.erase(old);
}

template <typename Record, typename Key>
void release_row(SQLite::Database& database, const std::string& self, Replaced<Record>& replaced,
                 const Key& key) {
  const std::optional<Row<Record>> row = select_row(database, key);
  if (!row || !row->started || row->owner != self) return;
  const auto old = find_replaced(replaced, row->record);
  if (old == replaced.end()) {
    delete_row(database, key);
    return;
  }
  write_row(database, *old);
  replaced.erase(old);
}

/// Settles all claims of `rows` whose process is dead; how many those were.
template <typename Record>
int settle_dead(SQLite::Database& database, std::vector<Row<Record>> rows) {
  int settled_rows = 0;
  for (Row<Record>& row : rows) settled_rows += settled(database, std::move(row)).has_value();
  return settled_rows;
}

}  // namespace fusetune::store
